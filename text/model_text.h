#pragma once
// How a model's text becomes its token ids: its tokenizer.json, and what tokenizer_config.json adds to it.

#include <map>

#include "text/tokenizer.h"

namespace tandem::text {

struct ModelText {
  Tokenizer tokenizer;
  std::optional<uint32_t> start_id;  ///< of bos_token, or what the post-processor begins with
  bool adds_start = false;           ///< the post-processor or `add_bos_token` asks for it
  std::vector<std::string> notes;    ///< where the two files disagree, a line each
};

/// From the text of the files beside a model, by name. Of tokenizer_config.json, which may be missing,
/// `bos_token` and `add_bos_token` are used and `tokenizer_class` is compared: where the class would cut
/// texts otherwise, tokenizer.json is followed, and a note says so. Errors: missing (text_c1) there is no
/// tokenizer.json; those of Tokenizer::parse and parse_json, at the file; text_c2 a key of
/// tokenizer_config.json has another type.
Result<ModelText> model_text(const std::map<std::string, std::string>& files);

/// The note on `tokenizer_class` alone, or empty; `config` is the text of tokenizer_config.json. Errors: as
/// above.
Result<std::string> note_on_class(const Tokenizer& tokenizer, std::string_view config);

/// The ids of a prompt. `special_tokens`: those that the tokenizer puts around a text; without them (for what
/// a chat template made) the start token alone. The start token is added where a source asks for it, and
/// never stands twice. Errors: those of Tokenizer::encode.
Result<std::vector<int32_t>> prompt_ids(const ModelText& model, std::string_view prompt,
                                        bool special_tokens = true);

/// For each id below `rows` (the model's vocab_size), whether a token has it: others must not be chosen.
/// Errors: invalid (text_c3) the tokenizer has ids that the model has no row for.
Result<std::vector<bool>> ids_with_token(const Tokenizer& tokenizer, uint64_t rows);

/// An id as people read it: 257 "Ġthe".
std::string id_with_piece(const Tokenizer& tokenizer, int32_t id);

}  // namespace tandem::text
