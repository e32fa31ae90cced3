#include "generate/conversation.h"

#include <gmock/gmock.h>

#include "generate/testing.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}:{% if m.reasoning_content is defined %}"
    "({{ m.reasoning_content }}){% endif %}{{ m.content }}]{% endfor %}"
    "{% if add_generation_prompt %}<think>\n{% endif %}";

TextModel text_model(const std::string& chat_template = kTemplate) {
  TextModel model;
  model.opened.path = "/model";
  model.opened.side_files = {
      {"tokenizer.json", text::tokenizer_json({.model = text::byte_bpe({}),
                                               .pre_tokenizer = text::kByteLevel,
                                               .decoder = text::kByteLevel,
                                               .added = text::added_token(256, "<s>")})},
      {"tokenizer_config.json", R"({"bos_token":"<s>","add_bos_token":true})"},
      {"chat_template.jinja", chat_template}};
  model.text = text::model_text(model.opened.side_files).value();
  return model;
}

std::string asked(const TextModel& model, const Conversation& conversation, std::string_view user) {
  const Turn turn = conversation.ask(user).value();
  return model.text.tokenizer.decode({turn.ids.begin(), turn.ids.end()}, false);
}

TEST(Conversation, T04AStartTokenInTheTemplateStandsOnce) {
  const TextModel model = text_model();
  const Conversation conversation = Conversation::begin(model, "").value();
  EXPECT_EQ(asked(model, conversation, "Hi"), "<s>[user:Hi]<think>\n");
  EXPECT_EQ(conversation.ask("Hi").value().ids[0], 256);
  EXPECT_TRUE(conversation.ask("Hi").value().reasoning_is_open);
}

TEST(Conversation, BothSidesOfATurnAreKeptAndReasoningGoesApart) {
  const TextModel model = text_model();
  Conversation conversation = Conversation::begin(model, "Be kind").value();
  EXPECT_EQ(asked(model, conversation, "never kept"), "<s>[system:Be kind][user:never kept]<think>\n");
  conversation.add("Hi", {.ids = {}, .text = "Yes", .reasoning = "hm"});
  conversation.add("And?", {.ids = {}, .text = "No"});
  EXPECT_EQ(asked(model, conversation, "x"),
            "<s>[system:Be kind][user:Hi][assistant:(hm)Yes][user:And?][assistant:No][user:x]<think>\n");
  conversation.reset();
  EXPECT_EQ(asked(model, conversation, "x"), "<s>[system:Be kind][user:x]<think>\n");
}

TEST(Conversation, BytesThatAreNoTextAreReplaced) {
  const TextModel model = text_model();
  EXPECT_EQ(asked(model, Conversation::begin(model, "").value(), "a\xff"),
            "<s>[user:a\xef\xbf\xbd]<think>\n");
}

TEST(Conversation, AModelWithoutATemplateIsNamed) {
  TextModel model = text_model();
  model.opened.side_files.erase("chat_template.jinja");
  EXPECT_THAT(Conversation::begin(model, "").error().message(),
              HasSubstr("/model/tokenizer_config.json: chat_c7: no chat_template in it"));
  EXPECT_THAT(Conversation::begin(text_model("{% if %}"), "").error().message(),
              HasSubstr("/model/chat_template.jinja, line 1: chat_c1"));
}

}  // namespace
}  // namespace tandem
