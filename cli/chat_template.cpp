// tandem chat-template: a conversation as the text that a model reads.

#include "text/template/chat_template.h"

#include "cli/run_flags.h"

namespace tandem {
namespace {

struct Flags {
  std::string path, messages, tools, documents;
  std::vector<std::string> variables;
  ChatOptions options;
};

constexpr const char* kFooter =
    "PATH is a model's folder (chat_template.jinja, chat_template.json or tokenizer_config.json), or one "
    "such "
    "file.\n"
    "Prints exactly what transformers' apply_chat_template gives, with no newline added. "
    "docs/chat_templates.md\n"
    "says what templates may use. A file of messages: [{\"role\": \"user\", \"content\": \"Hello\"}]\n"
    "\n"
    "Examples:\n"
    "  tandem chat-template ./SmolLM2-135M-Instruct --messages chat.json --add-generation-prompt\n"
    "  tandem chat-template ./Qwen3-8B --messages chat.json --set enable_thinking=false\n"
    "  tandem chat-template template.jinja --messages chat.json --tools tools.json --json";

Result<Json> json_file(const std::string& path) {
  TANDEM_TRY(const std::string text, read_text(real_files(), path));
  auto json = parse_json(text, {.max_depth = 64});
  if (!json.ok()) return std::move(json).error().at(path);
  return json;
}

Result<int> chat_template_command(Flags& flags, bool json) {
  TANDEM_TRY(const ChatTemplate chat_template, load_chat_template(real_files(), flags.path));
  TANDEM_TRY(const Json messages, json_file(flags.messages));
  if (!flags.tools.empty()) {
    TANDEM_TRY(flags.options.tools, json_file(flags.tools));
  }
  if (!flags.documents.empty()) {
    TANDEM_TRY(flags.options.documents, json_file(flags.documents));
  }
  for (const std::string& word : flags.variables) TANDEM_CHECK(add_variable(word, flags.options.extra));
  TANDEM_TRY(const std::string text, render_chat(chat_template, messages, flags.options));
  if (json)
    print_json(Json{{"text", text}, {"template", chat_template.where}});
  else
    fmt::print("{}", text);
  return 0;
}

}  // namespace

Status add_variable(const std::string& word, Json& variables) {
  const size_t sign = word.find('=');
  if (sign == std::string::npos || sign == 0) return usage("", "--set {}: expected NAME=VALUE", word);
  const std::string name = word.substr(0, sign), value = word.substr(sign + 1);
  for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"})
    if (name == own) return usage("", "--set {}: there is an option for it", name);
  auto json = parse_json(value, {.max_depth = 64});
  variables[name] = json.ok() ? std::move(json).value() : Json(value);
  return {};
}

void add_chat_template(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(app, session, "chat-template", "A conversation as the text that a model reads", kFooter);
  command->add_option("PATH", flags->path, "A model's folder, a .jinja file or a tokenizer_config.json")
      ->required();
  command->add_option("--messages", flags->messages, "JSON file: a list of {\"role\", \"content\"}")
      ->required();
  command->add_option("--tools", flags->tools, "JSON file: a list of tools, each with its JSON schema");
  command->add_option("--documents", flags->documents, "JSON file: a list of documents");
  command->add_flag("--add-generation-prompt", flags->options.add_generation_prompt,
                    "End with what begins the model's answer");
  command->add_option("--template", flags->options.template_name,
                      "Which of several templates (default: tool_use with --tools, else default)");
  command->add_option("--set", flags->variables, "NAME=VALUE for the template, the value as JSON; repeatable")
      ->allow_extra_args(false);
  command->callback([flags, &session] { session.outcome = chat_template_command(*flags, session.json); });
}

}  // namespace tandem
