#include "convert/match_report.h"

namespace tandem {

std::vector<std::string> problems(const Match& match) {
  std::vector<std::string> lines;
  for (const std::string& name : match.missing) lines.push_back("missing: " + name);
  for (const std::string& name : match.unexpected) lines.push_back("unexpected: " + name);
  for (const std::string& line : match.wrong) lines.push_back("wrong: " + line);
  return lines;
}

std::vector<std::string> missing_on_tensorflow_side(const RuleTable& rules, const TensorSource& bundle) {
  std::vector<std::string> lines;
  for (const TensorPlan& plan : expand(rules)) {
    const TensorInfo* found = bundle.find(plan.tf);
    if (!found)
      lines.push_back("missing: " + plan.tf);
    else if (found->shape != plan.tf_shape)
      lines.push_back(fmt::format("wrong: {}: shape {}, expected {}", plan.tf, to_string(found->shape),
                                  to_string(plan.tf_shape)));
  }
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
