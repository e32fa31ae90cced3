#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace tandem::text {

size_t end_that_begins(std::string_view text, std::string_view word) {
  for (size_t size = std::min(text.size(), word.size() - 1); size > 0; --size)
    if (text.ends_with(word.substr(0, size))) return size;
  return 0;
}

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  std::erase(strings_, std::string());
}

std::string StopStrings::step(std::string_view text) {
  if (!found_.empty()) return {};
  pending_ += text;
  size_t at = pending_.npos;
  for (const std::string& word : strings_)
    if (const size_t place = pending_.find(word); place < at) {
      at = place;
      found_ = word;
    }
  const size_t whole = at != pending_.npos ? at : pending_.size() - waiting();
  std::string passed = pending_.substr(0, whole);
  pending_.erase(0, whole);
  if (!found_.empty()) pending_.clear();
  return passed;
}

std::string StopStrings::finish() { return std::exchange(pending_, {}); }

size_t StopStrings::waiting() const {
  size_t longest = 0;
  for (const std::string& word : strings_) longest = std::max(longest, end_that_begins(pending_, word));
  return longest;
}

}  // namespace tandem::text
