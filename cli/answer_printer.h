#pragma once
// An answer on its way to the standard output.

#include "text/reasoning.h"

namespace tandem {

/// Writes pieces as they come. On a terminal reasoning is dim and control characters are made harmless;
/// elsewhere reasoning stands between <think> and </think>, and text is written as it is.
class AnswerPrinter {
 public:
  AnswerPrinter();
  void show(const text::Part& part);
  /// Ends what is open, and the line.
  void end();
  /// Words that are not the answer's: dim on a terminal, nothing elsewhere.
  void aside(std::string_view words);
  bool terminal() const { return terminal_; }

 private:
  void write(std::string_view text);
  void close_reasoning();

  bool terminal_, dims_;
  bool in_reasoning_ = false;
};

}  // namespace tandem
