#pragma once
// Texts that both sides are asked to read, as ids by a side's tokenizer.json. The texts are our own.

#include "convert/open_model.h"
#include "text/model_text.h"
#include "verify/probes.h"

namespace tandem {

/// Prose, code and numbers, some 700 tokens by most tokenizers.
extern const std::string_view kLongText;
/// Beginnings to be continued, a dozen tokens each or fewer.
extern const std::span<const std::string_view> kShortTexts;

/// A side's own tokenizer, or why it has none.
struct SideText {
  std::optional<text::ModelText> model;
  std::string skipped;  ///< empty where there is one
};
/// From the files beside a model. Its notes are left aside: both sides read a text by the files.
SideText text_of(const OpenedModel& opened);

/// Texts as ids, or why there are none.
struct TextIds {
  std::vector<std::vector<int32_t>> rows;  ///< as many as there are texts, none empty; or no row at all
  std::string skipped;                     ///< empty where there are rows
};

/// The ids of some texts, as `tandem run` would read them. No tokenizer, a text that it cannot read, an id at
/// or above vocab_size, and a text without ids are reasons to skip.
TextIds encode_texts(const SideText& side, std::span<const std::string_view> texts, uint64_t vocab_size);

/// Both sides' tokenizers, where both have one, make the same ids of all our texts. Errors: not_equal
/// (verify_c12) with the first text and position that differ.
Status same_ids(const SideText& left, const SideText& right);

/// The tokenizers library, in an hf engine, makes the same ids of our long text as our own tokenizer does,
/// the start token that tokenizer_config.json asks for aside. Errors: not_equal (verify_c13) with the first
/// position that differs; the engine's, that it cannot read the file (invalid) among them.
Status same_ids_as_library(const text::Tokenizer& tokenizer, Engine& hf);

/// The long text as a probe, "text", added to `probes`; or why there is none.
void add_text_probe(const SideText& side, uint64_t vocab_size, std::vector<Probe>& probes,
                    std::vector<std::string>& skipped);

}  // namespace tandem
