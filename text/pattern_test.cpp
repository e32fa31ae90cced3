#include "text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tandem::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> found(std::string_view source, std::string_view text) {
  const auto pattern = Pattern::regex(source);
  if (!pattern.ok()) return {pattern.error().message()};
  std::vector<Span> matches;
  const Status status = pattern.value().find_all(text, matches);
  if (!status.ok()) return {status.error().message()};
  std::vector<std::string> words;
  for (const Span& match : matches) words.emplace_back(text.substr(match.begin, match.end - match.begin));
  return words;
}

TEST(Pattern, ReadsTheSyntaxOfRealFiles) {
  EXPECT_THAT(found(R"(\p{N}{1,3})", "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(found(R"((?i:'s|'t)|\p{L}+)", "don'T"), ElementsAre("don", "'T"));
  EXPECT_THAT(found(R"(\s+(?!\S)|\s+)", "a   b"), ElementsAre("  ", " "));
  EXPECT_THAT(found(R"([^\s\p{L}]++|\p{L}?+)", "a+"), ElementsAre("a", "+"));
  EXPECT_THAT(found("[一-龥]+", "ab中文c"), ElementsAre("中文"));
}

TEST(Pattern, EscapesMeanWhatOnigurumaMeans) {
  EXPECT_THAT(found(R"(\s)", "\u180e\u0085"), ElementsAre("\u0085"));    // PCRE2's own \s takes both
  EXPECT_THAT(found(R"(\w+)", "e\u0301Ⅷ_-"), ElementsAre("e\u0301Ⅷ_"));  // marks and letter numbers
  EXPECT_THAT(found(R"(\h+)", "xAf9"), ElementsAre("Af9"));              // hexadecimal digits
  EXPECT_THAT(found(R"(^b$)", "a\nb\nc"), ElementsAre("b"));             // at lines
  EXPECT_THAT(found(R"((?m:a.b))", "a\nb"), ElementsAre("a\nb"));        // a dot takes a newline
  EXPECT_THAT(found(R"(\u4e2d)", "中"), ElementsAre("中"));
}

TEST(Pattern, WhatHasNoCounterpartIsNamed) {
  EXPECT_THAT(found(R"(a{1,2}+)", "a")[0],
              HasSubstr("tokenizer_c4: pattern \"a{1,2}+\": + after {n,m} is not supported"));
  EXPECT_THAT(found(R"([a&&b])", "a")[0], HasSubstr("an intersection of classes"));
  EXPECT_THAT(found(R"([a[b]])", "a")[0], HasSubstr("a class in a class"));
  EXPECT_THAT(found(R"([\S])", "a")[0], HasSubstr("\\S in a class"));
  EXPECT_THAT(found(R"((?<n>a))", "a")[0], HasSubstr("(?<"));
  EXPECT_THAT(found("(", "a")[0], HasSubstr("tokenizer_c4"));
}

TEST(Pattern, BacktrackingWithoutEndIsAnError) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(found("(a+)+$", std::string(50'000, 'a') + "b")[0], HasSubstr("tokenizer_c5"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Pattern, ALongRunOfSpacesIsNoEndlessSearch) {
  const std::string spaces(3'000'000, ' ');
  EXPECT_EQ(found(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces + "a").at(0).size(), spaces.size() - 1);
}

TEST(Pattern, EmptyMatchesMoveOn) { EXPECT_THAT(found("a*", "baac"), ElementsAre("", "aa")); }

}  // namespace
}  // namespace tandem::text
