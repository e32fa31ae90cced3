#pragma once
// Texts that end an answer, found while it is written.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::text {

/// How much of a text's end may be the beginning of `word`, short of the whole word: bytes. `word` is not
/// empty.
size_t end_that_begins(std::string_view text, std::string_view word);

/// Passes text on until one of the strings is complete: neither it nor what follows is passed on. An end that
/// may still become one of them waits.
class StopStrings {
 public:
  /// Empty strings stop nothing.
  explicit StopStrings(std::vector<std::string> strings);
  /// The text that is now known to belong to the answer; nothing once a string was found.
  std::string step(std::string_view text);
  /// What waited, when no more comes.
  std::string finish();
  /// The string that was found, or empty.
  const std::string& found() const { return found_; }

 private:
  size_t waiting() const;

  std::vector<std::string> strings_;
  std::string pending_;
  std::string found_;
};

}  // namespace tandem::text
