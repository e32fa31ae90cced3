#include "lower/torch/lower_torch.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "contract/check.h"
#include "lower/torch/torch_ops.h"

namespace tandem {
namespace {

struct TypeRow {
  DType dtype;
  at::ScalarType torch;
};
constexpr TypeRow kTypes[] = {
    {DType::f64, at::kDouble},
    {DType::f32, at::kFloat},
    {DType::bf16, at::kBFloat16},
    {DType::f16, at::kHalf},
    {DType::f8_e4m3, at::kFloat8_e4m3fn},
    {DType::f8_e5m2, at::kFloat8_e5m2},
    {DType::i64, at::kLong},
    {DType::i32, at::kInt},
    {DType::i16, at::kShort},
    {DType::i8, at::kChar},
    {DType::u8, at::kByte},
    {DType::boolean, at::kBool},
};

const TorchOpRow* find_row(std::string_view name) {
  for (const TorchOpRow& row : torch_op_rows())
    if (row.name == name) return &row;
  return nullptr;
}

/// The walk over an entry, and from there over its blocks.
class Run {
 public:
  Run(const Contract& contract, const TorchWeights& weights, const TorchOptions& options)
      : contract_(contract), weights_(weights), options_(options) {}

  Result<TorchTensors> entry(const Block& entry, TorchTensors values) {
    TANDEM_TRY(auto results, block(entry, std::move(values), ""));
    TorchTensors named = std::move(taps_);
    for (size_t i = 0; i < results.size(); ++i)
      named.insert_or_assign(entry.results[i], std::move(results[i]));
    return named;
  }

  /// The values that `outputs` need, and no others; those that are given are taken as they are.
  Result<TorchTensors> part(const Block& block, TorchTensors values, const std::vector<std::string>& outputs,
                            const std::string& place) {
    std::set<std::string> needed(outputs.begin(), outputs.end());
    std::vector<const Node*> nodes;
    for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
      const auto wanted = [&](const std::string& name) {
        return needed.contains(name) && !values.contains(name);
      };
      if (!std::any_of(node->outputs.begin(), node->outputs.end(), wanted)) continue;
      nodes.push_back(&*node);
      for (const Operand& operand : node->inputs)
        if (!operand.is_weight) needed.insert(operand.name);
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      TANDEM_CHECK(all_there(**node, values));
      auto results = run(block, **node, values, place);
      if (!results.ok())
        return std::move(results).error().at(
            fmt::format("{} (in {} {})", (*node)->outputs[0], block.name, place));
      for (size_t i = 0; i < (*node)->outputs.size(); ++i)
        values.emplace((*node)->outputs[i], std::move(results.value()[i]));
    }
    TorchTensors found;
    for (const std::string& output : outputs) {
      const auto value = values.find(output);
      if (value == values.end() && is_input(block, output))
        return invalid("lower_torch_c1", "input '{}' is missing", output);
      if (value == values.end()) return invalid("lower_torch_c5", "no value '{}' in {}", output, block.name);
      found.emplace(output, value->second);
    }
    return found;
  }

  /// The arguments of a call, from the values around it.
  Result<TorchTensors> arguments(const Block& entry, const Node& call, const TorchTensors& given) {
    const Block& called = *find_block(contract_, string_attribute(call, "block"));
    TorchTensors arguments;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const std::string& parameter = called.inputs[i].name;
      if (const auto there = given.find(parameter); there != given.end()) {
        arguments.emplace(parameter, there->second);
        continue;
      }
      auto value = part(entry, given, {call.inputs[i].name}, "");
      if (!value.ok() && value.error().rule == "lower_torch_c1") continue;  // perhaps nothing needs it
      if (!value.ok()) return std::move(value).error();
      arguments.insert_or_assign(parameter, value.value().begin()->second);
    }
    return arguments;
  }

 private:
  static bool is_input(const Block& block, const std::string& name) {
    return std::any_of(block.inputs.begin(), block.inputs.end(),
                       [&](const Parameter& input) { return input.name == name; });
  }

  static Status all_there(const Node& node, const TorchTensors& values) {
    for (const Operand& operand : node.inputs)
      if (!operand.is_weight && !values.contains(operand.name))
        return invalid("lower_torch_c1", "input '{}' is missing", operand.name);
    return {};
  }

  /// Calls nest one deep: only entries make them.
  Result<std::vector<at::Tensor>> block(const Block& block, TorchTensors values, const std::string& place) {
    for (const Node& node : block.nodes) {
      auto outputs = run(block, node, values, place);
      if (!outputs.ok())
        return std::move(outputs).error().at(
            fmt::format("{} (in {} {})", node.outputs[0], block.name, place));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        values.insert_or_assign(node.outputs[i], std::move(outputs.value()[i]));
      if (options_.with_taps && !node.tap.empty())
        taps_.insert_or_assign(full_name(place, node.tap), values.find(node.outputs[0])->second);
    }
    std::vector<at::Tensor> results;
    for (const std::string& result : block.results) results.push_back(values.find(result)->second);
    return results;
  }

  Result<std::vector<at::Tensor>> run(const Block& block, const Node& node, const TorchTensors& values,
                                      const std::string& place) {
    const TorchOpRow* row = find_row(node.op);
    if (row == nullptr && node.op != "call")
      return unsupported("lower_torch_c2", "op '{}' has no PyTorch lowering", node.op);
    std::vector<at::Tensor> inputs;
    for (const Operand& operand : node.inputs) {
      if (!operand.is_weight) {
        inputs.push_back(values.find(operand.name)->second);
        continue;
      }
      const TorchRows rows = row && row->rows ? row->rows(node, inputs) : TorchRows();
      TANDEM_TRY(const at::ScalarType type, weight_type(block, operand.name));
      TANDEM_TRY(at::Tensor weight, weights_(full_name(place, operand.name), type, rows));
      inputs.push_back(std::move(weight));
    }
    if (!row) return call(node, inputs);
    return row->run({node, inputs, options_.float64});
  }

  Result<std::vector<at::Tensor>> call(const Node& node, const std::vector<at::Tensor>& inputs) {
    const Block& called = *find_block(contract_, string_attribute(node, "block"));
    TorchTensors arguments;
    for (size_t i = 0; i < inputs.size(); ++i) arguments.emplace(called.inputs[i].name, inputs[i]);
    return block(called, std::move(arguments), string_attribute(node, "at"));
  }

  /// What a block declares; in an entry, the compute type.
  Result<at::ScalarType> weight_type(const Block& block, const std::string& name) const {
    const auto declared = std::find_if(block.weights.begin(), block.weights.end(),
                                       [&](const Parameter& p) { return p.name == name; });
    const DType dtype = declared == block.weights.end() ? contract_.compute : declared->type.dtype;
    return options_.float64 && is_float(dtype) ? at::kDouble : torch_type(dtype);
  }

  const Contract& contract_;
  const TorchWeights& weights_;
  const TorchOptions& options_;
  TorchTensors taps_;
};

/// The inputs that the entry declares, floats in the types they are computed with.
Result<TorchTensors> declared_inputs(const Block& entry, const TorchTensors& inputs, bool float64) {
  TorchTensors declared;
  for (const Parameter& parameter : entry.inputs) {
    const auto found = inputs.find(parameter.name);
    if (found == inputs.end()) return invalid("lower_torch_c1", "input '{}' is missing", parameter.name);
    TANDEM_TRY(const at::ScalarType type, torch_type(parameter.type.dtype));
    const at::Tensor& value = found->second;
    if (value.scalar_type() != type || static_cast<size_t>(value.dim()) != parameter.type.rank())
      return invalid("lower_torch_c1", "input '{}' is {} of rank {}, expected {}", parameter.name,
                     at::toString(value.scalar_type()), value.dim(), parameter.type);
    for (size_t axis = 0; axis < parameter.type.rank(); ++axis) {
      const Dim& dim = parameter.type.shape[axis];
      if (dim.fixed() && static_cast<int64_t>(dim.size) != value.size(static_cast<int64_t>(axis)))
        return invalid("lower_torch_c1", "input '{}' has {} on axis {}, expected {}", parameter.name,
                       value.size(static_cast<int64_t>(axis)), axis, parameter.type);
    }
    declared.emplace(parameter.name, float64 && at::isFloatingType(type) ? value.to(at::kDouble) : value);
  }
  return declared;
}

/// `given`, floats in the types that the values of `block` have.
Result<TorchTensors> in_types_of(const Contract& contract, const Block& block, const TorchTensors& given,
                                 bool float64) {
  TANDEM_TRY(const ValueTypes types, infer_types(contract, block));
  TorchTensors values;
  for (const auto& [name, tensor] : given) {
    const auto type = types.find(name);
    if (type == types.end()) continue;  // of the other scope
    TANDEM_TRY(const at::ScalarType own, torch_type(type->second.dtype));
    if (static_cast<size_t>(tensor.dim()) != type->second.rank())
      return invalid("lower_torch_c1", "'{}' has rank {}, expected {}", name, tensor.dim(), type->second);
    values.emplace(name, tensor.to(float64 && at::isFloatingType(own) ? at::kDouble : own));
  }
  return values;
}

Result<TorchTensors> run_part(const Contract& contract, const Block& entry, const TorchPart& part,
                              const TorchTensors& given, const TorchWeights& weights,
                              const TorchOptions& options) {
  Run run(contract, weights, options);
  TANDEM_TRY(TorchTensors values, in_types_of(contract, entry, given, options.float64));
  if (!part.in_block) return run.part(entry, std::move(values), part.outputs, "");
  const auto is_call = [](const Node& node) { return node.op == "call"; };
  if (std::count_if(entry.nodes.begin(), entry.nodes.end(), is_call) != 1)
    return invalid("lower_torch_c5", "{} does not call exactly one block", entry.name);
  const Node& call = *std::find_if(entry.nodes.begin(), entry.nodes.end(), is_call);
  const Block& block = *find_block(contract, string_attribute(call, "block"));
  TANDEM_TRY(TorchTensors own, in_types_of(contract, block, given, options.float64));
  for (auto& [name, tensor] : own) values.insert_or_assign(name, tensor);
  TANDEM_TRY(TorchTensors arguments, run.arguments(entry, call, values));
  for (auto& [name, tensor] : own) arguments.insert_or_assign(name, std::move(tensor));
  return run.part(block, std::move(arguments), part.outputs, string_attribute(call, "at"));
}

}  // namespace

Result<at::ScalarType> torch_type(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.torch;
  return unsupported("lower_torch_c4", "PyTorch has no type for {}", dtype);
}

Result<DType> dtype_of_torch(at::ScalarType type) {
  for (const TypeRow& row : kTypes)
    if (row.torch == type) return row.dtype;
  return unsupported("lower_torch_c4", "no type of ours for PyTorch's {}", at::toString(type));
}

Result<TorchTensors> run_torch(const Contract& contract, const Block& entry, const TorchTensors& inputs,
                               const TorchWeights& weights, const TorchOptions& options) {
  const at::NoGradGuard no_grad;
  try {
    TANDEM_TRY(TorchTensors declared, declared_inputs(entry, inputs, options.float64));
    return Run(contract, weights, options).entry(entry, std::move(declared));
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return invalid("lower_torch_c3", "PyTorch: {}", text.substr(0, text.find('\n')));
  }
}

Result<TorchTensors> run_torch_part(const Contract& contract, const Block& entry, const TorchPart& part,
                                    const TorchTensors& given, const TorchWeights& weights,
                                    const TorchOptions& options) {
  const at::NoGradGuard no_grad;
  try {
    return run_part(contract, entry, part, given, weights, options);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return invalid("lower_torch_c3", "PyTorch: {}", text.substr(0, text.find('\n')));
  }
}

std::vector<std::string_view> torch_ops() {
  std::vector<std::string_view> names;
  for (const TorchOpRow& row : torch_op_rows()) names.push_back(row.name);
  return names;
}

}  // namespace tandem
