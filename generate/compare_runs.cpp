#include "generate/compare_runs.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

bool is_greedy(const SamplingOptions& options) {
  return options.temperature == 0 && options.repetition_penalty == 1;
}

/// The largest difference of two rows among the allowed ids.
double largest_difference(std::span<const float> left, std::span<const float> right,
                          const std::vector<bool>& allowed) {
  double largest = 0;
  for (size_t id = 0; id < left.size(); ++id)
    if (allowed.empty() || (id < allowed.size() && allowed[id]))
      largest = std::max(largest, std::abs(static_cast<double>(left[id]) - right[id]));
  return largest;
}

/// What both sides say comes next, or where they part.
class Both {
 public:
  Both(Engine& left, Engine& right, const CompareRunsOptions& options)
      : left_(left), right_(right), options_(options) {}
  std::optional<FirstDifference> difference;
  std::optional<double> logit_difference;

  /// The left side's choice.
  Result<int32_t> next(const std::vector<int32_t>& ids) {
    TANDEM_TRY(NextLogits left, next_logits(left_, {ids}));
    TANDEM_TRY(NextLogits right, next_logits(right_, {ids}));
    if (left.vocab != right.vocab)
      return not_equal("verify_c4", "one side has {} logits a token, the other {}", left.vocab, right.vocab);
    if (!all_finite(left.values) || !all_finite(right.values))
      return not_equal("verify_c4", "token {}: a logit is NaN or infinite", ids.size());
    TANDEM_TRY(const int32_t left_id, choose(left.values, ids, options_.choice));
    TANDEM_TRY(const int32_t right_id, choose(right.values, ids, options_.choice));
    if (left_id != right_id) part(left.values, left_id, right.values, right_id);
    return left_id;
  }

 private:
  void part(std::span<float> left, int32_t left_id, std::span<float> right, int32_t right_id) {
    const std::vector<bool>& allowed = options_.choice.allowed;
    const double largest = largest_difference(left, right, allowed);
    keep_allowed(left, allowed);
    keep_allowed(right, allowed);
    const bool by_margin = is_greedy(options_.choice.sampling);
    FirstDifference found =
        difference_of(left, left_id, right, right_id, by_margin ? options_.top1_gap : options_.max_abs_error);
    if (!by_margin) {
      found.parting = largest <= found.bar ? Parting::near_tie : Parting::fault;
      logit_difference = largest;
    }
    difference = found;
  }

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
  TANDEM_TRY(Generated made, generate(chosen(engine, options.choice), std::move(ids), loop));
  made.ids.insert(made.ids.begin(), common.ids.begin(), common.ids.end());
  return writer.finish(std::move(made));
}

}  // namespace

Result<ComparedRuns> compare_runs(Engine& left, Engine& right, const text::Tokenizer& tokenizer,
                                  const std::vector<int32_t>& prompt, CompareRunsOptions options) {
  options.choice.prompt_tokens = prompt.size();
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
  runs.logit_difference = both.logit_difference;
  runs.difference->prompt_tokens = prompt.size();
  runs.difference->step = made.ids.size();
  runs.difference->reference_text = text_of(tokenizer, runs.difference->reference_id);
  runs.difference->other_text = text_of(tokenizer, runs.difference->other_id);
  TANDEM_TRY(runs.left, rest(left, writer, prompt, made, options));
  TANDEM_TRY(runs.right, rest(right, writer, prompt, made, options));
  return runs;
}

}  // namespace tandem
