#include "verify/generation_level.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "text/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kVocab = 16;

template <class T>
HostTensor tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  HostTensor made{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(made.data.data(), values.data(), made.data.size());
  return made;
}

std::vector<int32_t> ids_in(const HostTensor& input) {
  std::vector<int32_t> ids(input.data.size() / sizeof(int32_t));
  std::memcpy(ids.data(), input.data.data(), input.data.size());
  return ids;
}

/// A model of the last id alone: after id comes (3 * id + 1) mod 16, with logit 2 over 0 for all others. What
/// it says after one id can be changed.
class FakeEngine : public Engine {
 public:
  std::map<int32_t, std::vector<float>> instead;         ///< logits after an id
  std::map<int32_t, std::vector<float>> instead_forced;  ///< with the reference's experts
  float router_margin = 1;
  uint64_t vocab = kVocab;
  std::vector<Shape> asked;  ///< shapes of input_ids
  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>&) override {
    const Shape shape = inputs.at("input_ids").shape;
    asked.push_back(shape);
    std::vector<float> logits;
    for (const int32_t id : ids_in(inputs.at("input_ids"))) {
      const std::vector<float> row = row_after(id, entry == "logits_forced" ? instead_forced : instead);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const uint64_t tokens = shape[0] * shape[1];
    return HostTensors{
        {"logits", tensor(DType::f32, {shape[0], shape[1], vocab}, logits)},
        {"experts", tensor(DType::i32, {shape[0], 1, shape[1], 1}, std::vector<int32_t>(tokens, 5))},
        {"router_margin",
         tensor(DType::f32, {shape[0], 1, shape[1]}, std::vector<float>(tokens, router_margin))}};
  }

 private:
  std::vector<float> row_after(int32_t id, const std::map<int32_t, std::vector<float>>& changed) const {
    if (const auto found = changed.find(id); found != changed.end()) return found->second;
    std::vector<float> row(vocab, 0);
    row[static_cast<size_t>(3 * id + 1) % vocab] = 2;
    return row;
  }
  EngineInfo info_;
};

/// Id 7 is "w7"; words are put together with blanks.
const text::Tokenizer& words() {
  static const text::Tokenizer made = [] {
    std::vector<std::string> tokens;
    for (int id = 1; id < 16; ++id) tokens.push_back(fmt::format("w{}", id));
    return text::parse({.model = text::word_piece(tokens)}).value();
  }();
  return made;
}

/// Logits with two candidates.
std::vector<float> two(size_t first, float first_logit, size_t second, float second_logit) {
  std::vector<float> row(kVocab, 0);
  row[first] = first_logit;
  row[second] = second_logit;
  return row;
}

// 2 -> 7 -> 6 -> 3 -> 10 -> 15 -> 14; 4 -> 13 -> 8 -> 9 -> 12 -> 5 -> 0; 1 -> 4
const std::vector<Prompt> kPrompts{{"a", {1, 2}}, {"b", {3, 9, 4}}};

GenerationOptions steps(uint64_t count) {
  GenerationOptions options;
  options.max_new_tokens = count;
  options.vocab_size = kVocab;
  return options;
}

GenerationLevel compare(FakeEngine& left, FakeEngine& right, const GenerationOptions& options) {
  auto level = compare_generation(left, right, kPrompts, options);
  EXPECT_TRUE(level.ok()) << level.error().message();
  return std::move(level).value();
}

TEST(GenerationLevel, EqualSidesPassAndAreCounted) {
  FakeEngine left, right;
  const GenerationLevel level = compare(left, right, steps(5));
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.prompts, 2u);
  EXPECT_EQ(level.tokens, 10u);
  EXPECT_EQ(level.exact, 2u);
  EXPECT_EQ(level.bleu, std::nullopt);
  EXPECT_EQ(to_json(level)["exact_share"], 1);
  EXPECT_TRUE(to_json(level)["bleu"].is_null());
}

TEST(GenerationLevel, ComparingNothingFails) {
  FakeEngine left, right;
  EXPECT_THAT(compare(left, right, steps(0)).failures, ElementsAre("nothing was compared"));
  EXPECT_THAT(compare_generation(left, right, {}, steps(5)).value().failures,
              ElementsAre("nothing was compared"));
}

TEST(GenerationLevel, AFaultIsNamedByItsFirstToken) {
  FakeEngine left, right;
  right.instead[7] = two(6, 1.5f, 11, 1.75f);  // the second new token of prompt a
  const GenerationLevel level = compare(left, right, steps(5));
  EXPECT_THAT(level.failures, ElementsAre("1 of 2 prompts part where it is no near tie"));
  EXPECT_EQ(level.exact, 1u);
  EXPECT_EQ(level.faults, 1u);
  EXPECT_EQ(level.tokens, 7u);  // 2 of a, 5 of b
  ASSERT_EQ(level.differences.size(), 1u);
  const FirstDifference& first = level.differences[0];
  EXPECT_EQ(first.prompt, "a");
  EXPECT_EQ(first.prompt_tokens, 2u);
  EXPECT_EQ(first.step, 1u);
  EXPECT_EQ(first.reference_id, 6);
  EXPECT_EQ(first.other_id, 11);
  EXPECT_EQ(first.reference_margin, 2);
  EXPECT_EQ(first.other_margin, 0.25);
  EXPECT_DOUBLE_EQ(first.bar, 2e-5);
  EXPECT_EQ(to_json(level)["first_differences"][0]["class"], "fault");
}

TEST(GenerationLevel, ANearTieIsNoFault) {
  FakeEngine left, right;
  left.instead[7] = two(6, 0.500001f, 11, 0.5f);
  right.instead[7] = two(6, 0.5f, 11, 0.500001f);
  const GenerationLevel level = compare(left, right, steps(5));
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.near_ties, 1u);
  EXPECT_EQ(level.exact, 1u);
  EXPECT_EQ(level.differences[0].parting, Parting::near_tie);
}

// The two best logits of the reference lie close, but the other side is far from either.
TEST(GenerationLevel, ACloseReferenceDoesNotExcuseAnOtherSideThatIsSure) {
  FakeEngine left, right;
  left.instead[7] = two(6, 0.500001f, 11, 0.5f);
  right.instead[7] = two(6, 0.5f, 11, 0.6f);
  EXPECT_EQ(compare(left, right, steps(5)).faults, 1u);
  right.instead[7] = two(12, 0.5f, 6, 0.499999f);  // neither of the two
  EXPECT_EQ(compare(left, right, steps(5)).faults, 1u);
}

TEST(GenerationLevel, TheBarGrowsWithTheLogits) {
  FakeEngine left, right;
  left.instead[7] = two(6, 400.001f, 11, 400.0f);  // rms 141: bar 2.8e-3
  right.instead[7] = two(6, 400.0f, 11, 400.001f);
  EXPECT_EQ(compare(left, right, steps(5)).near_ties, 1u);
}

TEST(GenerationLevel, NaNOnBothSidesFails) {
  FakeEngine left, right;
  std::vector<float> row = two(6, 1, 11, 0);
  row[3] = std::numeric_limits<float>::quiet_NaN();
  left.instead[7] = right.instead[7] = row;
  const GenerationLevel level = compare(left, right, steps(5));
  EXPECT_EQ(level.faults, 1u);
  EXPECT_FALSE(level.passed());
  EXPECT_EQ(level.differences[0].parting, Parting::not_finite);
}

TEST(GenerationLevel, BleuStandsAgainstTheWholeContinuationOfAFault) {
  FakeEngine left, right;
  GenerationOptions options = steps(6);
  options.tokenizer = &words();
  EXPECT_EQ(compare(left, right, options).bleu, 1);
  right.instead[7] = two(13, 1, 0, 0);  // then 8, 9, 12, 5 in place of 6, 3, 10, 15, 14
  const GenerationLevel level = compare(left, right, options);
  EXPECT_LT(level.bleu.value(), 0.8);
  EXPECT_THAT(level.failures, ElementsAre(HasSubstr("1 of 2"), HasSubstr("is below 0.998")));
  EXPECT_EQ(level.differences[0].reference_text, "w6");
  EXPECT_EQ(level.differences[0].other_text, "w13");
}

TEST(GenerationLevel, TextBehindANearTieIsNotCompared) {
  FakeEngine left, right;
  GenerationOptions options = steps(6);
  options.tokenizer = &words();
  left.instead[7] = two(6, 0.500001f, 13, 0.5f);
  right.instead[7] = two(6, 0.5f, 13, 0.500001f);
  const GenerationLevel level = compare(left, right, options);
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.bleu, 1);
}

TEST(GenerationLevel, ContinuationsTooShortForBleuAreSaidToBe) {
  FakeEngine left, right;
  GenerationOptions options = steps(2);
  options.tokenizer = &words();
  const GenerationLevel level = compare(left, right, options);
  EXPECT_TRUE(level.passed());
  EXPECT_THAT(level.skipped, ElementsAre("BLEU: no continuation has four words"));
}

TEST(GenerationLevel, RoutingThatHangsOnANearTieIsNoFault) {
  FakeEngine left, right;
  GenerationOptions options = steps(3);
  options.model.moe_layers = options.model.num_experts_per_tok = 1;
  options.model.reference_has_margins = true;
  right.instead[7] = two(11, 2, 0, 0);
  EXPECT_EQ(compare(left, right, options).faults, 1u);
  left.router_margin = 1e-6f;
  options.model.lowest = DType::bf16;  // where any number of a row's tokens may hang on a margin
  const GenerationLevel level = compare(left, right, options);
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.differences[0].parting, Parting::routing_near_tie);
  right.instead_forced[7] = two(11, 2, 0, 0);  // wrong with the reference's experts too
  EXPECT_EQ(compare(left, right, options).faults, 1u);
}

TEST(GenerationLevel, BatchesArePaddedAndBoundedInSize) {
  FakeEngine left, right;
  compare(left, right, steps(2));
  EXPECT_THAT(left.asked, ElementsAre(Shape{2, 3}, Shape{2, 4}));
  GenerationOptions options = steps(2);
  options.max_logits = 2 * 3 * kVocab;
  left.asked.clear();
  EXPECT_TRUE(compare(left, right, options).passed());
  EXPECT_THAT(left.asked, ElementsAre(Shape{2, 3}, Shape{1, 3}, Shape{1, 4}));
}

TEST(GenerationLevel, PromptsThatHavePartedAreNotRunAgain) {
  FakeEngine left, right;
  right.instead[2] = two(0, 1, 1, 0);
  left.instead[2] = two(0, 1, 1, 0);
  right.instead[0] = two(5, 1, 1, 0);
  compare(left, right, steps(4));
  EXPECT_THAT(right.asked, ElementsAre(Shape{2, 3}, Shape{2, 4}, Shape{1, 5}, Shape{1, 6}));
}

TEST(GenerationLevel, DifferentVocabulariesAreAFinding) {
  FakeEngine left, right;
  right.vocab = 17;
  const auto level = compare_generation(left, right, kPrompts, steps(2));
  ASSERT_FALSE(level.ok());
  EXPECT_EQ(level.error().kind, ErrorKind::not_equal);
  EXPECT_EQ(level.error().text, "one side has 16 logits a token, the other 17");
}

TEST(GenerationLevel, ASignalEndsIt) {
  FakeEngine left, right;
  GenerationOptions options = steps(2);
  options.stop = []() -> Status { return unavailable("", "stopped by a signal"); };
  EXPECT_EQ(compare_generation(left, right, kPrompts, options).error().text, "stopped by a signal");
  EXPECT_THAT(left.asked, IsEmpty());
}

}  // namespace
}  // namespace tandem
