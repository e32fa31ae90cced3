#pragma once
// Decoding token by token, as a model writes them.

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tandem::text {

/// Turns ids into text as they come. What step() and finish() return, one after the other, is decode() of all
/// ids, and no piece of it ends within a character.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens = true);
  /// The text that this id completes; empty while a character is not whole.
  std::string step(uint32_t id);
  /// What is left: bytes that never became a character, as U+FFFD.
  std::string finish();

 private:
  std::string step_bytes(uint32_t id);
  std::string step_words(uint32_t id);

  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::string bytes_;          ///< of a character that is not whole yet
  std::vector<uint32_t> ids_;  ///< a window: those whose text stands already, and those that wait
  size_t shown_ = 0;           ///< how many of the window stand
  std::string shown_text_;     ///< their text
};

}  // namespace tandem::text
