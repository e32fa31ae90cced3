#include "verify/generation_level.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "verify/bleu.h"
#include "verify/next_logits.h"

namespace tandem {
namespace {

struct PartingRow {
  Parting parting;
  std::string_view name;
  bool excused;
};
constexpr PartingRow kPartings[] = {
    {Parting::near_tie, "near tie", true},
    {Parting::routing_near_tie, "routing near tie", true},
    {Parting::fault, "fault", false},
    {Parting::not_finite, "not finite", false},
};

const PartingRow& row(Parting parting) {
  return *std::find_if(std::begin(kPartings), std::end(kPartings),
                       [&](const PartingRow& entry) { return entry.parting == parting; });
}

using Ids = std::vector<int32_t>;

/// One prompt on its way: both sides' new tokens, and where they part.
struct Continuation {
  const Prompt* prompt = nullptr;
  Ids reference, other;
  std::optional<FirstDifference> difference;

  Ids reference_ids() const { return joined(reference); }
  Ids other_ids() const { return joined(other); }
  /// Both continuations as far as they are compared as text.
  size_t compared(const Ids& made) const {
    return difference && is_excused(difference->parting) ? difference->step : made.size();
  }

 private:
  Ids joined(const Ids& made) const {
    Ids ids = prompt->ids;
    ids.insert(ids.end(), made.begin(), made.end());
    return ids;
  }
};

double rms(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

class GenerationComparison {
 public:
  GenerationComparison(Engine& reference, Engine& other, const std::vector<Prompt>& prompts,
                       const GenerationOptions& options)
      : reference_(reference), other_(other), options_(options), table_(tolerance_of(options.model.lowest)) {
    for (const Prompt& prompt : prompts) rows_.push_back({&prompt, {}, {}, {}});
    // Shortest first: rows of a batch are then of nearly one length.
    for (Continuation& continuation : rows_) by_length_.push_back(&continuation);
    std::stable_sort(by_length_.begin(), by_length_.end(), [](const Continuation* a, const Continuation* b) {
      return a->prompt->ids.size() < b->prompt->ids.size();
    });
  }

  Result<GenerationLevel> run() && {
    level_.prompts = rows_.size();
    level_.max_new_tokens = options_.max_new_tokens;
    for (uint64_t step = 0; step < options_.max_new_tokens; ++step) {
      if (options_.stop) {
        TANDEM_CHECK(options_.stop());
      }
      TANDEM_CHECK(take_step());
    }
    for (const Continuation& continuation : rows_) count(continuation);
    add_text();
    judge();
    return std::move(level_);
  }

 private:
  /// A continuation that has parted goes on only if its text will be looked at.
  bool goes_on(const Continuation& continuation) const {
    return !continuation.difference ||
           (continuation.difference->parting == Parting::fault && options_.tokenizer != nullptr);
  }

  Status take_step() {
    std::vector<Continuation*> active;
    std::copy_if(by_length_.begin(), by_length_.end(), std::back_inserter(active),
                 [&](const Continuation* continuation) { return goes_on(*continuation); });
    for (size_t first = 0; first < active.size();) {
      const size_t count = batch_at(active, first);
      TANDEM_CHECK(take_step(std::span(active).subspan(first, count)));
      first += count;
    }
    return {};
  }

  /// How many rows from `first` on fit one call: at least one.
  size_t batch_at(const std::vector<Continuation*>& active, size_t first) const {
    size_t count = 1;
    const auto logits_with = [&](size_t rows) {
      const Continuation& longest = *active[first + rows - 1];
      const size_t tokens = longest.prompt->ids.size() + longest.reference.size();
      return static_cast<double>(rows) * static_cast<double>(tokens) *
             static_cast<double>(options_.vocab_size);
    };
    while (first + count < active.size() &&
           logits_with(count + 1) <= static_cast<double>(options_.max_logits))
      ++count;
    return count;
  }

  Status take_step(std::span<Continuation* const> batch) {
    std::vector<Ids> reference_rows, other_rows;
    for (const Continuation* continuation : batch) {
      reference_rows.push_back(continuation->reference_ids());
      other_rows.push_back(continuation->other_ids());
    }
    TANDEM_TRY(const NextLogits expected, next_logits(reference_, reference_rows));
    TANDEM_TRY(const NextLogits found, next_logits(other_, other_rows));
    if (expected.vocab != found.vocab)
      return not_equal("verify_c4", "one side has {} logits a token, the other {}", expected.vocab,
                       found.vocab);
    for (size_t i = 0; i < batch.size(); ++i) {
      TANDEM_CHECK(take_token(*batch[i], expected.row(i), found.row(i)));
    }
    return {};
  }

  Status take_token(Continuation& continuation, std::span<const float> expected,
                    std::span<const float> found) {
    if (!continuation.difference) {
      TANDEM_CHECK(compare(continuation, expected, found));
    }
    continuation.reference.push_back(most_likely(expected));
    continuation.other.push_back(most_likely(found));
    return {};
  }

  Status compare(Continuation& continuation, std::span<const float> expected, std::span<const float> found) {
    ++level_.tokens;
    FirstDifference difference;
    if (!all_finite(expected) || !all_finite(found)) {
      difference.parting = Parting::not_finite;
    } else {
      difference = difference_of(expected, found, table_.top1_gap);
      if (difference.reference_id == difference.other_id) return {};
    }
    if (difference.parting == Parting::fault) {
      TANDEM_TRY(const bool excused, routing_excuses(continuation));
      if (excused) difference.parting = Parting::routing_near_tie;
    }
    difference.prompt = continuation.prompt->name;
    difference.prompt_tokens = continuation.prompt->ids.size();
    difference.step = continuation.reference.size();
    continuation.difference = std::move(difference);
    return {};
  }

  /// Does the row's routing hang on near ties, and are its logits equal when those fall as in the reference?
  Result<bool> routing_excuses(const Continuation& continuation) {
    if (!options_.model.moe_layers || !options_.model.reference_has_margins) return false;
    const Probe probe = make_probe(continuation.prompt->name, {continuation.reference_ids()}, Padding::right);
    TANDEM_TRY(const std::vector<NearTie> ties, routing_near_ties(reference_, probe, options_.model));
    if (ties.empty()) return false;
    TANDEM_TRY(const ModelLevel level, compare_models(reference_, other_, {probe}, options_.model));
    return level.passed();
  }

  void count(const Continuation& continuation) {
    if (!continuation.difference) {
      ++level_.exact;
      return;
    }
    ++(is_excused(continuation.difference->parting) ? level_.near_ties : level_.faults);
    level_.differences.push_back(*continuation.difference);
  }

  void add_text() {
    if (options_.tokenizer == nullptr) return;
    for (FirstDifference& difference : level_.differences) {
      if (difference.parting == Parting::not_finite) continue;
      difference.reference_text = text_of(std::span(&difference.reference_id, 1));
      difference.other_text = text_of(std::span(&difference.other_id, 1));
    }
    std::vector<TextPair> corpus;
    for (const Continuation& row : rows_)
      corpus.push_back({.text = text_of(std::span(row.other).first(row.compared(row.other))),
                        .reference = text_of(std::span(row.reference).first(row.compared(row.reference)))});
    level_.bleu = bleu(corpus);
    if (!level_.bleu) level_.skipped.push_back("BLEU: no continuation has four words");
  }

  std::string text_of(std::span<const int32_t> ids) const {
    return options_.tokenizer->decode({ids.begin(), ids.end()}, false);
  }

  void judge() {
    if (level_.tokens == 0) level_.failures.push_back("nothing was compared");
    if (level_.faults)
      level_.failures.push_back(
          fmt::format("{} of {} prompts part where it is no near tie", level_.faults, level_.prompts));
    if (level_.bleu && !(*level_.bleu >= kBleuBar))
      level_.failures.push_back(fmt::format("bleu {:.4f} is below {}", *level_.bleu, kBleuBar));
  }

  Engine& reference_;
  Engine& other_;
  const GenerationOptions& options_;
  const Tolerance& table_;
  std::vector<Continuation> rows_;
  std::vector<Continuation*> by_length_;
  GenerationLevel level_;
};

Json to_json(const FirstDifference& difference) {
  Json json{{"prompt", difference.prompt},
            {"prompt_tokens", difference.prompt_tokens},
            {"step", difference.step},
            {"class", name(difference.parting)}};
  if (difference.parting == Parting::not_finite) return json;
  json["reference_id"] = difference.reference_id;
  json["other_id"] = difference.other_id;
  json["reference_text"] = difference.reference_text;
  json["other_text"] = difference.other_text;
  json["reference_margin"] = difference.reference_margin;
  json["other_margin"] = difference.other_margin;
  json["bar"] = difference.bar;
  return json;
}

}  // namespace

std::string_view name(Parting parting) { return row(parting).name; }

bool is_excused(Parting parting) { return row(parting).excused; }

FirstDifference difference_of(std::span<const float> reference, std::span<const float> other,
                              double top1_gap) {
  return difference_of(reference, most_likely(reference), other, most_likely(other), top1_gap);
}

FirstDifference difference_of(std::span<const float> reference, int32_t reference_id,
                              std::span<const float> other, int32_t other_id, double top1_gap) {
  FirstDifference found;
  found.reference_id = reference_id;
  found.other_id = other_id;
  found.reference_margin = static_cast<double>(reference[found.reference_id]) - reference[found.other_id];
  found.other_margin = static_cast<double>(other[found.other_id]) - other[found.reference_id];
  found.bar = top1_gap * std::max(1.0, rms(reference));
  const bool near = found.reference_margin <= found.bar && found.other_margin <= found.bar;
  found.parting = near ? Parting::near_tie : Parting::fault;
  return found;
}

double GenerationLevel::exact_share() const {
  return prompts ? static_cast<double>(exact) / static_cast<double>(prompts) : 0;
}

Json to_json(const GenerationLevel& level) {
  Json json{{"equal", level.passed()},
            {"prompts", level.prompts},
            {"max_new_tokens", level.max_new_tokens},
            {"tokens", level.tokens},
            {"exact", level.exact},
            {"exact_share", level.exact_share()},
            {"near_ties", level.near_ties},
            {"faults", level.faults},
            {"bleu", level.bleu ? Json(*level.bleu) : Json()},
            {"bleu_bar", kBleuBar},
            {"first_differences", Json::array()},
            {"skipped", level.skipped},
            {"failures", level.failures}};
  for (const FirstDifference& difference : level.differences)
    json["first_differences"].push_back(to_json(difference));
  return json;
}

Result<GenerationLevel> compare_generation(Engine& reference, Engine& other,
                                           const std::vector<Prompt>& prompts,
                                           const GenerationOptions& options) {
  return GenerationComparison(reference, other, prompts, options).run();
}

}  // namespace tandem
