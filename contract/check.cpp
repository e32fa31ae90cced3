#include "contract/check.h"

#include <algorithm>
#include <set>

#include "contract/ops/registry.h"

namespace tandem {
namespace {

using Names = std::set<std::string, std::less<>>;
/// No type: the node that makes the value is wrong, and that has been said already.
using MaybeTypes = std::vector<std::optional<TensorType>>;
using KnownTypes = std::map<std::string, std::optional<TensorType>, std::less<>>;

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

/// All problems so far, each with the place where it is.
struct Problems {
  std::vector<Error> all;
  std::string place;  ///< "block decoder_layer, node 3 (rms_norm)"

  void add(Error error) {
    error.text = fmt::format("{}: {}", place, error.text);
    all.push_back(std::move(error));
  }
  Status status() && {
    if (all.empty()) return {};
    Error first = std::move(all.front());
    for (size_t i = 1; i < all.size(); ++i) first.text += fmt::format("\n{}: {}", all[i].rule, all[i].text);
    first.kind = ErrorKind::invalid;
    return first;
  }
};

/// The dtype that an entry computes with a weight in: floats are cast, integers are not.
TensorType computed_type(const Contract& contract, const WeightEntry& weight) {
  TensorType type{is_float(weight.storage) ? contract.compute : weight.storage, {}};
  for (uint64_t size : weight.shape) type.shape.push_back(size);
  return type;
}

/// The walk over one block or entry, for the checker and for infer_types alike.
class BlockWalk {
 public:
  BlockWalk(const Contract& contract, const Block& block, bool is_entry, Problems& problems)
      : contract_(contract), block_(block), is_entry_(is_entry), problems_(problems) {}

  KnownTypes run() {
    problems_.place = place();
    for (const Parameter& input : block_.inputs) declare(input, types_);
    for (const Parameter& weight : block_.weights) declare(weight, weights_);
    if (is_entry_ && !block_.weights.empty())
      problems_.add(invalid("check_c4", "an entry reads the contract's weights and declares none"));
    for (size_t i = 0; i < block_.nodes.size(); ++i) {
      problems_.place = fmt::format("{}, node {} ({})", place(), i + 1, block_.nodes[i].op);
      walk(block_.nodes[i]);
    }
    problems_.place = place();
    if (block_.results.empty()) problems_.add(invalid("check_c10", "it returns nothing"));
    Names seen;
    for (const std::string& result : block_.results) {
      if (!types_.contains(result))
        problems_.add(invalid("check_c10", "it returns {}, which is not one of its values", result));
      if (!seen.insert(result).second) problems_.add(invalid("check_c10", "it returns {} twice", result));
    }
    return std::move(types_);
  }

 private:
  std::string place() const { return fmt::format("{} {}", is_entry_ ? "entry" : "block", block_.name); }

  void declare(const Parameter& parameter, KnownTypes& into) {
    if (!is_name(parameter.name)) problems_.add(invalid("check_c4", "\"{}\" is not a name", parameter.name));
    if (!into.emplace(parameter.name, parameter.type).second)
      problems_.add(invalid("check_c4", "parameter {} is declared twice", parameter.name));
    for (const Dim& dim : parameter.type.shape)
      if (&into == &weights_ && !dim.fixed())
        problems_.add(
            invalid("check_c4", "weight {} is {}, expected fixed sizes", parameter.name, parameter.type));
  }

  /// The type of an operand, or nothing: then the node cannot be judged.
  std::optional<TensorType> type_of(const Operand& operand) {
    if (operand.is_weight && is_entry_) {
      if (const WeightEntry* weight = find_weight(contract_, operand.name))
        return computed_type(contract_, *weight);
      problems_.add(invalid("check_c5", "the contract has no weight {}", operand.name));
      return std::nullopt;
    }
    const KnownTypes& known = operand.is_weight ? weights_ : types_;
    const auto found = known.find(operand.name);
    if (found != known.end()) return found->second;
    if (operand.is_weight)
      problems_.add(invalid("check_c5", "the block has no weight {}", operand.name));
    else
      problems_.add(invalid("check_c5", "{} is used before it is assigned", operand.name));
    return std::nullopt;
  }

  void walk(const Node& node) {
    std::vector<TensorType> inputs;
    bool known = true;
    for (const Operand& operand : node.inputs) {
      const auto type = type_of(operand);
      known = known && type;
      inputs.push_back(type.value_or(TensorType{}));
    }
    MaybeTypes outputs(node.outputs.size());
    if (known) {
      auto types = node.op == "call" ? infer_call(node, inputs) : infer_op(node, inputs);
      if (types.ok())
        outputs = std::move(types).value();
      else
        problems_.add(std::move(types).error());
    }
    if (node.outputs.empty()) problems_.add(invalid("check_c6", "it has no outputs"));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!is_name(node.outputs[i]))
        problems_.add(invalid("check_c6", "\"{}\" is not a name", node.outputs[i]));
      if (!types_.emplace(node.outputs[i], outputs[i]).second)
        problems_.add(invalid("check_c6", "{} is assigned twice", node.outputs[i]));
    }
  }

  static Result<MaybeTypes> infer_op(const Node& node, const std::vector<TensorType>& inputs) {
    TANDEM_TRY(const auto types, infer_types_of(node, inputs));
    return MaybeTypes(types.begin(), types.end());
  }

  Result<MaybeTypes> infer_call(const Node& node, const std::vector<TensorType>& inputs) {
    if (!is_entry_) return invalid("check_c8", "a block calls no blocks; only entries do");
    for (const auto& [name, value] : node.attributes)
      if ((name != "block" && name != "at") || !std::holds_alternative<std::string>(value))
        return invalid("check_c7", "call has the texts block and at, found {}", name);
    if (node.attributes.size() != 2) return invalid("check_c7", "call needs the attributes block and at");
    const Block* block = find_block(contract_, string_attribute(node, "block"));
    if (!block) return invalid("check_c8", "there is no block {}", string_attribute(node, "block"));
    for (const Operand& operand : node.inputs)
      if (operand.is_weight)
        return invalid("check_c8", "weight {} is an operand; a call binds weights by name", operand.name);
    TANDEM_CHECK(check_inputs(*block, inputs));
    TANDEM_CHECK(check_weights(*block, string_attribute(node, "at")));
    if (node.outputs.size() != block->results.size())
      return invalid("check_c8", "block {} has {} results, the node names {}", block->name,
                     block->results.size(), node.outputs.size());
    return result_types(*block);
  }

  Status check_inputs(const Block& block, const std::vector<TensorType>& inputs) const {
    if (inputs.size() != block.inputs.size())
      return invalid("check_c8", "block {} takes {} inputs, found {}", block.name, block.inputs.size(),
                     inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != block.inputs[i].type)
        return invalid("check_c8", "input {} of block {} is {}, expected {}", block.inputs[i].name,
                       block.name, inputs[i], block.inputs[i].type);
    return {};
  }

  Status check_weights(const Block& block, const std::string& at) const {
    for (const Parameter& parameter : block.weights) {
      const std::string wanted = full_name(at, parameter.name);
      const WeightEntry* weight = find_weight(contract_, wanted);
      if (!weight)
        return invalid("check_c9", "block {} needs the weight {}, which the contract lacks", block.name,
                       wanted);
      const TensorType stored = computed_type(contract_, *weight);
      if (stored.shape != parameter.type.shape || is_float(weight->storage) != is_float(parameter.type.dtype))
        return invalid("check_c9", "weight {} is {}{}, block {} takes {}", wanted, weight->storage,
                       to_string(weight->shape), block.name, parameter.type);
    }
    return {};
  }

  /// The types of a block's results, found once; its own problems are reported where it stands.
  const MaybeTypes& result_types(const Block& block) {
    const auto [called, is_new] = called_.try_emplace(&block);
    MaybeTypes& results = called->second;
    if (!is_new) return results;
    Problems own;
    const KnownTypes types = BlockWalk(contract_, block, false, own).run();
    for (const std::string& result : block.results) {
      const auto found = types.find(result);
      results.push_back(found == types.end() ? std::nullopt : found->second);
    }
    return results;
  }

  const Contract& contract_;
  const Block& block_;
  const bool is_entry_;
  Problems& problems_;
  KnownTypes types_;
  KnownTypes weights_;
  std::map<const Block*, MaybeTypes> called_;
};

void check_weights(const Contract& contract, Problems& problems) {
  problems.place = "contract";
  if (!is_float(contract.compute) || size_of(contract.compute) < 2)
    problems.add(invalid("check_c1", "compute is {}, expected f64, f32, bf16 or f16", contract.compute));
  Names names;
  for (const WeightEntry& weight : contract.weights) {
    if (!is_name(weight.name))
      problems.add(invalid("check_c2", "\"{}\" is not a name for a weight", weight.name));
    if (!names.insert(weight.name).second)
      problems.add(invalid("check_c2", "weight {} is there twice", weight.name));
    if (const auto bytes = byte_count(weight.storage, weight.shape); !bytes.ok())
      problems.add(invalid("check_c2", "weight {}: {}", weight.name, bytes.error().text));
  }
}

void check_names(const std::vector<Block>& blocks, std::string_view kind, Problems& problems) {
  problems.place = "contract";
  Names names;
  for (const Block& block : blocks) {
    if (!is_name(block.name))
      problems.add(invalid("check_c3", "\"{}\" is not a name for an entry or block", block.name));
    if (!names.insert(block.name).second)
      problems.add(invalid("check_c3", "{} {} is there twice", kind, block.name));
  }
}

/// The taps of an entry: the node that makes each, and the block it stands in, in order of execution.
struct TapPlace {
  std::string name;
  const Block* block;
  const Node* node;
};
std::vector<TapPlace> tap_places(const Contract& contract, const Block& entry) {
  std::vector<TapPlace> places;
  const auto collect = [&](const Block& block, const std::string& at) {
    for (const Node& node : block.nodes)
      if (!node.tap.empty() && !node.outputs.empty())
        places.push_back({full_name(at, node.tap), &block, &node});
  };
  for (const Node& node : entry.nodes) {
    const Attribute* block_name = find_attribute(node, "block");
    const Attribute* at = find_attribute(node, "at");
    if (node.op == "call" && block_name && at && std::holds_alternative<std::string>(*block_name) &&
        std::holds_alternative<std::string>(*at))
      if (const Block* block = find_block(contract, std::get<std::string>(*block_name)))
        collect(*block, std::get<std::string>(*at));
    if (!node.tap.empty() && !node.outputs.empty()) places.push_back({node.tap, &entry, &node});
  }
  return places;
}

void check_taps(const Contract& contract, const Block& entry, Problems& problems) {
  problems.place = fmt::format("entry {}", entry.name);
  Names names(entry.results.begin(), entry.results.end());
  for (const TapPlace& tap : tap_places(contract, entry)) {
    if (!is_name(tap.name)) problems.add(invalid("check_c11", "\"{}\" is not a name for a tap", tap.name));
    if (!names.insert(tap.name).second)
      problems.add(invalid("check_c11", "two taps or outputs are called {}", tap.name));
  }
}

}  // namespace

Status check(const Contract& contract) {
  Problems problems;
  check_weights(contract, problems);
  check_names(contract.blocks, "block", problems);
  check_names(contract.entries, "entry", problems);
  for (const Block& block : contract.blocks) BlockWalk(contract, block, false, problems).run();
  for (const Block& entry : contract.entries) {
    BlockWalk(contract, entry, true, problems).run();
    check_taps(contract, entry, problems);
  }
  return std::move(problems).status();
}

Result<ValueTypes> infer_types(const Contract& contract, const Block& block) {
  Problems problems;
  const bool is_entry =
      std::ranges::any_of(contract.entries, [&](const Block& entry) { return &entry == &block; });
  const KnownTypes known = BlockWalk(contract, block, is_entry, problems).run();
  TANDEM_CHECK(std::move(problems).status());
  ValueTypes types;
  for (const auto& [name, type] : known) types.emplace(name, *type);
  return types;
}

Result<std::vector<Parameter>> taps(const Contract& contract, const Block& entry) {
  std::map<const Block*, ValueTypes> types;
  std::vector<Parameter> all;
  for (const TapPlace& tap : tap_places(contract, entry)) {
    if (!types.contains(tap.block)) {
      TANDEM_TRY(types[tap.block], infer_types(contract, *tap.block));
    }
    all.push_back({tap.name, types[tap.block].find(tap.node->outputs[0])->second});
  }
  return all;
}

}  // namespace tandem
