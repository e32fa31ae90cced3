#include "generate/answer.h"

#include <gmock/gmock.h>

#include "generate/compare_runs.h"
#include "generate/testing.h"
#include "generate/text_model.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What was shown, a "|" after each piece.
struct Shown {
  std::string pieces;
  std::function<void(const text::Part&)> add = [this](const text::Part& part) { pieces += part.text + "|"; };
};

TEST(Answer, TextComesInWholeCharacters) {
  ScriptedEngine engine = writes('A', "x\xe4\xb8\xad!");
  Shown shown;
  AnswerOptions options{.max_new_tokens = 5, .show = shown.add};
  const Answer made = answer(greedy(engine), byte_tokenizer(), {'A'}, options).value();
  EXPECT_EQ(made.text, "x\xe4\xb8\xad!");
  EXPECT_EQ(shown.pieces, "x|\xe4\xb8\xad|!|");
  EXPECT_EQ(made.finish, Finish::length);
}

TEST(Answer, ACharacterThatIsCutOffEndsInOneReplacement) {
  ScriptedEngine engine = writes('A', "x\xe4\xb8");
  Shown shown;
  AnswerOptions options{.max_new_tokens = 3, .show = shown.add};
  EXPECT_EQ(answer(greedy(engine), byte_tokenizer(), {'A'}, options).value().text, "x\xef\xbf\xbd");
  EXPECT_EQ(shown.pieces, "x|\xef\xbf\xbd|");
}

TEST(Answer, AStopStringEndsItAndIsNoPartOfIt) {
  ScriptedEngine engine = writes('A', "abcdefg");
  AnswerOptions options{.max_new_tokens = 9, .stop_strings = {"de"}};
  const Answer made = answer(greedy(engine), byte_tokenizer(), {'A'}, options).value();
  EXPECT_EQ(made.text, "abc");
  EXPECT_EQ(made.stopped_by, "de");
  EXPECT_EQ(made.finish, Finish::stop_string);
  EXPECT_THAT(made.ids, ElementsAre('a', 'b', 'c', 'd', 'e'));
}

TEST(Answer, AStopTokenIsNoTextWhateverItSpells) {
  ScriptedEngine engine = writes('A', "abc");
  AnswerOptions options{.max_new_tokens = 9, .stop_ids = {'c'}};
  const Answer made = answer(greedy(engine), byte_tokenizer(), {'A'}, options).value();
  EXPECT_EQ(made.text, "ab");
  EXPECT_THAT(made.ids, ElementsAre('a', 'b', 'c'));
}

TEST(Answer, ReasoningStandsApart) {
  ScriptedEngine engine = writes('A', "so</think>YZ");  // 'h' and 'i' come once each
  AnswerOptions options{.max_new_tokens = 12, .reasoning_is_open = true};
  const Answer made = answer(greedy(engine), byte_tokenizer(), {'A'}, options).value();
  EXPECT_EQ(made.reasoning, "so");
  EXPECT_EQ(made.text, "YZ");
}

// A decoder that drops the first blank of a text must not drop the answer's.
TEST(Answer, TheFirstWordKeepsItsBlankBehindThePrompt) {
  const std::string words =
      R"({"type":"BPE","vocab":{"<unk>":0,"▁a":1,"▁b":2},"merges":[],"unk_token":"<unk>"})";
  const auto tokenizer = text::parse(
      {.model = words,
       .decoder = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  ScriptedEngine engine(std::map<int32_t, int32_t>{{1, 2}});
  EXPECT_EQ(answer(greedy(engine), tokenizer.value(), {1}, {.max_new_tokens = 1}).value().text, " b");
}

TEST(AnswerOptions, WishesComeBeforeTheConfigAndTheModelEndsAll) {
  Model model;
  model.max_position_embeddings = 50;
  GenerationConfig config;
  config.stop_ids = {3};
  config.stop_strings = {"x"};
  const auto tokens = [&](const AnswerWishes& wishes) {
    return answer_options(model, config, 10, wishes).value().max_new_tokens;
  };
  EXPECT_EQ(tokens({}), 40u);
  model.max_position_embeddings = 1000;
  EXPECT_EQ(tokens({}), kDefaultNewTokens);
  config.max_length = 30;
  EXPECT_EQ(tokens({}), 20u);
  config.max_new_tokens = 7;
  EXPECT_EQ(tokens({}), 7u);
  EXPECT_EQ(tokens({.max_new_tokens = 9}), 9u);
  const AnswerOptions options = answer_options(model, config, 10, {.stop_strings = {"y"}}).value();
  EXPECT_THAT(options.stop_ids, ElementsAre(3));
  EXPECT_THAT(options.stop_strings, ElementsAre("x", "y"));
  EXPECT_TRUE(answer_options(model, config, 10, {.ignore_stop_tokens = true}).value().stop_ids.empty());
}

TEST(AnswerOptions, APromptWithoutRoomOrTokensIsRefused) {
  Model model;
  model.max_position_embeddings = 10;
  EXPECT_EQ(answer_options(model, {}, 10, {}).error().text,
            "the prompt has 10 tokens, and the model reads 10 (max_position_embeddings)");
  EXPECT_EQ(answer_options(model, {}, 0, {}).error().text, "the prompt has no tokens");
}

CompareRunsOptions compared(uint64_t max_new_tokens) {
  CompareRunsOptions options;
  options.answer.max_new_tokens = max_new_tokens;
  options.top1_gap = 2e-5;
  options.max_abs_error = 1e-5;
  return options;
}

TEST(CompareRuns, SidesThatWriteTheSame) {
  ScriptedEngine left = writes('A', "abc"), right = writes('A', "abc");
  const ComparedRuns runs = compare_runs(left, right, byte_tokenizer(), {'A'}, compared(3)).value();
  EXPECT_TRUE(runs.equal());
  EXPECT_EQ(runs.left.text, "abc");
  EXPECT_EQ(runs.right.text, "abc");
}

TEST(CompareRuns, TheFirstOtherTokenIsMarkedAndEachSideGoesOn) {
  ScriptedEngine left = writes('A', "abcd"), right = writes('A', "abXYZ");
  right.instead['b']['c'] = 1.5f;
  Shown shown;
  CompareRunsOptions options = compared(4);
  options.answer.show = shown.add;
  const ComparedRuns runs = compare_runs(left, right, byte_tokenizer(), {'Q', 'A'}, options).value();
  EXPECT_FALSE(runs.equal());
  ASSERT_TRUE(runs.difference.has_value());
  EXPECT_EQ(runs.difference->step, 2u);
  EXPECT_EQ(runs.difference->prompt_tokens, 2u);
  EXPECT_EQ(runs.difference->reference_text, "c");
  EXPECT_EQ(runs.difference->other_text, "X");
  EXPECT_EQ(runs.difference->reference_margin, 2);
  EXPECT_EQ(runs.difference->other_margin, 0.5);
  EXPECT_EQ(runs.left.text, "abcd");
  EXPECT_EQ(runs.right.text, "abXY");
  EXPECT_EQ(shown.pieces, "a|b|");
}

TEST(CompareRuns, APartingAtANearTieIsNoFault) {
  ScriptedEngine left = writes('A', "ab"), right = writes('A', "aX");
  left.instead['a']['X'] = 1.999999f;
  right.instead['a']['b'] = 1.999999f;
  const ComparedRuns runs = compare_runs(left, right, byte_tokenizer(), {'A'}, compared(2)).value();
  EXPECT_TRUE(runs.difference.has_value());
  EXPECT_TRUE(runs.equal());
}

TEST(CompareRuns, AStopTokenOnOneSideIsADifference) {
  ScriptedEngine left = writes('A', "ab"), right = writes('A', "aXY");
  CompareRunsOptions options = compared(3);
  options.answer.stop_ids = {'b'};
  const ComparedRuns runs = compare_runs(left, right, byte_tokenizer(), {'A'}, options).value();
  EXPECT_EQ(runs.left.finish, Finish::stop_token);
  EXPECT_EQ(runs.left.text, "a");
  EXPECT_EQ(runs.right.text, "aXY");
}

TEST(CompareRuns, OneSeedGivesOneTextOnBothSides) {
  ScriptedEngine left({}), right({});
  CompareRunsOptions options = compared(12);
  options.choice.sampling = {.seed = 5};
  const ComparedRuns runs = compare_runs(left, right, byte_tokenizer(), {'A'}, options).value();
  EXPECT_TRUE(runs.equal());
  EXPECT_EQ(runs.left.ids,
            answer(chosen(left, {options.choice.sampling, 1}), byte_tokenizer(), {'A'}, options.answer)
                .value()
                .ids);
}

// u of seed 0 and step 0 is 0.88052: 'y', behind 'x', is drawn where it has more than 1 - u of both, that is
// with a logit above 20 + ln(0.11948 / 0.88052) = 18.0027.
TEST(CompareRuns, DrawsMayPartWhereTheLogitsAgreeAndNowhereElse) {
  const auto beside = [](float other) {
    ScriptedEngine left({}), right({});
    left.instead['A'] = {{'x', 20.0f}, {'y', 18.006f}};
    right.instead['A'] = {{'x', 20.0f}, {'y', other}};
    CompareRunsOptions options = compared(2);
    options.choice.sampling = {};
    options.max_abs_error = 0.01;
    return compare_runs(left, right, byte_tokenizer(), {'A'}, options).value();
  };
  EXPECT_FALSE(beside(18.004f).difference);
  const ComparedRuns near = beside(18.0f), far = beside(12.0f);
  ASSERT_TRUE(near.difference && far.difference);
  EXPECT_EQ(near.difference->reference_text, "y");
  EXPECT_EQ(near.difference->other_text, "x");
  EXPECT_TRUE(near.equal());
  EXPECT_NEAR(*near.logit_difference, 0.006, 1e-5);
  EXPECT_FALSE(far.equal());
  EXPECT_NEAR(*far.logit_difference, 6.006, 1e-5);
}

TEST(CompareRuns, DifferentVocabulariesAreAFinding) {
  ScriptedEngine left({}, 260), right({}, 261);
  const auto runs = compare_runs(left, right, byte_tokenizer(), {'A'}, compared(3));
  ASSERT_FALSE(runs.ok());
  EXPECT_THAT(runs.error().text, HasSubstr("one side has 260 logits a token, the other 261"));
}

}  // namespace
}  // namespace tandem
