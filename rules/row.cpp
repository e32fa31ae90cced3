#include "rules/row.h"

#include <algorithm>

namespace tandem {

Result<std::vector<std::string>> holes_in(std::string_view pattern) {
  std::vector<std::string> holes;
  size_t at = 0;
  while (true) {
    const size_t brace = pattern.find_first_of("{}", at);
    if (brace == pattern.npos) return holes;
    const size_t end = pattern.find_first_of("{}", brace + 1);
    if (pattern[brace] == '}' || end == pattern.npos || pattern[end] == '{' || end == brace + 1)
      return invalid("rules_c3", "{}: braces that are not a {{hole}} at character {}", pattern, brace);
    holes.emplace_back(pattern.substr(brace + 1, end - brace - 1));
    at = end + 1;
  }
}

std::string fill(std::string_view pattern, const HoleValues& values) {
  std::string name;
  while (!pattern.empty()) {
    const size_t open = std::min(pattern.find('{'), pattern.size());
    name += pattern.substr(0, open);
    pattern.remove_prefix(open);
    if (pattern.empty()) break;
    const size_t close = std::min(pattern.find('}'), pattern.size() - 1);
    const auto value = values.find(std::string(pattern.substr(1, close - 1)));
    if (value == values.end())
      name += pattern.substr(0, close + 1);
    else
      name += std::to_string(value->second);
    pattern.remove_prefix(close + 1);
  }
  return name;
}

std::string without_hole(std::string_view pattern, const std::string& hole) {
  std::string name(pattern);
  const std::string text = "{" + hole + "}";
  for (const std::string& spelling : {text + ".", text + "/", "." + text, "/" + text, text})
    for (size_t at; (at = name.find(spelling)) != name.npos;) name.erase(at, spelling.size());
  return name;
}

void for_each_place(const std::map<std::string, HoleRange>& holes,
                    const std::function<void(const HoleValues&)>& visit) {
  HoleValues values;
  for (const auto& [hole, range] : holes) {
    if (range.begin >= range.end) return;
    values[hole] = range.begin;
  }
  while (true) {
    visit(values);
    auto hole = holes.rbegin();
    for (; hole != holes.rend(); ++hole) {
      uint64_t& value = values[hole->first];
      if (++value < hole->second.end) break;
      value = hole->second.begin;
    }
    if (hole == holes.rend()) return;
  }
}

RowSteps steps_of(const RuleRow& row) {
  RowSteps steps;
  for (uint64_t axis = 0; axis < row.sizes.size(); axis++) steps.axes.push_back(axis);
  for (const Step& step : row.steps) {
    if (const auto* dequantize = std::get_if<BlockDequantize>(&step)) steps.dequantize = dequantize;
    if (const auto* transpose = std::get_if<Transpose>(&step))
      steps.axes = permuted(steps.axes, transpose->axes);
    if (const auto* stack = std::get_if<Stack>(&step)) steps.stack = stack;
  }
  return steps;
}

std::vector<std::string> hf_names(const RuleRow& row) {
  std::vector<std::string> names;
  for_each_place(row.holes, [&](const HoleValues& values) { names.push_back(fill(row.hf, values)); });
  return names;
}

namespace {

TensorPlan single_tensor(const RuleRow& row, const Shape& tf_shape, const HoleValues& place) {
  const std::string hf = fill(row.hf, place);
  return {&row, fill(row.tf, place), hf, {hf}, row.sizes, tf_shape};
}

void add_chunks(const RuleRow& row, const Stack& stack, const Shape& slot_shape, HoleValues place,
                std::vector<TensorPlan>& plans) {
  const HoleRange slots = row.holes.at(stack.hole);
  const bool several = slots.end - slots.begin > stack.chunk;
  const std::string contract_name = fill(without_hole(row.hf, stack.hole), place);
  const std::string tf = fill(row.tf, place);
  uint64_t number = 0;
  for (uint64_t slot = slots.begin; slot < slots.end; number++) {
    TensorPlan plan{&row, tf, contract_name, {}, row.sizes, slot_shape};
    if (several) plan.tf += "_" + std::to_string(number);
    if (several) plan.contract_name += "." + std::to_string(number);
    for (uint64_t i = 0; i < stack.chunk && slot < slots.end; i++, slot++) {
      place[stack.hole] = slot;
      plan.hf.push_back(fill(row.hf, place));
    }
    plan.tf_shape.insert(plan.tf_shape.begin(), plan.hf.size());
    plans.push_back(std::move(plan));
  }
}

}  // namespace

std::vector<TensorPlan> expand(const RuleRow& row) {
  std::vector<TensorPlan> plans;
  if (!makes_tensor(row)) return plans;
  const RowSteps steps = steps_of(row);
  const Shape shape = permuted(row.sizes, steps.axes);
  std::map<std::string, HoleRange> holes = row.holes;
  if (steps.stack) holes.erase(steps.stack->hole);
  for_each_place(holes, [&](const HoleValues& place) {
    if (steps.stack)
      add_chunks(row, *steps.stack, shape, place, plans);
    else
      plans.push_back(single_tensor(row, shape, place));
  });
  return plans;
}

std::vector<TensorPlan> expand(const RuleTable& table) {
  std::vector<TensorPlan> plans;
  for (const RuleRow& row : table.rows)
    for (TensorPlan& plan : expand(row)) plans.push_back(std::move(plan));
  std::sort(plans.begin(), plans.end(),
            [](const TensorPlan& a, const TensorPlan& b) { return natural_less(a.tf, b.tf); });
  return plans;
}

Shape scale_shape(const BlockDequantize& step, const Shape& weight) {
  const auto blocks = [](uint64_t size, uint64_t block) { return size / block + (size % block != 0); };
  return {blocks(weight[0], step.block_rows), blocks(weight[1], step.block_columns)};
}

std::map<std::string, const RuleRow*> ties_of(const RuleTable& table) {
  std::map<std::string, const RuleRow*> ties;
  for (const RuleRow& row : table.rows)
    if (!row.tied_to.empty()) ties[row.tied_to] = &row;
  return ties;
}

Shape permuted(const Shape& shape, const std::vector<uint64_t>& axes) {
  Shape result;
  for (uint64_t axis : axes) result.push_back(shape[axis]);
  return result;
}

}  // namespace tandem
