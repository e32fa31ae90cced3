#include "text/reasoning.h"

#include <gtest/gtest.h>

namespace tandem::text {
namespace {

struct Both {
  std::string reasoning, text;
  bool operator==(const Both&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Both& both) {
  return out << '{' << both.reasoning << "} {" << both.text << '}';
}

Both split(const std::string& answer, size_t piece, bool open = false) {
  ReasoningSplitter splitter(open);
  Both both;
  const auto add = [&](const std::vector<Part>& parts) {
    for (const Part& part : parts) (part.reasoning ? both.reasoning : both.text) += part.text;
  };
  for (size_t at = 0; at < answer.size(); at += piece) add(splitter.step(answer.substr(at, piece)));
  add(splitter.finish());
  return both;
}

// Each answer whole, and cut into pieces of every length.
void expect_split(const std::string& answer, const Both& wanted, bool open = false) {
  for (size_t piece = 1; piece <= answer.size() + 1; ++piece)
    EXPECT_EQ(split(answer, piece, open), wanted) << "pieces of " << piece;
}

TEST(Reasoning, AnAnswerWithoutItIsText) {
  expect_split("", {"", ""});
  expect_split(" Paris.\n", {"", " Paris.\n"});
  expect_split("<thin ice", {"", "<thin ice"});
  expect_split("a <think>b</think>", {"", "a <think>b</think>"});
  expect_split("a</think>b", {"", "a</think>b"});
}

TEST(Reasoning, MarksAndTheBlanksBesideThemAreLeftOut) {
  expect_split("<think>\nIt is\n\nso.\n</think>\n\nYes. ", {"It is\n\nso.", "Yes. "});
  expect_split("\n<think></think>Yes", {"", "Yes"});
}

TEST(Reasoning, ThePromptMayHaveOpenedIt) {
  expect_split("\nwell</think>Yes", {"well", "Yes"}, true);
  EXPECT_TRUE(ends_with_open_reasoning("<|Assistant|><think>\n"));
  EXPECT_FALSE(ends_with_open_reasoning("<think></think>"));
  EXPECT_FALSE(ends_with_open_reasoning(""));
}

TEST(Reasoning, AnAnswerThatIsCutKeepsWhatThereIs) {
  expect_split("<think>so </thi", {"so </thi", ""});
  expect_split("<thi", {"", "<thi"});
  expect_split("<think>so </think>", {"so", ""});
}

TEST(Reasoning, PartsComeAsSoonAsTheyAreKnown) {
  ReasoningSplitter splitter(false);
  EXPECT_EQ(splitter.step("<think>a b "), (std::vector<Part>{{true, "a b"}}));
  EXPECT_EQ(splitter.step("c</think>"), (std::vector<Part>{{true, " c"}}));
  EXPECT_EQ(splitter.step("\nYes"), (std::vector<Part>{{false, "Yes"}}));
}

}  // namespace
}  // namespace tandem::text
