// For tests: renders many templates in one process. A JSON object {"template", "messages", "tools",
// "add_generation_prompt", "extra", "now"} a line in; {"text"} or {"error"} a line out.

#include <fmt/format.h>

#include <iostream>

#include "text/template/chat_template.h"

namespace tandem {
namespace {

Result<std::string> render_line(const std::string& line) {
  TANDEM_TRY(const Json job, parse_json(line, {.max_depth = 100}));
  TANDEM_TRY(const ChatTemplate chat_template,
             chat_template_from_text(job.at("template").get_ref<const std::string&>(), ""));
  ChatOptions options;
  options.add_generation_prompt = job.value("add_generation_prompt", false);
  options.tools = job.value("tools", Json());
  options.documents = job.value("documents", Json());
  options.extra = job.value("extra", Json::object());
  if (job.contains("max_steps")) options.limits.max_steps = job["max_steps"].get<uint64_t>();
  return render_chat(chat_template, job.at("messages"), options);
}

}  // namespace
}  // namespace tandem

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const tandem::Result<std::string> text = tandem::render_line(line);
    const tandem::Json answer =
        text.ok() ? tandem::Json{{"text", text.value()}}
                  : tandem::Json{{"error", text.error().message()}, {"rule", text.error().rule}};
    std::cout << answer.dump(-1, ' ', false, tandem::Json::error_handler_t::replace) << "\n";
  }
  return 0;
}
