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

TEST(Generate, NaNIsAnError) {
  ScriptedEngine engine({});
  engine.instead[1][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(generate(greedy(engine), {1}, {}).error().text, "the logits hold NaN");
}

}  // namespace
}  // namespace tandem
