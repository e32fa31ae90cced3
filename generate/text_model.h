#pragma once
// A model that reads and writes text: opened, its engine running.

#include "generate/answer.h"
#include "generate/generation_config.h"
#include "text/model_text.h"
#include "verify/side.h"

namespace tandem {

struct TextModel {
  OpenedModel opened;
  Model model;
  text::ModelText text;
  GenerationConfig config;
  std::vector<bool> allowed;  ///< ids that a token has
  std::unique_ptr<Engine> engine;
  /// What a user should know of the model's files, a line each.
  std::vector<std::string> notes() const;
};

/// Opens a Hugging Face folder or a SavedModel with its tokenizer, and starts the engine asked for, or the
/// default. Errors: those of open_model, engine_for, model_of, model_text, generation_config,
/// ids_with_token and Engine::start.
Result<TextModel> open_text_model(const FileSystem& files, const SideSpec& spec, const ArchOptions& arch,
                                  const EngineOptions& options);

/// What a command line says of answers.
struct AnswerWishes {
  std::optional<uint64_t> max_new_tokens = {};
  std::vector<std::string> stop_strings = {};  ///< besides those of the config
  bool ignore_stop_tokens = false;
};
inline constexpr uint64_t kDefaultNewTokens = 256;

/// Stop tokens, stop strings and the number of tokens, from the wishes and the model's config, for a prompt
/// of that many tokens. The answer ends at max_position_embeddings in any case. Errors: generation_c2 the
/// prompt leaves no room, or has no tokens.
Result<AnswerOptions> answer_options(const Model& model, const GenerationConfig& config,
                                     uint64_t prompt_tokens, const AnswerWishes& wishes);

}  // namespace tandem
