#include "generate/generate.h"

#include <gmock/gmock.h>

#include <limits>

#include "generate/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(Generate, TheMostLikelyTokenIsAddedUntilThereAreEnough) {
  ScriptedEngine engine({{1, 2}, {2, 3}, {3, 1}});
  const Generated made = generate(greedy(engine), {9, 1}, {.max_new_tokens = 4}).value();
  EXPECT_THAT(made.ids, ElementsAre(2, 3, 1, 2));
  EXPECT_EQ(made.finish, Finish::length);
  EXPECT_EQ(engine.calls, 4);
}

TEST(Generate, T11AnyOfSeveralStopTokensEndsIt) {
  ScriptedEngine engine({{1, 2}, {2, 5}, {5, 1}});
  const Generated made = generate(greedy(engine), {1}, {.max_new_tokens = 9, .stop_ids = {1, 5}}).value();
  EXPECT_THAT(made.ids, ElementsAre(2, 5));
  EXPECT_EQ(made.finish, Finish::stop_token);
}

TEST(Generate, ItEndsWhenToldTo) {
  ScriptedEngine engine({{1, 2}, {2, 3}});
  GenerateOptions options{.max_new_tokens = 9, .go_on = [](int32_t id) { return id != 3; }};
  EXPECT_EQ(generate(greedy(engine), {1}, options).value().finish, Finish::stop_string);
  options.interrupted = [&] { return engine.calls >= 3; };
  options.go_on = {};
  const Generated made = generate(greedy(engine), {1}, options).value();
  EXPECT_EQ(made.finish, Finish::interrupted);
  EXPECT_THAT(made.ids, ElementsAre(2));
}

TEST(Generate, T07TokensThatNobodyHasAreNeverChosen) {
  ScriptedEngine engine(std::map<int32_t, int32_t>{{1, 38}}, 40);  // 40 rows, 33 ids
  engine.instead[1][7] = 1;
  std::vector<bool> allowed(33, true);
  EXPECT_THAT(generate(greedy(engine, allowed), {1}, {.max_new_tokens = 1}).value().ids, ElementsAre(7));
  EXPECT_THAT(generate(greedy(engine), {1}, {.max_new_tokens = 1}).value().ids, ElementsAre(38));
  engine.instead[1] = {{7, -3}, {38, -1}};
  for (int id = 0; id < 40; ++id)
    if (id != 7 && id != 38) engine.instead[1][id] = -5;
  EXPECT_THAT(generate(greedy(engine, allowed), {1}, {.max_new_tokens = 1}).value().ids, ElementsAre(7));
}

// Every id follows every id with logit 0: a draw is uniform.
std::vector<int32_t> drawn(const SamplingOptions& sampling, uint64_t row = 0) {
  ScriptedEngine engine({}, 40);
  return generate(chosen(engine, {sampling, 2, row}), {9, 1}, {.max_new_tokens = 12}).value().ids;
}

TEST(Chosen, OneSeedGivesOneTextAndAnotherOneOrRowAnother) {
  EXPECT_EQ(drawn({.seed = 5}), drawn({.seed = 5}));
  EXPECT_NE(drawn({.seed = 5}), drawn({.seed = 6}));
  EXPECT_NE(drawn({.seed = 5}), drawn({.seed = 5}, 1));
}

// docs/sampling.md: the first token made is step 0, however long the prompt; seed 0 draws u = 0.88052.
TEST(Chosen, StepsAreCountedFromTheFirstTokenMade) {
  EXPECT_EQ(drawn({})[0], 35) << "the first id with (id + 1) / 40 above 0.88052";
  ScriptedEngine engine({}, 40);
  EXPECT_EQ(chosen(engine, {{}, 3})({1, 2, 3}).value(), 35);
  const std::vector<int32_t> made = drawn({});
  EXPECT_EQ(chosen(engine, {{}, 2})({9, 1, made[0], made[1]}).value(), made[2]) << "a text is gone on with";
}

TEST(Chosen, ThePenaltyTurnsAwayFromWhatIsThere) {
  ScriptedEngine engine({{1, 2}, {2, 2}});
  engine.instead[2][7] = 1.5f;
  const SamplingOptions penalised{.temperature = 0, .repetition_penalty = 2};
  EXPECT_THAT(generate(chosen(engine, {penalised, 1}), {1}, {.max_new_tokens = 2}).value().ids,
              ElementsAre(2, 7));
}

TEST(Chosen, T07TokensThatNobodyHasAreNeverDrawn) {
  ScriptedEngine engine(std::map<int32_t, int32_t>{}, 40);
  std::vector<bool> allowed(40, false);
  allowed[3] = allowed[4] = true;
  const auto made =
      generate(chosen(engine, {{.seed = 1}, 1, 0, allowed}), {1}, {.max_new_tokens = 50}).value();
  EXPECT_THAT(made.ids, ::testing::Each(::testing::AnyOf(3, 4)));
  EXPECT_THAT(made.ids, ::testing::AllOf(::testing::Contains(3), ::testing::Contains(4)));
}

TEST(Generate, NaNIsAnError) {
  ScriptedEngine engine({});
  engine.instead[1][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(generate(greedy(engine), {1}, {}).error().text, "the logits hold NaN");
}

}  // namespace
}  // namespace tandem
