#pragma once
// An answer as text, while it is made: whole characters, up to a stop string, reasoning apart.

#include "generate/generate.h"
#include "text/reasoning.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace tandem {

struct AnswerOptions {
  uint64_t max_new_tokens = 256;
  std::vector<int32_t> stop_ids = {};
  std::vector<std::string> stop_strings = {};
  bool reasoning_is_open = false;                         ///< the prompt ends with <think>
  std::function<void(const text::Part& part)> show = {};  ///< each piece, as soon as it is known
  std::function<bool()> interrupted = {};                 ///< asked before each token
};

struct Answer {
  std::vector<int32_t> ids = {};  ///< the new ones, with the stop token
  std::string text = {};          ///< without stop token, stop string and reasoning
  std::string reasoning = {};
  Finish finish = Finish::length;
  std::string stopped_by = {};  ///< the stop string that was found, or empty
};

/// Tokens to text, to what of it belongs to the answer, to the answer's two parts. A copy goes on by itself.
class AnswerWriter {
 public:
  AnswerWriter(const text::Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
               const AnswerOptions& options);
  /// Adds a token; false once a stop string is there.
  bool step(int32_t id);
  /// The answer, when no more comes. `made` is what the loop gave.
  Answer finish(Generated made);
  /// From now on pieces go there; null: nowhere.
  void show_to(std::function<void(const text::Part& part)> show) { show_ = std::move(show); }

 private:
  void write(const std::vector<text::Part>& parts);

  text::StreamDecoder decoder_;
  text::StopStrings stop_;
  text::ReasoningSplitter splitter_;
  std::function<void(const text::Part& part)> show_;
  std::string text_, reasoning_;
};

/// Continues a prompt. Errors: those of `next`.
Result<Answer> answer(const NextToken& next, const text::Tokenizer& tokenizer,
                      const std::vector<int32_t>& prompt, const AnswerOptions& options);

}  // namespace tandem
