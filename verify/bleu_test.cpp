#include "verify/bleu.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"

namespace tandem {
namespace {

/// What the sacrebleu package says; the file tells its version and the script that made it.
Json golden() {
  const auto text = read_text(real_files(), TANDEM_SOURCE_DIR "/tests/data/bleu.json");
  EXPECT_TRUE(text.ok());
  return parse_json(text.value()).value();
}

TEST(Bleu, LinesAreSplitAsSacrebleuDoes) {
  const Json lines = golden()["tokens"];
  EXPECT_GT(lines.size(), 10u);
  for (const Json& line : lines)
    EXPECT_EQ(tokenize_13a(line["line"].get<std::string>()), line["words"].get<std::vector<std::string>>());
}

TEST(Bleu, CorporaScoreAsInSacrebleu) {
  const Json corpora = golden()["corpora"];
  EXPECT_GT(corpora.size(), 8u);
  for (const auto& [name, corpus] : corpora.items()) {
    std::vector<TextPair> pairs;
    for (size_t i = 0; i < corpus["texts"].size(); ++i)
      pairs.push_back({corpus["texts"][i].get<std::string>(), corpus["references"][i].get<std::string>()});
    EXPECT_NEAR(bleu(pairs).value(), corpus["bleu"].get<double>(), 1e-12) << name;
  }
}

// sacrebleu gives 0, though the texts are equal.
TEST(Bleu, WithoutFourWordsInARowThereIsNone) {
  EXPECT_EQ(bleu(std::vector<TextPair>{{"a b c", "a b c"}, {"d e", "d e"}}), std::nullopt);
  EXPECT_EQ(bleu({}), std::nullopt);
}

TEST(Bleu, BytesThatAreNoUtf8StayInTheirWord) {
  EXPECT_EQ(tokenize_13a("a\xff\xc2 b\xe2"), (std::vector<std::string>{"a\xff\xc2", "b\xe2"}));
}

}  // namespace
}  // namespace tandem
