#include "text/stop_strings.h"

#include <gtest/gtest.h>

namespace tandem::text {
namespace {

/// What is passed on of pieces, "|" between, and after it the string that was found.
std::string passed(std::vector<std::string> strings, const std::vector<std::string>& pieces) {
  StopStrings stop(std::move(strings));
  std::string all;
  for (const std::string& piece : pieces) all += stop.step(piece) + "|";
  return all + stop.finish() + "|" + stop.found();
}

TEST(StopStrings, WithoutAnyTextPassesAtOnce) { EXPECT_EQ(passed({}, {"ab", "c"}), "ab|c||"); }

TEST(StopStrings, NeitherTheStringNorWhatFollowsIsPassed) {
  EXPECT_EQ(passed({"END"}, {"a END b", "c"}), "a ||" + std::string("|END"));
}

TEST(StopStrings, AStringInPiecesIsFound) { EXPECT_EQ(passed({"END"}, {"aE", "N", "D."}), "a||||END"); }

TEST(StopStrings, ABeginningThatCameToNothingIsPassedLater) {
  EXPECT_EQ(passed({"END"}, {"aE", "NE", "x"}), "a|EN|Ex||");
  EXPECT_EQ(passed({"END"}, {"aEN"}), "a|EN|");
}

TEST(StopStrings, TheFirstOfSeveralCounts) {
  EXPECT_EQ(passed({"cd", "b"}, {"abcd"}), "a||b");
  EXPECT_EQ(passed({"", "cd"}, {"abcd"}), "ab||cd");
}

TEST(StopStrings, EndsThatMayBegin) {
  EXPECT_EQ(end_that_begins("xaab", "aabb"), 3u);
  EXPECT_EQ(end_that_begins("aabb", "aabb"), 0u);
  EXPECT_EQ(end_that_begins("", "a"), 0u);
}

}  // namespace
}  // namespace tandem::text
