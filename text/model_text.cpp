#include "text/model_text.h"

#include <algorithm>

#include "base/json.h"

namespace tandem::text {
namespace {

constexpr std::string_view kTokenizerFile = "tokenizer.json", kConfigFile = "tokenizer_config.json";

/// Classes whose own cutting is known: at bytes, or at blanks as sentencepiece does. Without "Fast".
struct ClassRow {
  std::string_view name;
  bool bytes;
};
constexpr ClassRow kClasses[] = {
    {"LlamaTokenizer", false}, {"CodeLlamaTokenizer", false}, {"GemmaTokenizer", false},
    {"T5Tokenizer", false},    {"AlbertTokenizer", false},    {"XLMRobertaTokenizer", false},
    {"GPT2Tokenizer", true},   {"Qwen2Tokenizer", true},      {"RobertaTokenizer", true},
};

Result<Tokenizer> tokenizer_of(const std::map<std::string, std::string>& files) {
  const auto file = files.find(std::string(kTokenizerFile));
  if (file == files.end()) return missing("text_c1", "the model has no {}", kTokenizerFile);
  auto tokenizer = Tokenizer::parse(file->second);
  if (tokenizer.ok()) return tokenizer;
  Error error = std::move(tokenizer).error();
  if (!error.where.empty()) error.text = error.where + ": " + error.text;
  error.where = kTokenizerFile;
  return error;
}

/// What is used of tokenizer_config.json.
struct TextConfig {
  std::string tokenizer_class;
  std::string start_token;
  std::optional<bool> add_start;
};

Error wrong_type(std::string_view key, std::string_view expected, const Json& found) {
  return invalid("text_c2", "{} must be {}, found {}", key, expected, found.type_name())
      .at(std::string(kConfigFile));
}

/// A token is a string, or an object with `content`; null is none.
Result<std::string> token_in(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    return (*found)["content"].get<std::string>();
  return wrong_type(key, "a string or an object with content", *found);
}

Result<TextConfig> text_config(std::string_view text) {
  TextConfig read;
  auto parsed = parse_json(text, {.max_depth = 64, .large_integers = true});
  if (!parsed.ok()) return std::move(parsed).error().at(std::string(kConfigFile));
  const Json& config = parsed.value();
  if (!config.is_object()) return wrong_type("the file", "an object", config);
  TANDEM_TRY(read.start_token, token_in(config, "bos_token"));
  if (const auto found = config.find("tokenizer_class"); found != config.end() && !found->is_null()) {
    if (!found->is_string()) return wrong_type("tokenizer_class", "a string", *found);
    read.tokenizer_class = found->get<std::string>();
  }
  if (const auto found = config.find("add_bos_token"); found != config.end() && !found->is_null()) {
    if (!found->is_boolean()) return wrong_type("add_bos_token", "true or false", *found);
    read.add_start = found->get<bool>();
  }
  return read;
}

std::string class_note(const TextConfig& config, const Tokenizer& tokenizer) {
  std::string_view name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  for (const ClassRow& row : kClasses)
    if (row.name == name && row.bytes != tokenizer.decodes_bytes())
      return fmt::format("{} names the class {}, which cuts texts {}; {} cuts them {}, and is followed",
                         kConfigFile, config.tokenizer_class, row.bytes ? "into bytes" : "at blanks",
                         kTokenizerFile, row.bytes ? "otherwise" : "into bytes");
  return {};
}

/// What the post-processor puts before a text, if it does.
std::optional<uint32_t> put_before(const Tokenizer& tokenizer) {
  EncodeMemory memory;
  const auto with = tokenizer.encode("a", memory), without = tokenizer.encode("a", memory, {false, false});
  if (!with.ok() || !without.ok()) return {};  // a vocabulary without an "a": nothing can be said
  const auto &around = with.value().ids, &bare = without.value().ids;
  if (around.size() <= bare.size() || (!bare.empty() && around.front() == bare.front())) return {};
  return around.front();
}

void find_start(const TextConfig& config, ModelText& model) {
  const std::optional<uint32_t> before = put_before(model.tokenizer);
  model.start_id = config.start_token.empty() ? before : model.tokenizer.id_of(config.start_token);
  const bool processor_asks = model.start_id && before == model.start_id;
  model.adds_start = processor_asks || (model.start_id && config.add_start == true);
  if (config.add_start == true && !model.start_id)
    model.notes.push_back(fmt::format("{} asks for a start token (add_bos_token) and names {}", kConfigFile,
                                      config.start_token.empty() ? "none" : "one without an id"));
  if (config.add_start == false && processor_asks)
    model.notes.push_back(
        fmt::format("{} asks for no start token (add_bos_token), {} puts one before a text, and is followed",
                    kConfigFile, kTokenizerFile));
}

}  // namespace

Result<ModelText> model_text(const std::map<std::string, std::string>& files) {
  ModelText model;
  TANDEM_TRY(model.tokenizer, tokenizer_of(files));
  const auto file = files.find(std::string(kConfigFile));
  TANDEM_TRY(const TextConfig config,
             text_config(file == files.end() ? "{}" : std::string_view(file->second)));
  if (std::string note = class_note(config, model.tokenizer); !note.empty())
    model.notes.push_back(std::move(note));
  find_start(config, model);
  return model;
}

Result<std::string> note_on_class(const Tokenizer& tokenizer, std::string_view text) {
  TANDEM_TRY(const TextConfig config, text_config(text));
  return class_note(config, tokenizer);
}

Result<std::vector<int32_t>> prompt_ids(const ModelText& model, std::string_view prompt,
                                        bool special_tokens) {
  EncodeMemory memory;
  TANDEM_TRY(const Encoding encoding,
             model.tokenizer.encode(prompt, memory, {.add_special_tokens = special_tokens}));
  std::vector<int32_t> ids(encoding.ids.begin(), encoding.ids.end());
  if (!model.adds_start) return ids;
  const auto start = static_cast<int32_t>(*model.start_id);
  const auto first_other = std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id != start; });
  ids.erase(ids.begin(), first_other);
  ids.insert(ids.begin(), start);
  return ids;
}

Result<std::vector<bool>> ids_with_token(const Tokenizer& tokenizer, uint64_t rows) {
  std::vector<bool> known(rows);
  size_t inside = 0;
  for (uint64_t id = 0; id < rows; ++id) {
    known[id] = tokenizer.token_of(static_cast<uint32_t>(id)).has_value();
    inside += known[id];
  }
  if (inside < tokenizer.vocabulary_size())
    return invalid(
               "text_c3",
               "the tokenizer has {} tokens, {} of them with ids from {} on, for which the model has no row",
               tokenizer.vocabulary_size(), tokenizer.vocabulary_size() - inside, rows)
        .because(fmt::format("vocab_size is {}: tokenizer and weights are not of one model", rows));
  return known;
}

std::string id_with_piece(const Tokenizer& tokenizer, int32_t id) {
  const auto piece = id < 0 ? std::nullopt : tokenizer.token_of(static_cast<uint32_t>(id));
  return piece ? fmt::format("{} \"{}\"", id, *piece) : fmt::format("{}", id);
}

}  // namespace tandem::text
