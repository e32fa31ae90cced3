// What every rule table must keep: rules_c2 to rules_c6.

#include <algorithm>
#include <unordered_set>

#include "rules/problems.h"
#include "rules/row.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxNames = 1 << 20;      // DeepSeek-V3 has 91 thousand
constexpr uint64_t kMaxNameBytes = 1 << 28;  // of all names of a row; DeepSeek-V3 has 6 MB in all rows
constexpr size_t kLongestName = 1024;

void check_pattern(const RuleRow& row, const std::string& pattern, const std::string& stacked,
                   Problems& problems) {
  const auto holes = holes_in(pattern);
  if (!holes.ok()) return problems.add("rules_c3", "{}", holes.error().text);
  for (const std::string& hole : holes.value())
    if (!row.holes.contains(hole) || hole == stacked)
      problems.add("rules_c3", "{}: hole {{{}}} in {} has no range", row.hf, hole, pattern);
  for (const auto& [hole, range] : row.holes)
    if (hole != stacked && std::count(holes.value().begin(), holes.value().end(), hole) == 0)
      problems.add("rules_c3", "{}: hole {{{}}} has a range, but does not stand in {}", row.hf, hole,
                   pattern);
}

void check_holes(const RuleRow& row, Problems& problems) {
  std::string stacked;
  for (const Step& step : row.steps)
    if (const auto* stack = std::get_if<Stack>(&step)) stacked = stack->hole;
  check_pattern(row, row.hf, "", problems);
  if (makes_tensor(row)) check_pattern(row, row.tf, stacked, problems);
  std::optional<uint64_t> names = 1;
  for (const auto& [hole, range] : row.holes) {
    if (range.begin > range.end)
      return problems.add("rules_c3", "{}: hole {{{}}} has the range [{}, {}]", row.hf, hole, range.begin,
                          range.end);
    if (names) names = checked_mul(*names, range.end - range.begin);
    if (!names || *names > kMaxNames)
      return problems.add("rules_c3", "{}: its holes make more than {} names", row.hf, kMaxNames);
  }
  if (*names * row.hf.size() > kMaxNameBytes)
    problems.add("rules_c3", "{}: its names have more than {} bytes", row.hf, kMaxNameBytes);
}

bool is_permutation_of_axes(std::vector<uint64_t> axes, size_t rank) {
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); i++)
    if (axes[i] != i) return false;
  return axes.size() == rank;
}

std::string why_not(const BlockDequantize& step, const RuleRow& row, bool first, bool) {
  if (!first) return "it must be the first step";
  if (row.sizes.size() != 2) return "it needs two axes";
  if (step.block_rows == 0 || step.block_columns == 0) return "a block has no elements";
  return step.scale_suffix.empty() ? "it has no scale suffix" : "";
}
std::string why_not(const Transpose& step, const RuleRow& row, bool, bool) {
  if (is_permutation_of_axes(step.axes, row.sizes.size())) return "";
  return fmt::format("it must name each of {} axes once", row.sizes.size());
}
std::string why_not(const Stack& step, const RuleRow& row, bool, bool last) {
  if (!last) return "it must be the last step";
  if (step.chunk == 0) return "a chunk has no tensors";
  return row.holes.contains(step.hole) ? "" : "the row has no such hole";
}

void check_steps(const RuleRow& row, Problems& problems) {
  if (row.shape.size() != row.sizes.size())
    problems.add("rules_c4", "{}: shape has {} axes, sizes has {}", row.hf, row.shape.size(),
                 row.sizes.size());
  Shape largest = row.sizes;
  for (const Step& step : row.steps)
    if (const auto* stack = std::get_if<Stack>(&step)) largest.push_back(std::min(stack->chunk, kMaxNames));
  if (const auto bytes = byte_count(DType::f64, largest); !bytes.ok())
    problems.add("rules_c4", "{}: {}", row.hf, bytes.error().text);
  for (size_t i = 0; i < row.steps.size(); i++) {
    const auto reason = [&](const auto& step) {
      return why_not(step, row, i == 0, i + 1 == row.steps.size());
    };
    if (const std::string why = std::visit(reason, row.steps[i]); !why.empty())
      problems.add("rules_c4", "{}: step {} does not fit {}: {}", row.hf, to_string(row.steps[i]),
                   to_string(row.sizes), why);
  }
}

/// What TensorFlow does not take as the name of a variable, or nothing. Parts become attributes of Python
/// objects, and the whole the name of a node and a key of the checkpoint.
std::string_view flaw_of_tf_name(std::string_view name) {
  if (name.size() > kLongestName) return "is longer than 1024 bytes";
  char before = '/';
  for (const char c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && std::string_view("_-./{}").find(c) == std::string_view::npos)
      return "has a character that is no letter, digit or one of _ - . /";
    if (before == '/' && !word && c != '{') return "has a part that does not begin with a letter or digit";
    before = c;
  }
  return before == '/' ? "ends with a slash" : "";
}

void check_fields(const RuleRow& row, Problems& problems) {
  if (row.hf.empty()) problems.add("rules_c2", "a row has no hf name");
  if (row.hf.size() > kLongestName)
    problems.add("rules_c2", "{}...: the hf name is longer than {} bytes", row.hf.substr(0, 80),
                 kLongestName);
  if (makes_tensor(row)) {
    if (row.tf.empty())
      problems.add("rules_c2", "{}: it has no tf name", row.hf);
    else if (const std::string_view flaw = flaw_of_tf_name(row.tf); !flaw.empty())
      problems.add("rules_c2", "{}: the tf name {} {}", row.hf,
                   Json(row.tf.substr(0, 80)).dump(-1, ' ', true, Json::error_handler_t::replace), flaw);
  }
  if (row.dtype == "keep") return;
  const auto dtype = dtype_named(row.dtype);
  if (!dtype || !is_float(*dtype) || size_of(*dtype) == 1)
    problems.add("rules_c2", "{}: dtype {} is neither keep nor one of f64, f32, bf16, f16", row.hf,
                 row.dtype);
}

void check_ties(const RuleTable& table, Problems& problems) {
  std::map<std::string, const RuleRow*> tied, made;
  for (const RuleRow& row : table.rows)
    if (makes_tensor(row)) made.emplace(row.hf, &row);
  for (const RuleRow& row : table.rows) {
    if (row.tied_to.empty()) continue;
    const auto target = made.find(row.tied_to);
    if (target == made.end())
      problems.add("rules_c6", "{}: tied to {}, which no row makes", row.hf, row.tied_to);
    else if (target->second->sizes != row.sizes || !target->second->holes.empty() || !row.holes.empty())
      problems.add("rules_c6", "{}: tied to {}, which has another shape or holes", row.hf, row.tied_to);
    if (!tied.emplace(row.tied_to, &row).second)
      problems.add("rules_c6", "{}: tied to {}, as another row is", row.hf, row.tied_to);
  }
}

void check_names(const RuleTable& table, Problems& problems) {
  std::unordered_set<std::string> hf, tf;
  const auto too_many = [&] { return hf.size() + tf.size() > 2 * kMaxNames; };
  const auto add = [&](std::unordered_set<std::string>& names, std::string name, const RuleRow& row) {
    if (too_many()) return;
    if (const auto [at, is_new] = names.insert(std::move(name)); !is_new)
      problems.add("rules_c5", "{}: another row makes {} too", row.hf, *at);
  };
  for (const RuleRow& row : table.rows) {
    if (too_many()) break;
    const RowSteps steps = steps_of(row);
    for (const std::string& name : hf_names(row)) {
      add(hf, name, row);
      if (steps.dequantize) add(hf, name + steps.dequantize->scale_suffix, row);
    }
    for (TensorPlan& plan : expand(row)) add(tf, std::move(plan.tf), row);
  }
  if (too_many()) problems.add("rules_c3", "the rows make more than {} names", 2 * kMaxNames);
}

}  // namespace

Status check(const RuleTable& table) {
  Problems problems;
  for (const RuleRow& row : table.rows) {
    check_fields(row, problems);
    if (row.hf.size() > kLongestName) continue;
    check_holes(row, problems);
    check_steps(row, problems);
  }
  check_ties(table, problems);
  if (problems.empty()) check_names(table, problems);
  return problems.status();
}

}  // namespace tandem
