#include "generate/compare_runs.h"

namespace tandem {
namespace {

/// What both sides say comes next, or where they part.
class Both {
 public:
  Both(Engine& left, Engine& right, const CompareRunsOptions& options)
      : left_(left), right_(right), options_(options) {}
  std::optional<FirstDifference> difference;

  /// The left side's choice.
  Result<int32_t> next(const std::vector<int32_t>& ids) {
    TANDEM_TRY(NextLogits left, next_logits(left_, {ids}));
    TANDEM_TRY(NextLogits right, next_logits(right_, {ids}));
    if (left.vocab != right.vocab)
      return not_equal("verify_c4", "one side has {} logits a token, the other {}", left.vocab, right.vocab);
    if (!all_finite(left.values) || !all_finite(right.values))
      return not_equal("verify_c4", "token {}: a logit is NaN or infinite", ids.size());
    keep_allowed(left.values, options_.allowed);
    keep_allowed(right.values, options_.allowed);
    const FirstDifference found = difference_of(left.values, right.values, options_.top1_gap);
    if (found.reference_id != found.other_id) difference = found;
    return found.reference_id;
  }

 private:
  Engine& left_;
  Engine& right_;
  const CompareRunsOptions& options_;
};

std::string text_of(const text::Tokenizer& tokenizer, int32_t id) {
  return tokenizer.decode({static_cast<uint32_t>(id)}, false);
}

/// One side from the parting on.
Result<Answer> rest(Engine& engine, AnswerWriter writer, const std::vector<int32_t>& prompt,
                    const Generated& common, const CompareRunsOptions& options) {
  writer.show_to(nullptr);
  std::vector<int32_t> ids = prompt;
  ids.insert(ids.end(), common.ids.begin(), common.ids.end());
  const GenerateOptions loop{options.answer.max_new_tokens - common.ids.size(), options.answer.stop_ids,
                             [&](int32_t id) { return writer.step(id); }, options.answer.interrupted};
  TANDEM_TRY(Generated made, generate(greedy(engine, options.allowed), std::move(ids), loop));
  made.ids.insert(made.ids.begin(), common.ids.begin(), common.ids.end());
  return writer.finish(std::move(made));
}

}  // namespace

Result<ComparedRuns> compare_runs(Engine& left, Engine& right, const text::Tokenizer& tokenizer,
                                  const std::vector<int32_t>& prompt, const CompareRunsOptions& options) {
  Both both(left, right, options);
  AnswerWriter writer(tokenizer, prompt, options.answer);
  const GenerateOptions loop{options.answer.max_new_tokens, options.answer.stop_ids,
                             [&](int32_t id) { return !both.difference && writer.step(id); },
                             options.answer.interrupted};
  TANDEM_TRY(Generated made, generate([&](const auto& ids) { return both.next(ids); }, prompt, loop));
  ComparedRuns runs;
  if (!both.difference) {
    runs.left = runs.right = writer.finish(std::move(made));
    return runs;
  }
  made.ids.pop_back();  // the left side's choice: it makes it again
  runs.difference = std::move(both.difference);
  runs.difference->prompt_tokens = prompt.size();
  runs.difference->step = made.ids.size();
  runs.difference->reference_text = text_of(tokenizer, runs.difference->reference_id);
  runs.difference->other_text = text_of(tokenizer, runs.difference->other_id);
  TANDEM_TRY(runs.left, rest(left, writer, prompt, made, options));
  TANDEM_TRY(runs.right, rest(right, writer, prompt, made, options));
  return runs;
}

}  // namespace tandem
