#include "generate/answer.h"

namespace tandem {

AnswerWriter::AnswerWriter(const text::Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                           const AnswerOptions& options)
    : decoder_(tokenizer),
      stop_(options.stop_strings),
      splitter_(options.reasoning_is_open),
      show_(options.show) {
  // Some decoders look at what came before: a first word without its blank is not the same text.
  for (const int32_t id : prompt) decoder_.step(static_cast<uint32_t>(id));
}

bool AnswerWriter::step(int32_t id) {
  write(splitter_.step(stop_.step(decoder_.step(static_cast<uint32_t>(id)))));
  return stop_.found().empty();
}

Answer AnswerWriter::finish(Generated made) {
  write(splitter_.step(stop_.step(decoder_.finish())));
  write(splitter_.step(stop_.finish()));
  write(splitter_.finish());
  if (!stop_.found().empty()) made.finish = Finish::stop_string;
  return {std::move(made.ids), text_, reasoning_, made.finish, stop_.found()};
}

void AnswerWriter::write(const std::vector<text::Part>& parts) {
  for (const text::Part& part : parts) {
    (part.reasoning ? reasoning_ : text_) += part.text;
    if (show_) show_(part);
  }
}

Result<Answer> answer(const NextToken& next, const text::Tokenizer& tokenizer,
                      const std::vector<int32_t>& prompt, const AnswerOptions& options) {
  AnswerWriter writer(tokenizer, prompt, options);
  const GenerateOptions loop{options.max_new_tokens, options.stop_ids,
                             [&](int32_t id) { return writer.step(id); }, options.interrupted};
  TANDEM_TRY(Generated made, generate(next, prompt, loop));
  return writer.finish(std::move(made));
}

}  // namespace tandem
