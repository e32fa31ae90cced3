#include "text/model_text.h"

#include <gmock/gmock.h>

#include "text/first_difference.h"
#include "text/testing.h"

namespace tandem::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kStartBefore =
    R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
    R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],)"
    R"("special_tokens":{"<s>":{"id":"<s>","ids":[256],"tokens":["<s>"]}}})";

/// Bytes are ids, 256 is <s>; the post-processor puts it before a text or does not.
std::map<std::string, std::string> files(bool processor, const std::string& config) {
  const Sections sections{.model = byte_bpe({}),
                          .pre_tokenizer = kByteLevel,
                          .post_processor = processor ? kStartBefore : "null",
                          .decoder = kByteLevel,
                          .added = added_token(256, "<s>")};
  return {{"tokenizer.json", tokenizer_json(sections)}, {"tokenizer_config.json", config}};
}

ModelText model(bool processor, const std::string& config) {
  auto made = model_text(files(processor, config));
  EXPECT_TRUE(made.ok()) << made.error().message();
  return std::move(made).value();
}

std::vector<int32_t> ids(const ModelText& model, std::string_view text, bool special = true) {
  return prompt_ids(model, text, special).value();
}

TEST(ModelText, T04OneStartTokenWhereAnySourceAsksForIt) {
  const std::string with = R"({"bos_token":"<s>","add_bos_token":true})",
                    without = R"({"bos_token":"<s>","add_bos_token":false})";
  for (const bool processor : {false, true})
    for (const bool flag : {false, true}) {
      const ModelText made = model(processor, flag ? with : without);
      // With a start marker of the template's, and without one; as a text and as a rendered conversation.
      for (const bool special : {false, true}) {
        EXPECT_THAT(ids(made, "<s>a", special), ElementsAre(256, 'a'));
        if (processor || flag)
          EXPECT_THAT(ids(made, "a", special), ElementsAre(256, 'a'));
        else
          EXPECT_THAT(ids(made, "a", special), ElementsAre('a'));
      }
    }
}

TEST(ModelText, TheFlagAgainstThePostProcessorIsSaid) {
  EXPECT_THAT(model(true, R"({"bos_token":"<s>","add_bos_token":false})").notes,
              ElementsAre(HasSubstr("asks for no start token (add_bos_token), tokenizer.json puts one")));
  EXPECT_THAT(model(true, R"({"bos_token":"<s>","add_bos_token":true})").notes, IsEmpty());
  EXPECT_THAT(model(false, R"({"add_bos_token":true})").notes, ElementsAre(HasSubstr("and names none")));
  EXPECT_THAT(model(false, R"({"bos_token":{"content":"<t>"},"add_bos_token":true})").notes,
              ElementsAre(HasSubstr("names one without an id")));
}

TEST(ModelText, T03TheTokenizerFileWinsOverTheClassLabel) {
  const ModelText made = model(false, R"({"tokenizer_class":"LlamaTokenizerFast"})");
  const std::string text = "How are you doing?";
  const std::vector<int32_t> read = ids(made, text);
  EXPECT_EQ(made.tokenizer.decode({read.begin(), read.end()}), text);
  EXPECT_THAT(made.notes,
              ElementsAre("tokenizer_config.json names the class LlamaTokenizerFast, which cuts "
                          "texts at blanks; tokenizer.json cuts them into bytes, and is followed"));
  EXPECT_THAT(model(false, R"({"tokenizer_class":"GPT2Tokenizer"})").notes, IsEmpty());
  EXPECT_THAT(model(false, R"({"tokenizer_class":"PreTrainedTokenizerFast"})").notes, IsEmpty());
}

TEST(ModelText, WhatIsMissingOrWrongIsNamed) {
  EXPECT_EQ(model_text({}).error().message(), "text_c1: the model has no tokenizer.json");
  EXPECT_EQ(model_text({{"tokenizer.json", "{"}}).error().where, "tokenizer.json");
  const auto wrong = [](const std::string& config) {
    return model_text(files(false, config)).error().message();
  };
  EXPECT_EQ(wrong(R"({"add_bos_token":1})"),
            "tokenizer_config.json: text_c2: add_bos_token must be true or false, found number");
  EXPECT_THAT(wrong(R"({"bos_token":[]})"),
              HasSubstr("bos_token must be a string or an object with content"));
  EXPECT_THAT(wrong("[]"), HasSubstr("the file must be an object"));
}

TEST(ModelText, T07IdsWithoutATokenAreKnownAndAModelWithTooFewRowsIsRefused) {
  const Tokenizer tokenizer = model(false, "{}").tokenizer;  // 257 tokens
  const std::vector<bool> known = ids_with_token(tokenizer, 300).value();
  EXPECT_EQ(known.size(), 300u);
  EXPECT_TRUE(known[0] && known[256]);
  EXPECT_FALSE(known[257] || known[299]);
  const auto refused = ids_with_token(tokenizer, 250);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "the tokenizer has 257 tokens, 7 of them with ids from 250 on, for which the model has no row");
}

TEST(FirstDifference, IsNamedWithPiecesOfBothSides) {
  const Tokenizer tokenizer = model(false, "{}").tokenizer;
  EXPECT_EQ(first_difference(tokenizer, {1, 2}, tokenizer, {1, 2}), "");
  EXPECT_EQ(first_difference(tokenizer, {256, 97}, tokenizer, {97}),
            R"(position 0 is 256 "<s>" on the left and 97 "a" on the right)");
  EXPECT_EQ(first_difference(tokenizer, {97}, tokenizer, {97, 98}),
            R"(position 1 is the end on the left and 98 "b" on the right)");
}

}  // namespace
}  // namespace tandem::text
