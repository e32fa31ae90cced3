#include "generate/conversation.h"

#include "text/utf8.h"

namespace tandem {

Result<Conversation> Conversation::begin(const TextModel& model, std::string system, Json variables) {
  Conversation made;
  made.model_ = &model;
  TANDEM_TRY(made.template_, chat_template_from_files(model.opened.side_files, model.opened.path));
  made.options_.add_generation_prompt = true;
  made.options_.extra = std::move(variables);
  made.system_ = text::valid_utf8(system);
  made.reset();
  return made;
}

Result<Turn> Conversation::ask(std::string_view user) const {
  Json messages = messages_;
  messages.push_back(Json{{"role", "user"}, {"content", text::valid_utf8(user)}});
  TANDEM_TRY(const std::string prompt, render_chat(template_, messages, options_));
  Turn turn;
  TANDEM_TRY(turn.ids, text::prompt_ids(model_->text, prompt, false));
  turn.reasoning_is_open = text::ends_with_open_reasoning(prompt);
  return turn;
}

void Conversation::add(std::string_view user, const Answer& answer) {
  messages_.push_back(Json{{"role", "user"}, {"content", text::valid_utf8(user)}});
  Json reply{{"role", "assistant"}, {"content", answer.text}};
  if (!answer.reasoning.empty()) reply["reasoning_content"] = answer.reasoning;
  messages_.push_back(std::move(reply));
}

void Conversation::reset() {
  messages_ = Json::array();
  if (!system_.empty()) messages_.push_back(Json{{"role", "system"}, {"content", system_}});
}

}  // namespace tandem
