#include "convert/match_report.h"

namespace tandem {

std::vector<std::string> problems(const Match& match) {
  std::vector<std::string> lines;
  for (const std::string& name : match.missing) lines.push_back("missing: " + name);
  for (const std::string& name : match.unexpected) lines.push_back("unexpected: " + name);
  for (const std::string& line : match.wrong) lines.push_back("wrong: " + line);
  return lines;
}

Error all_problems(std::string rule, std::string_view what, const std::vector<std::string>& problems) {
  constexpr size_t kShown = 40;
  std::string text =
      fmt::format("{}: {} {}", what, problems.size(), problems.size() == 1 ? "problem" : "problems");
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) text += "\n  " + problems[i];
  if (problems.size() > kShown) text += fmt::format("\n  and {} more", problems.size() - kShown);
  return invalid(std::move(rule), "{}", text);
}

}  // namespace tandem
