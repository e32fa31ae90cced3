#include "text/template/chat_template.h"

#include <algorithm>
#include <functional>

#include "text/template/parser.h"

namespace tandem {
namespace {

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};
constexpr JsonLimits kJsonLimits{.max_depth = 64, .large_integers = true};

/// "FILE, line 3" of an error that knows its line, else "FILE".
Error in_template(Error error, const std::string& where) {
  if (error.where.empty())
    error.where = where;
  else if (error.where.starts_with("line "))
    error.where = where.empty() ? error.where : where + ", " + error.where;
  return error;
}

Result<NamedTemplate> parsed(std::string name, std::string_view text, const std::string& where) {
  auto tree = chat::parse_template(text);
  if (!tree.ok()) return in_template(std::move(tree).error(), where);
  return NamedTemplate{std::move(name), std::make_shared<const chat::SyntaxTree>(std::move(tree).value())};
}

Result<std::vector<NamedTemplate>> named_templates(const Json& list, const std::string& where) {
  std::vector<NamedTemplate> all;
  for (const Json& entry : list) {
    const bool is_one = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                        entry.contains("template") && entry["template"].is_string();
    if (!is_one)
      return invalid("chat_c7", "a chat template in a list must have a name and a template").at(where);
    TANDEM_TRY(NamedTemplate one,
               parsed(entry["name"], entry["template"].get_ref<const std::string&>(), where));
    all.push_back(std::move(one));
  }
  return all;
}

void add_special_tokens(const Json& config, Json& tokens) {
  if (!config.is_object()) return;
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end() || tokens.contains(name)) continue;
    if (found->is_string()) tokens[name] = *found;
    if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
      tokens[name] = (*found)["content"];
  }
}

Result<std::optional<std::string>> text_if_there(const FileSystem& files, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::absent) return std::optional<std::string>();
  TANDEM_TRY(std::string text, read_text(files, path));
  return std::optional<std::string>(std::move(text));
}

/// The text of a file beside the model, by name.
using NamedText = std::function<Result<std::optional<std::string>>(const std::string& name)>;

Status add_special_tokens_of(const NamedText& text_of, const std::string& folder, Json& tokens) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    TANDEM_TRY(const auto text, text_of(name));
    if (!text) continue;
    auto config = parse_json(*text, kJsonLimits);
    if (!config.ok()) return std::move(config).error().at(join(folder, name));
    add_special_tokens(config.value(), tokens);
  }
  return {};
}

Result<ChatTemplate> load_from(const NamedText& text_of, const std::string& folder) {
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    TANDEM_TRY(const auto text, text_of(name));
    if (!text) continue;
    const std::string path = join(folder, name);
    TANDEM_TRY(ChatTemplate found, path.ends_with(".json") ? chat_template_from_json(*text, path)
                                                           : chat_template_from_text(*text, path));
    TANDEM_CHECK(add_special_tokens_of(text_of, folder, found.special_tokens));
    return found;
  }
  return missing("", "no chat_template.jinja, chat_template.json or tokenizer_config.json").at(folder);
}

Result<const chat::SyntaxTree*> chosen(const ChatTemplate& chat_template, const ChatOptions& options) {
  const auto named = [&](std::string_view name) {
    return std::find_if(chat_template.templates.begin(), chat_template.templates.end(),
                        [&](const NamedTemplate& one) { return one.name == name; });
  };
  auto found = chat_template.templates.end();
  if (!options.template_name.empty())
    found = named(options.template_name);
  else if (!options.tools.is_null())
    found = named("tool_use");
  if (options.template_name.empty() && found == chat_template.templates.end()) found = named("default");
  if (found != chat_template.templates.end()) return found->tree.get();
  std::string names;
  for (const NamedTemplate& one : chat_template.templates) names += (names.empty() ? "" : ", ") + one.name;
  return invalid("chat_c7", "there is no template \"{}\", only {}",
                 options.template_name.empty() ? "default" : options.template_name, names)
      .at(chat_template.where);
}

Status objects_in_a_list(const Json& list, std::string_view what) {
  if (!list.is_array()) return invalid("chat_c7", "{} must be a list, found {}", what, list.type_name());
  for (size_t i = 0; i < list.size(); ++i)
    if (!list[i].is_object())
      return invalid("chat_c7", "{}[{}] must be an object, found {}", what, i, list[i].type_name());
  return {};
}

/// As transformers does: reasoning under its older names is given under the standard one too.
Json with_standard_reasoning(const Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    Json filled{{"thinking", *found}};
    for (const auto& [key, value] : message.items()) filled[key] = value;
    filled["reasoning_content"] = *found;
    return filled;
  }
  return message;
}

Status set_variables(chat::Interpreter& in, const ChatTemplate& chat_template, const Json& messages,
                     const ChatOptions& options) {
  TANDEM_CHECK(objects_in_a_list(messages, "messages"));
  if (!options.tools.is_null()) TANDEM_CHECK(objects_in_a_list(options.tools, "tools"));
  if (!options.documents.is_null()) TANDEM_CHECK(objects_in_a_list(options.documents, "documents"));
  Json variables = chat_template.special_tokens;
  if (options.bos_token) variables["bos_token"] = *options.bos_token;
  if (options.eos_token) variables["eos_token"] = *options.eos_token;
  for (const auto& [name, value] : options.extra.items()) variables[name] = value;
  Json aliased = Json::array();
  for (const Json& message : messages) aliased.push_back(with_standard_reasoning(message));
  variables["messages"] = std::move(aliased);
  variables["tools"] = options.tools;
  variables["documents"] = options.documents;
  variables["add_generation_prompt"] = options.add_generation_prompt;
  for (const auto& [name, value] : variables.items()) {
    TANDEM_TRY(chat::Value converted, in.from_json(value));
    in.set(name, std::move(converted));
  }
  return {};
}

std::tm local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  return now;
}

}  // namespace

Result<ChatTemplate> chat_template_from_text(std::string_view text, std::string where) {
  TANDEM_TRY(NamedTemplate one, parsed("default", text, where));
  return ChatTemplate{std::move(where), {std::move(one)}, Json::object()};
}

Result<ChatTemplate> chat_template_from_json(std::string_view text, std::string where) {
  auto config = parse_json(text, kJsonLimits);
  if (!config.ok()) return std::move(config).error().at(where);
  const Json& json = config.value();
  if (!json.is_object() || !json.contains("chat_template") || json["chat_template"].is_null())
    return invalid("chat_c7", "no chat_template in it").at(where).because("a base model has none");
  ChatTemplate found{where, {}, Json::object()};
  add_special_tokens(json, found.special_tokens);
  const Json& source = json["chat_template"];
  if (source.is_string()) {
    TANDEM_TRY(NamedTemplate one, parsed("default", source.get_ref<const std::string&>(), where));
    found.templates.push_back(std::move(one));
  } else if (source.is_array() && !source.empty()) {
    TANDEM_TRY(found.templates, named_templates(source, where));
  } else {
    return invalid("chat_c7", "chat_template must be a string or a list, found {}", source.type_name())
        .at(where);
  }
  return found;
}

Result<ChatTemplate> load_chat_template(const FileSystem& files, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::directory)
    return load_from([&](const std::string& name) { return text_if_there(files, join(path, name)); }, path);
  TANDEM_TRY(const std::string text, read_text(files, path));
  return path.ends_with(".json") ? chat_template_from_json(text, path) : chat_template_from_text(text, path);
}

Result<ChatTemplate> chat_template_from_files(const std::map<std::string, std::string>& files,
                                              const std::string& where) {
  const auto text_of = [&](const std::string& name) -> Result<std::optional<std::string>> {
    const auto found = files.find(name);
    return found == files.end() ? std::optional<std::string>() : std::optional(found->second);
  };
  return load_from(text_of, where);
}

Result<std::string> render_chat(const ChatTemplate& chat_template, const Json& messages,
                                const ChatOptions& options) {
  TANDEM_TRY(const chat::SyntaxTree* tree, chosen(chat_template, options));
  chat::Interpreter in(*tree, options.limits, options.now ? *options.now : local_time());
  TANDEM_CHECK(set_variables(in, chat_template, messages, options));
  auto text = in.render();
  if (!text.ok()) return in_template(std::move(text).error(), chat_template.where);
  return text;
}

}  // namespace tandem
