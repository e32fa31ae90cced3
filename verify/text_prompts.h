#pragma once
// Texts that both sides are asked to read, as ids by the hf engine's tokenizer. The texts are our own.

#include "verify/probes.h"

namespace tandem {

/// Prose, code and numbers, some 700 tokens by most tokenizers.
extern const std::string_view kLongText;
/// Beginnings to be continued, a dozen tokens each or fewer.
extern const std::span<const std::string_view> kShortTexts;

/// Texts as ids, or why there are none.
struct TextIds {
  std::vector<std::vector<int32_t>> rows;  ///< as many as there are texts, none empty; or no row at all
  std::string skipped;                     ///< empty where there are rows
};

/// The ids of some texts. `tokenizer` may be null. No engine with a tokenizer, no tokenizer.json or a broken
/// one, an id at or above vocab_size, and a text without ids are reasons to skip. Errors: those of a worker
/// that is gone.
Result<TextIds> encode_texts(Engine* tokenizer, std::span<const std::string_view> texts, uint64_t vocab_size);

/// The long text as a probe, "text", added to `probes`; or why there is none. Errors: as encode_texts.
Status add_text_probe(Engine* tokenizer, uint64_t vocab_size, std::vector<Probe>& probes,
                      std::vector<std::string>& skipped);

}  // namespace tandem
