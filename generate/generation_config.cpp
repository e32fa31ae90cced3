#include "generate/generation_config.h"

#include <algorithm>

#include "base/json.h"

namespace tandem {
namespace {

constexpr std::string_view kFile = "generation_config.json", kConfig = "config.json";

/// What is made of a key.
enum class Role {
  honoured,
  no_matter,  ///< changes no token
  changes     ///< would change the answer: said to be left out, unless it has its neutral value
};
struct KeyRow {
  std::string_view key;
  Role role;
  std::string_view neutral = "null";  ///< as JSON
};
constexpr KeyRow kKeys[] = {
    {"eos_token_id", Role::honoured},
    {"max_new_tokens", Role::honoured},
    {"max_length", Role::honoured},
    {"stop_strings", Role::honoured},
    {"do_sample", Role::honoured},
    {"temperature", Role::honoured},
    {"top_k", Role::honoured},
    {"top_p", Role::honoured},
    {"min_p", Role::honoured},
    {"repetition_penalty", Role::honoured},

    {"_from_model_config", Role::no_matter},
    {"transformers_version", Role::no_matter},
    {"bos_token_id", Role::no_matter},
    {"pad_token_id", Role::no_matter},
    {"decoder_start_token_id", Role::no_matter},
    {"use_cache", Role::no_matter},
    {"cache_implementation", Role::no_matter},
    {"cache_config", Role::no_matter},
    {"return_dict_in_generate", Role::no_matter},
    {"output_attentions", Role::no_matter},
    {"output_hidden_states", Role::no_matter},
    {"output_scores", Role::no_matter},
    {"output_logits", Role::no_matter},
    {"remove_invalid_values", Role::no_matter},
    {"renormalize_logits", Role::no_matter},
    {"length_penalty", Role::no_matter},
    {"early_stopping", Role::no_matter},
    {"prompt_lookup_num_tokens", Role::no_matter},
    {"disable_compile", Role::no_matter},
    {"trust_remote_code", Role::no_matter},

    {"top_h", Role::changes},
    {"typical_p", Role::changes, "1"},
    {"epsilon_cutoff", Role::changes, "0"},
    {"eta_cutoff", Role::changes, "0"},
    {"num_beams", Role::changes, "1"},
    {"num_beam_groups", Role::changes, "1"},
    {"diversity_penalty", Role::changes, "0"},
    {"penalty_alpha", Role::changes},
    {"num_return_sequences", Role::changes, "1"},
    {"encoder_repetition_penalty", Role::changes, "1"},
    {"no_repeat_ngram_size", Role::changes, "0"},
    {"encoder_no_repeat_ngram_size", Role::changes, "0"},
    {"bad_words_ids", Role::changes},
    {"force_words_ids", Role::changes},
    {"constraints", Role::changes},
    {"forced_bos_token_id", Role::changes},
    {"forced_eos_token_id", Role::changes},
    {"suppress_tokens", Role::changes},
    {"begin_suppress_tokens", Role::changes},
    {"sequence_bias", Role::changes},
    {"exponential_decay_length_penalty", Role::changes},
    {"guidance_scale", Role::changes, "1"},
    {"low_memory", Role::no_matter},
    {"watermarking_config", Role::changes},
    {"token_healing", Role::changes, "false"},
    {"min_length", Role::changes, "0"},
    {"min_new_tokens", Role::changes, "0"},
    {"max_time", Role::changes},
    {"dola_layers", Role::changes},
};

const KeyRow* row_of(std::string_view key) {
  const auto found =
      std::find_if(std::begin(kKeys), std::end(kKeys), [&](const KeyRow& row) { return row.key == key; });
  return found == std::end(kKeys) ? nullptr : &*found;
}

/// Null and the neutral value ask for nothing; nor do empty lists.
bool is_neutral(const Json& value, const KeyRow& row) {
  if (value.is_null() || (value.is_structured() && value.empty())) return true;
  return value == Json::parse(row.neutral);
}

/// A value as JSON, its beginning if it is long.
std::string shown(const Json& value) {
  std::string words = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (words.size() > 60) words = words.substr(0, 60) + "...";
  return words;
}

Error wrong(std::string_view file, std::string_view key, std::string_view expected, const Json& found) {
  return invalid("generation_c1", "{} must be {}, found {}", key, expected, shown(found))
      .at(std::string(file));
}

Result<Json> object_in(const std::map<std::string, std::string>& files, std::string_view name) {
  const auto file = files.find(std::string(name));
  if (file == files.end()) return Json::object();
  auto json = parse_json(file->second, {.large_integers = true});
  if (!json.ok()) return std::move(json).error().at(std::string(name));
  if (!json.value().is_object()) return wrong(name, "the file", "an object", json.value());
  return json;
}

Result<std::vector<int32_t>> ids_in(const Json& config, std::string_view file, uint64_t vocab_size) {
  std::vector<int32_t> ids;
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocab_size || id.get<uint64_t>() > INT32_MAX)
      return wrong(file, "eos_token_id", fmt::format("an id below {}, or a list of them", vocab_size),
                   *found);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Result<std::optional<uint64_t>> count_in(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::optional<uint64_t>();
  if (!found->is_number_unsigned()) return wrong(kFile, key, "a whole number from 0", *found);
  return std::optional(found->get<uint64_t>());
}

Result<std::vector<std::string>> strings_in(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::vector<std::string>();
  if (found->is_string()) return std::vector<std::string>{found->get<std::string>()};
  const auto is_string = [](const Json& item) { return item.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_string))
    return wrong(kFile, key, "a string or a list of strings", *found);
  return found->get<std::vector<std::string>>();
}

Status read_number(const Json& config, const char* key, std::optional<double>& number) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return {};
  if (!found->is_number()) return wrong(kFile, key, "a number", *found);
  number = found->get<double>();
  return {};
}

Result<SamplingWishes> sampling_in(const Json& config) {
  SamplingWishes wishes;
  if (const auto found = config.find("do_sample"); found != config.end() && !found->is_null()) {
    if (!found->is_boolean()) return wrong(kFile, "do_sample", "true or false", *found);
    wishes.do_sample = found->get<bool>();
  }
  TANDEM_CHECK(read_number(config, "temperature", wishes.temperature));
  TANDEM_TRY(wishes.top_k, count_in(config, "top_k"));
  TANDEM_CHECK(read_number(config, "top_p", wishes.top_p));
  TANDEM_CHECK(read_number(config, "min_p", wishes.min_p));
  TANDEM_CHECK(read_number(config, "repetition_penalty", wishes.repetition_penalty));
  return wishes;
}

std::vector<std::string> notes_on(const Json& config) {
  std::vector<std::string> left_out, unknown;
  for (const auto& [key, value] : config.items()) {
    const KeyRow* row = row_of(key);
    if (row == nullptr) {
      unknown.push_back(key);
    } else if (row->role == Role::changes && !is_neutral(value, *row)) {
      left_out.push_back(fmt::format("{} {}", key, shown(value)));
    }
  }
  std::vector<std::string> notes;
  if (!left_out.empty())
    notes.push_back(fmt::format("{} asks for {}: not done", kFile, fmt::join(left_out, ", ")));
  if (!unknown.empty())
    notes.push_back(fmt::format("{} has keys that nobody reads: {}", kFile, fmt::join(unknown, ", ")));
  return notes;
}

}  // namespace

Result<GenerationConfig> generation_config(const std::map<std::string, std::string>& files,
                                           uint64_t vocab_size) {
  TANDEM_TRY(const Json config, object_in(files, kFile));
  GenerationConfig read;
  TANDEM_TRY(read.stop_ids, ids_in(config, kFile, vocab_size));
  if (!read.stop_ids.empty()) read.stop_ids_from = kFile;
  if (read.stop_ids.empty()) {
    TANDEM_TRY(const Json model, object_in(files, kConfig));
    TANDEM_TRY(read.stop_ids, ids_in(model, kConfig, vocab_size));
    if (!read.stop_ids.empty()) read.stop_ids_from = kConfig;
  }
  TANDEM_TRY(read.stop_strings, strings_in(config, "stop_strings"));
  TANDEM_TRY(read.max_new_tokens, count_in(config, "max_new_tokens"));
  TANDEM_TRY(read.max_length, count_in(config, "max_length"));
  TANDEM_TRY(read.sampling, sampling_in(config));
  read.notes = notes_on(config);
  return read;
}

}  // namespace tandem
