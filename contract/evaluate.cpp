#include "contract/evaluate.h"

#include <algorithm>

#include "contract/ops/registry.h"

namespace tandem {
namespace {

/// Checks one input against its declared type; axes of one name must have one size.
template <class Number>
Status check_input(const Parameter& parameter, const Values<Number>& inputs,
                   std::map<std::string, uint64_t>& symbols) {
  const auto found = inputs.find(parameter.name);
  if (found == inputs.end()) return invalid("evaluate_c1", "input {} is missing", parameter.name);
  const Value<Number>& value = found->second;
  const auto wrong = [&] {
    return invalid("evaluate_c1", "input {} has shape {}, expected {}", parameter.name,
                   to_string(value.shape), parameter.type);
  };
  if (value.shape.size() != parameter.type.rank()) return wrong();
  for (size_t axis = 0; axis < value.shape.size(); ++axis) {
    const Dim& dim = parameter.type.shape[axis];
    const uint64_t expected =
        dim.fixed() ? dim.size : symbols.emplace(dim.symbol, value.shape[axis]).first->second;
    if (value.shape[axis] != expected) return wrong();
  }
  const auto count = element_count(value.shape);
  if (!count.ok() || count.value() != value.data.size()) return wrong();
  return {};
}

/// The walk over an entry, and from there over its blocks.
template <class Number>
class Run {
 public:
  Run(const Contract& contract, const WeightLookup<Number>& weights, bool with_taps)
      : contract_(contract), weights_(weights), with_taps_(with_taps) {}

  Result<Values<Number>> entry(const Block& entry, Values<Number> inputs) {
    TANDEM_TRY(auto results, block(entry, std::move(inputs), ""));
    Values<Number> named = std::move(taps_);
    for (size_t i = 0; i < results.size(); ++i)
      named.insert_or_assign(entry.results[i], std::move(results[i]));
    return named;
  }

 private:
  /// The results of a block whose weights and taps lie at `place`. Calls nest one deep: only entries make
  /// them.
  Result<std::vector<Value<Number>>> block(const Block& block, Values<Number> values,
                                           const std::string& place) {
    for (const Node& node : block.nodes) {
      auto outputs = run(node, values, place);
      if (!outputs.ok())
        return std::move(outputs).error().at(
            fmt::format("{} in {}", node.outputs[0], place.empty() ? "entry " + block.name : place));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        values.insert_or_assign(node.outputs[i], std::move(outputs.value()[i]));
      if (with_taps_ && !node.tap.empty())
        taps_.insert_or_assign(full_name(place, node.tap), values.find(node.outputs[0])->second);
    }
    std::vector<Value<Number>> results;
    for (const std::string& result : block.results) results.push_back(values.find(result)->second);
    return results;
  }

  Outputs<Number> run(const Node& node, const Values<Number>& values, const std::string& place) {
    std::vector<Value<Number>> inputs;
    for (const Operand& operand : node.inputs) {
      if (operand.is_weight) {
        TANDEM_TRY(auto value, weight(full_name(place, operand.name)));
        inputs.push_back(std::move(value));
      } else {
        inputs.push_back(values.find(operand.name)->second);
      }
    }
    if (node.op == "call") {
      const Block& called = *find_block(contract_, string_attribute(node, "block"));
      Values<Number> arguments;
      for (size_t i = 0; i < inputs.size(); ++i)
        arguments.emplace(called.inputs[i].name, std::move(inputs[i]));
      return block(called, std::move(arguments), string_attribute(node, "at"));
    }
    const OpRow& op = *find_op(node.op);
    if constexpr (std::is_same_v<Number, double>)
      return op.evaluate_f64(node, inputs);
    else
      return op.evaluate_f32(node, inputs);
  }

  Result<Value<Number>> weight(const std::string& name) const {
    TANDEM_TRY(auto value, weights_(name));
    const Shape& shape = find_weight(contract_, name)->shape;
    TANDEM_TRY(const uint64_t count, element_count(shape));
    if (value.shape != shape || value.data.size() != count)
      return invalid("evaluate_c2", "weight {} has shape {}, expected {}", name, to_string(value.shape),
                     to_string(shape));
    return value;
  }

  const Contract& contract_;
  const WeightLookup<Number>& weights_;
  const bool with_taps_;
  Values<Number> taps_;
};

}  // namespace

template <class Number>
Result<Values<Number>> evaluate(const Contract& contract, const Block& entry, const Values<Number>& inputs,
                                const WeightLookup<Number>& weights, bool with_taps) {
  if (std::is_same_v<Number, float> && contract.compute != DType::f32)
    return unsupported("evaluate_c3", "the contract computes in {}, this evaluation in f32", contract.compute)
        .because("evaluate it in f64, which rounds nothing");
  std::map<std::string, uint64_t> symbols;
  Values<Number> declared;
  for (const Parameter& parameter : entry.inputs) {
    TANDEM_CHECK(check_input(parameter, inputs, symbols));
    declared.emplace(parameter.name, inputs.find(parameter.name)->second);
  }
  return Run<Number>(contract, weights, with_taps).entry(entry, std::move(declared));
}

template Result<Values<double>> evaluate(const Contract&, const Block&, const Values<double>&,
                                         const WeightLookup<double>&, bool);
template Result<Values<float>> evaluate(const Contract&, const Block&, const Values<float>&,
                                        const WeightLookup<float>&, bool);

}  // namespace tandem
