#pragma once
// A conversation with a model, through its chat template.

#include "generate/text_model.h"
#include "text/template/chat_template.h"

namespace tandem {

/// What the model is given for one answer.
struct Turn {
  std::vector<int32_t> ids;
  bool reasoning_is_open = false;  ///< the template itself writes <think>
};

class Conversation {
 public:
  /// `model` must outlive it. `system` is the first message, unless empty. `variables` go to the template.
  /// Errors: missing there is no chat template (chat_c7 likewise); those of parse_template.
  static Result<Conversation> begin(const TextModel& model, std::string system,
                                    Json variables = Json::object());

  /// The whole conversation with one more message of the user's, which only add() keeps. Errors: those of
  /// render_chat and prompt_ids.
  Result<Turn> ask(std::string_view user) const;
  /// Both sides of a turn, however it ended. Reasoning goes to the template apart from the text.
  void add(std::string_view user, const Answer& answer);
  /// Back to the beginning; the system's message stays.
  void reset();
  const Json& messages() const { return messages_; }

 private:
  const TextModel* model_ = nullptr;
  ChatTemplate template_;
  ChatOptions options_;
  std::string system_;
  Json messages_;
};

}  // namespace tandem
