#pragma once
// A model's chat template: from its folder to the text of a conversation, byte for byte what transformers'
// apply_chat_template gives. What templates may use: docs/chat_templates.md.
//
// A template is a program from outside. It sees the values it is given and the tables of rows.h, nothing
// else, and ends within its limits.

#include <map>
#include <optional>

#include "base/file.h"
#include "text/template/interpreter.h"

namespace tandem {

/// One template, parsed. Copies share the tree; rendering from several threads is fine.
struct NamedTemplate {
  std::string name;  ///< "default" where the file gives none
  std::shared_ptr<const chat::SyntaxTree> tree;
};

struct ChatTemplate {
  std::string where;  ///< the file, for errors
  std::vector<NamedTemplate> templates;
  Json special_tokens = Json::object();  ///< bos_token and its like, of the folder
};

struct ChatOptions {
  bool add_generation_prompt = false;
  Json tools;                                       ///< a list of JSON schemas, or null
  Json documents;                                   ///< a list of objects, or null
  std::optional<std::string> bos_token, eos_token;  ///< instead of the folder's
  Json extra = Json::object();                      ///< further variables: enable_thinking
  std::string template_name;  ///< default: "tool_use" with tools where there is one, else "default"
  chat::Limits limits;
  std::optional<std::tm> now;  ///< what strftime_now sees; default: the clock
};

/// From the text of a .jinja file. Errors: those of parse_template, at `where`.
Result<ChatTemplate> chat_template_from_text(std::string_view text, std::string where);
/// From a tokenizer_config.json or chat_template.json: `chat_template` as a string, or as a list of
/// {"name", "template"}. Errors: json_c*; chat_c7 where there is none, or it has another form.
Result<ChatTemplate> chat_template_from_json(std::string_view text, std::string where);
/// From a file of either kind, or a folder: its chat_template.jinja, or chat_template.json, or
/// tokenizer_config.json. Special tokens come from the folder's tokenizer_config.json and
/// special_tokens_map.json. Errors: missing too.
Result<ChatTemplate> load_chat_template(const FileSystem& files, const std::string& path);

/// The same from the text of the files beside a model, by name. `where` stands before their names in errors.
Result<ChatTemplate> chat_template_from_files(const std::map<std::string, std::string>& files,
                                              const std::string& where);

/// The conversation as text. `messages` is a list of objects.
/// Errors, with the template's line: chat_c2 past a limit; chat_c3 what Python would raise; chat_c4 an
/// attribute that is not for templates; chat_c5 what we lack, by name; chat_c6 the template's own refusal
/// (raise_exception); chat_c7 input of another form.
Result<std::string> render_chat(const ChatTemplate& chat_template, const Json& messages,
                                const ChatOptions& options);

}  // namespace tandem
