#include "generate/text_model.h"

#include <algorithm>

namespace tandem {

std::vector<std::string> TextModel::notes() const {
  std::vector<std::string> all = text.notes;
  all.insert(all.end(), config.notes.begin(), config.notes.end());
  return all;
}

Result<TextModel> open_text_model(const FileSystem& files, const SideSpec& spec, const ArchOptions& arch,
                                  const EngineOptions& options) {
  TextModel made;
  TANDEM_TRY(made.opened, open_model(files, spec.path));
  TANDEM_TRY(const EngineKind kind, engine_for(made.opened.format, spec.engine));
  TANDEM_TRY(made.model, model_of(made.opened, arch));
  // Files of the model are named in errors as the user can find them.
  const auto of_model = [&](Error error) {
    if (error.where.empty()) return std::move(error).at(made.opened.path);
    error.where = join(made.opened.path, error.where);
    return error;
  };
  auto text = text::model_text(made.opened.side_files);
  if (!text.ok()) return of_model(std::move(text).error());
  made.text = std::move(text).value();
  auto config = generation_config(made.opened.side_files, made.model.vocab_size);
  if (!config.ok()) return of_model(std::move(config).error());
  made.config = std::move(config).value();
  auto allowed = text::ids_with_token(made.text.tokenizer, made.model.vocab_size);
  if (!allowed.ok()) return of_model(std::move(allowed).error());
  made.allowed = std::move(allowed).value();
  TANDEM_TRY(made.engine, Engine::start(kind, made.opened.path, options));
  return made;
}

Result<AnswerOptions> answer_options(const Model& model, const GenerationConfig& config,
                                     uint64_t prompt_tokens, const AnswerWishes& wishes) {
  if (prompt_tokens == 0) return invalid("generation_c2", "the prompt has no tokens");
  AnswerOptions options;
  if (!wishes.ignore_stop_tokens) options.stop_ids = config.stop_ids;
  options.stop_strings = config.stop_strings;
  options.stop_strings.insert(options.stop_strings.end(), wishes.stop_strings.begin(),
                              wishes.stop_strings.end());
  const auto room_below = [&](uint64_t length) {
    return length > prompt_tokens ? length - prompt_tokens : 0;
  };
  options.max_new_tokens = wishes.max_new_tokens   ? *wishes.max_new_tokens
                           : config.max_new_tokens ? *config.max_new_tokens
                           : config.max_length     ? room_below(*config.max_length)
                                                   : kDefaultNewTokens;
  if (model.max_position_embeddings == 0) return options;
  const uint64_t room = room_below(model.max_position_embeddings);
  if (room == 0)
    return invalid("generation_c2",
                   "the prompt has {} tokens, and the model reads {} (max_position_embeddings)",
                   prompt_tokens, model.max_position_embeddings);
  options.max_new_tokens = std::min(options.max_new_tokens, room);
  return options;
}

}  // namespace tandem
