#pragma once
// An answer's two parts: what stands between <think> and </think>, and the rest.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::text {

struct Part {
  bool reasoning = false;
  std::string text;
  bool operator==(const Part&) const = default;
};

/// Splits an answer while it is written. Reasoning comes first, or not at all: a <think> after other words is
/// text. The marks, and blanks at either side of them, belong to neither part.
class ReasoningSplitter {
 public:
  /// `open`: the prompt itself ends with <think>.
  explicit ReasoningSplitter(bool open);
  /// What is known of the parts by now, in order, none empty.
  std::vector<Part> step(std::string_view text);
  /// What waited, when no more comes.
  std::vector<Part> finish();

 private:
  enum class State { before, reasoning, after, answer };
  bool advance(std::vector<Part>& parts, bool last);

  State state_;
  std::string pending_;
};

/// Whether a prompt leaves the answer inside its reasoning: <think> is its last word.
bool ends_with_open_reasoning(std::string_view prompt);

}  // namespace tandem::text
