#include "text/reasoning.h"

#include <algorithm>

#include "text/stop_strings.h"

namespace tandem::text {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";
constexpr std::string_view kBlanks = " \t\r\n";

size_t blanks_before(std::string_view text) { return std::min(text.find_first_not_of(kBlanks), text.size()); }

size_t without_blanks_after(std::string_view text) { return text.find_last_not_of(kBlanks) + 1; }

void add(std::vector<Part>& parts, bool reasoning, std::string_view text) {
  if (!text.empty()) parts.push_back({reasoning, std::string(text)});
}

}  // namespace

bool ends_with_open_reasoning(std::string_view prompt) {
  return prompt.substr(0, without_blanks_after(prompt)).ends_with(kOpen);
}

// The prompt's mark as if the answer had it: the blanks that follow it are then left out in one place.
ReasoningSplitter::ReasoningSplitter(bool open) : state_(State::before), pending_(open ? kOpen : "") {}

std::vector<Part> ReasoningSplitter::step(std::string_view text) {
  pending_ += text;
  std::vector<Part> parts;
  while (advance(parts, false)) {
  }
  return parts;
}

std::vector<Part> ReasoningSplitter::finish() {
  std::vector<Part> parts;
  while (advance(parts, true)) {
  }
  return parts;
}

/// One step; false when nothing more is known. `last`: nothing follows `pending_`.
bool ReasoningSplitter::advance(std::vector<Part>& parts, bool last) {
  const std::string_view text = pending_;
  const size_t blanks = blanks_before(text);
  switch (state_) {
    case State::before: {
      const std::string_view words = text.substr(blanks);
      if (words.starts_with(kOpen)) {
        // The blanks after it may still come; they are left out below.
        const size_t begin = blanks + kOpen.size() + blanks_before(words.substr(kOpen.size()));
        if (begin == text.size() && !last) return false;
        pending_.erase(0, begin);
        state_ = State::reasoning;
        return true;
      }
      if (kOpen.starts_with(words) && !last) return false;
      state_ = State::answer;
      return true;
    }
    case State::reasoning: {
      const size_t close = text.find(kClose);
      const bool ends = close != text.npos;
      const std::string_view known =
          ends ? text.substr(0, close) : text.substr(0, text.size() - end_that_begins(text, kClose));
      const size_t whole = ends || !last ? without_blanks_after(known) : text.size();
      add(parts, true, text.substr(0, whole));
      pending_.erase(0, ends ? close + kClose.size() : whole);
      if (ends) state_ = State::after;
      return ends;
    }
    case State::after:
      pending_.erase(0, blanks);
      if (pending_.empty()) return false;
      state_ = State::answer;
      return true;
    case State::answer:
      add(parts, false, text);
      pending_.clear();
      return false;
  }
  return false;
}

}  // namespace tandem::text
