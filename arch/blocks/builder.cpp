#include "arch/blocks/builder.h"

#include <algorithm>

namespace tandem {

std::string BlockBuilder::input(std::string name, TensorType type) {
  block_.inputs.push_back({name, std::move(type)});
  return name;
}

Operand BlockBuilder::weight(std::string name, TensorType type) {
  block_.weights.push_back({name, std::move(type)});
  return {std::move(name), true};
}

std::string BlockBuilder::op(std::string_view op, std::string output, std::vector<Operand> inputs,
                             Attributes attributes, std::string tap) {
  block_.nodes.push_back(
      {std::string(op), std::move(inputs), std::move(attributes), {output}, std::move(tap)});
  return output;
}

void BlockBuilder::multi(std::string_view op, std::vector<std::string> outputs, std::vector<Operand> inputs,
                         Attributes attributes, std::string tap) {
  block_.nodes.push_back(
      {std::string(op), std::move(inputs), std::move(attributes), std::move(outputs), std::move(tap)});
}

Block BlockBuilder::finish(std::vector<std::string> results) {
  block_.results = std::move(results);
  return std::move(block_);
}

std::string Layout::of(std::string_view hf_pattern) const {
  for (const RuleRow& row : rules.rows)
    if (row.hf == hf_pattern) {
      // Steps add up: an edited map may transpose twice, or name the axes as they are.
      const auto swaps = std::count_if(row.steps.begin(), row.steps.end(), [](const Step& step) {
        const auto* transpose = std::get_if<Transpose>(&step);
        return transpose && transpose->axes == std::vector<uint64_t>{1, 0};
      });
      const bool transposed = swaps % 2 == 1;
      return transposed ? "in_out" : "out_in";
    }
  return "out_in";
}

TensorType kernel_type(DType dtype, const std::string& layout, uint64_t in, uint64_t out) {
  return layout == "in_out" ? TensorType{dtype, {in, out}} : TensorType{dtype, {out, in}};
}

std::string linear(BlockBuilder& block, const Layout& layout, std::string_view layer_path,
                   const std::string& name, std::string output, const std::string& x, uint64_t in,
                   uint64_t out, bool bias) {
  const std::string order = layout.of(std::string(layer_path) + name + ".weight");
  std::vector<Operand> inputs{value(x),
                              block.weight(name + ".weight", kernel_type(layout.compute, order, in, out))};
  if (bias) inputs.push_back(block.weight(name + ".bias", {layout.compute, {out}}));
  return block.op("linear", std::move(output), std::move(inputs), {{"layout", order}}, name);
}

std::string norm(BlockBuilder& block, const Layout& layout, const std::string& name, std::string output,
                 const std::string& x, uint64_t width, double epsilon) {
  const Operand gain = block.weight(name + ".weight", {layout.compute, {width}});
  return block.op("rms_norm", std::move(output), {value(x), gain}, {{"epsilon", epsilon}}, name);
}

std::string gated_mlp(BlockBuilder& block, const Layout& layout, std::string_view layer_path,
                      const std::string& path, const std::string& output, const std::string& x,
                      uint64_t hidden_size, uint64_t intermediate_size, bool bias,
                      const std::string& hidden_act) {
  const std::string gate = linear(block, layout, layer_path, path + ".gate_proj", output + "_gate", x,
                                  hidden_size, intermediate_size, bias);
  const std::string up = linear(block, layout, layer_path, path + ".up_proj", output + "_up", x, hidden_size,
                                intermediate_size, bias);
  const std::string gated =
      block.op("activation_gate", output + "_gated", {value(gate), value(up)}, {{"hidden_act", hidden_act}});
  const std::string order = layout.of(std::string(layer_path) + path + ".down_proj.weight");
  std::vector<Operand> inputs{
      value(gated), block.weight(path + ".down_proj.weight",
                                 kernel_type(layout.compute, order, intermediate_size, hidden_size))};
  if (bias) inputs.push_back(block.weight(path + ".down_proj.bias", {layout.compute, {hidden_size}}));
  return block.op("linear", output, std::move(inputs), {{"layout", order}}, path);
}

std::vector<WeightEntry> weight_entries(const RuleTable& rules,
                                        const std::function<DType(const std::string&)>& storage) {
  std::vector<WeightEntry> entries;
  for (const TensorPlan& plan : expand(rules))
    if (plan.row->in_graph)
      entries.push_back({plan.contract_name, storage(plan.tf), plan.tf_shape, plan.row->trainable});
  return entries;
}

namespace {

RuleRow row_of(std::string hf, std::vector<std::string> words, Shape sizes) {
  RuleRow row;
  row.tf = hf;
  std::replace(row.tf.begin(), row.tf.end(), '.', '/');
  row.hf = std::move(hf);
  row.shape = std::move(words);
  row.sizes = std::move(sizes);
  return row;
}

}  // namespace

RuleRow dense_row(std::string hf, std::vector<std::string> words, Shape sizes) {
  RuleRow row = row_of(std::move(hf), std::move(words), std::move(sizes));
  row.tf.replace(row.tf.rfind('/') + 1, std::string::npos, "kernel");
  row.steps.push_back(Transpose{{1, 0}});
  return row;
}

RuleRow plain_row(std::string hf, std::vector<std::string> words, Shape sizes) {
  return row_of(std::move(hf), std::move(words), std::move(sizes));
}

}  // namespace tandem
