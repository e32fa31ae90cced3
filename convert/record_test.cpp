#include "convert/record.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::HasSubstr;

Record sample() {
  RuleRow row;
  row.hf = "model.norm.weight";
  row.tf = "model/norm/weight";
  row.shape = {"hidden_size"};
  row.sizes = {16};
  return {{"llama", {row}}, {{{"model.norm.weight", DType::bf16, {16}}, "model-00001-of-00002.safetensors"}}};
}

TEST(Record, TextAndBackIsTheSame) {
  const auto back = record_from_text(to_text(sample()));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back.value().rules, sample().rules);
  EXPECT_EQ(back.value().original, sample().original);
}

TEST(Record, ALaterVersionIsRefusedByNumber) {
  std::string text = to_text(sample());
  text.replace(text.find("\"tandem_record\": 1"), 18, "\"tandem_record\": 9");
  EXPECT_THAT(record_from_text(text).error().text, HasSubstr("version 9, this program knows 1"));
}

TEST(Record, BrokenFieldsAreErrors) {
  EXPECT_THAT(record_from_text("[]").error().text, HasSubstr("is missing"));
  for (const auto& [from, to] :
       std::map<std::string, std::string>{{"\"bf16\"", "\"bf17\""}, {"\"shard\"", "\"chard\""}}) {
    std::string text = to_text(sample());
    text.replace(text.find(from), from.size(), to);
    EXPECT_EQ(record_from_text(text).error().rule, "record_c1") << to;
  }
  std::string text = to_text(sample());
  const size_t shape = text.rfind("16");
  text.replace(shape, 2, "-1");
  EXPECT_EQ(record_from_text(text).error().rule, "record_c1");
}

}  // namespace
}  // namespace tandem
