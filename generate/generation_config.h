#pragma once
// What a model's files say about how to write: generation_config.json, and config.json where it is silent.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generate/sampling_wishes.h"

namespace tandem {

struct GenerationConfig {
  std::vector<int32_t> stop_ids;  ///< eos_token_id, one or several
  std::string stop_ids_from;      ///< the file that they are from, or empty: there are none
  std::vector<std::string> stop_strings;
  std::optional<uint64_t> max_new_tokens;
  std::optional<uint64_t> max_length;  ///< prompt and answer together
  SamplingWishes sampling;             ///< all but the seed; their ranges are not checked
  std::vector<std::string> notes;      ///< what is asked for and not done, a line each
};

/// From the text of the files beside a model, by name; both may be missing. eos_token_id, max_new_tokens,
/// max_length, stop_strings and the fields of SamplingWishes are honoured. Everything else that would change
/// the text is named in the notes: other penalties and ways to sample, beams, and keys that nobody knows.
/// Errors: those of parse_json, at the file; generation_c1 a key that is honoured has another form, or an
/// eos_token_id is not below vocab_size.
Result<GenerationConfig> generation_config(const std::map<std::string, std::string>& files,
                                           uint64_t vocab_size);

}  // namespace tandem
