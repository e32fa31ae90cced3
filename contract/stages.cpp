#include "contract/stages.h"

#include <algorithm>
#include <set>

#include "contract/check.h"

namespace tandem {
namespace {

constexpr std::string_view kIds = "input_ids", kPositions = "position_ids";

Error cannot(std::string text) { return unsupported("stages_c2", "no stages: {}", text); }

std::vector<const Node*> calls_of(const Block& entry) {
  std::vector<const Node*> calls;
  for (const Node& node : entry.nodes)
    if (node.op == "call") calls.push_back(&node);
  return calls;
}

uint64_t bytes_of(const WeightEntry& weight) {
  const auto bytes = byte_count(weight.storage, weight.shape);
  return bytes.ok() ? bytes.value() : 0;
}

/// Each call takes what the one before it gave.
Status is_a_stack(const Block& entry) {
  const std::vector<const Node*> calls = calls_of(entry);
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i]->inputs.empty() || (i > 0 && calls[i]->inputs[0].name != calls[i - 1]->outputs[0]))
      return cannot(fmt::format("{} is not made of layers one after the other", entry.name));
  return {};
}

bool calls_all_layers(const Block& entry, size_t layers) { return calls_of(entry).size() == layers; }

/// The part of an entry that computes these layers.
class Cut {
 public:
  Cut(const Contract& contract, const Block& whole, const LayerSpan& layers)
      : contract_(contract), whole_(whole), calls_(calls_of(whole)), layers_(layers) {}

  Result<Block> entry() {
    TANDEM_CHECK(is_a_stack(whole_));
    TANDEM_TRY(types_, infer_types(contract_, whole_));
    if (!is_first()) in_ = calls_[layers_.begin]->inputs[0].name;
    if (!is_last()) out_ = calls_[layers_.end - 1]->outputs[0];
    Block part{whole_.name, {}, {}, {}, results()};
    for (const std::string& result : part.results) need(result);
    for (auto node = whole_.nodes.rbegin(); node != whole_.nodes.rend(); ++node) TANDEM_CHECK(take(*node));
    part.nodes.assign(taken_.rbegin(), taken_.rend());
    if (!is_first()) part.inputs.push_back({kHiddenStates, types_.at(in_)});
    for (const Parameter& input : whole_.inputs)
      if (needed_.contains(input.name)) part.inputs.push_back(input);
    rename(part);
    return part;
  }

 private:
  bool is_first() const { return layers_.begin == 0; }
  bool is_last() const { return layers_.end == calls_.size(); }

  /// Of the entry's results those that the stage makes, and the hidden states for the next one.
  std::vector<std::string> results() const {
    std::set<std::string> of_others;
    for (size_t i = 0; i < calls_.size(); ++i)
      if (i < layers_.begin || i >= layers_.end)
        of_others.insert(calls_[i]->outputs.begin(), calls_[i]->outputs.end());
    std::vector<std::string> results;
    if (!is_last()) results.push_back(out_);
    for (const std::string& result : whole_.results)
      if (!of_others.contains(result) && (is_last() || is_output_of_a_layer(result)))
        results.push_back(result);
    return results;
  }
  bool is_output_of_a_layer(const std::string& value) const {
    return std::ranges::any_of(
        calls_, [&](const Node* call) { return std::ranges::count(call->outputs, value) > 0; });
  }

  void need(const std::string& value) {
    if (value != in_) needed_.insert(value);
  }

  Status take(const Node& node) {
    if (std::ranges::none_of(node.outputs, [&](const auto& output) { return needed_.contains(output); }))
      return {};
    if (node.op == "call") {
      const auto at = std::ranges::find(calls_, &node) - calls_.begin();
      if (static_cast<uint64_t>(at) < layers_.begin || static_cast<uint64_t>(at) >= layers_.end)
        return cannot(fmt::format("layer {} of {} is needed by another stage", at, whole_.name));
    }
    taken_.push_back(node);
    for (Operand& operand : taken_.back().inputs) {
      if (operand.is_weight) continue;
      // What is made in the shape of the ids alone can be made in that of their positions.
      if (node.op == "fill_like" && operand.name == kIds && !is_first()) operand.name = kPositions;
      need(operand.name);
    }
    return {};
  }

  void rename(Block& part) const {
    const auto change = [&](std::string& name) {
      if (!in_.empty() && name == in_) name = kHiddenStates;
      if (!out_.empty() && name == out_) name = kHiddenStatesOut;
    };
    for (Node& node : part.nodes) {
      for (Operand& operand : node.inputs)
        if (!operand.is_weight) change(operand.name);
      for (std::string& output : node.outputs) change(output);
    }
    for (std::string& result : part.results) change(result);
  }

  const Contract& contract_;
  const Block& whole_;
  std::vector<const Node*> calls_;
  LayerSpan layers_;
  ValueTypes types_;
  std::string in_, out_;  ///< values of the whole entry; empty at its ends
  std::set<std::string> needed_;
  std::vector<Node> taken_;  ///< the last first
};

/// Leaves out blocks that nothing calls and weights that nothing uses.
void drop_unused(Contract& contract) {
  std::set<std::string> blocks, weights;
  for (const Block& entry : contract.entries)
    for (const Node& node : entry.nodes) {
      for (const Operand& operand : node.inputs)
        if (operand.is_weight) weights.insert(operand.name);
      if (node.op != "call") continue;
      const std::string& name = string_attribute(node, "block");
      blocks.insert(name);
      for (const Parameter& weight : find_block(contract, name)->weights)
        weights.insert(full_name(string_attribute(node, "at"), weight.name));
    }
  std::erase_if(contract.blocks, [&](const Block& block) { return !blocks.contains(block.name); });
  std::erase_if(contract.weights, [&](const WeightEntry& weight) { return !weights.contains(weight.name); });
}

/// The place of the layer that an entry layer_N calls, and its only call.
bool is_of_layers(const Block& entry, const std::set<std::string>& places) {
  const std::vector<const Node*> calls = calls_of(entry);
  return calls.size() == 1 && places.contains(string_attribute(*calls[0], "at"));
}

Result<const Block*> logits_of(const Contract& contract) {
  const Block* logits = find_entry(contract, "logits");
  if (!logits || calls_of(*logits).empty()) return cannot("no entry logits that calls layers");
  return logits;
}

}  // namespace

Result<std::vector<LayerSpan>> stage_spans(const Contract& contract, uint64_t stages) {
  TANDEM_TRY(const Block* logits, logits_of(contract));
  const std::vector<const Node*> calls = calls_of(*logits);
  if (stages == 0 || stages > calls.size())
    return usage("stages_c1", "{} stages of a model of {} layers: expected 1 to {}", stages, calls.size(),
                 calls.size());
  std::vector<uint64_t> bytes(calls.size(), 0);
  size_t layer = 0;
  for (const Node& node : logits->nodes) {
    const bool is_call = node.op == "call";
    for (const Operand& operand : node.inputs)
      if (const WeightEntry* weight = operand.is_weight ? find_weight(contract, operand.name) : nullptr)
        bytes[std::min(layer, calls.size() - 1)] += bytes_of(*weight);
    if (!is_call) continue;
    for (const Parameter& weight : find_block(contract, string_attribute(node, "block"))->weights)
      if (const WeightEntry* found =
              find_weight(contract, full_name(string_attribute(node, "at"), weight.name)))
        bytes[layer] += bytes_of(*found);
    ++layer;
  }
  uint64_t left = 0;
  for (const uint64_t each : bytes) left += each;
  std::vector<LayerSpan> spans;
  uint64_t begin = 0;
  for (uint64_t stage = 0; stage < stages; ++stage) {
    const uint64_t others = stages - stage - 1, share = left / (stages - stage);
    uint64_t end = begin + 1, taken = bytes[begin];
    // One more layer, while that comes closer to an equal share and leaves one for each stage that follows.
    while (end + others < calls.size() && (others == 0 || taken + bytes[end] / 2 <= share))
      taken += bytes[end++];
    spans.push_back({begin, end});
    left -= taken;
    begin = end;
  }
  return spans;
}

std::string hidden_states_before(const Contract& contract, uint64_t layer) {
  const Block* logits = find_entry(contract, "logits");
  const std::vector<const Node*> calls = logits ? calls_of(*logits) : std::vector<const Node*>{};
  return layer == 0 || layer >= calls.size() ? std::string() : calls[layer]->inputs[0].name;
}

Result<Contract> stage_of(const Contract& contract, const LayerSpan& layers) {
  TANDEM_TRY(const Block* logits, logits_of(contract));
  const std::vector<const Node*> calls = calls_of(*logits);
  if (layers.begin >= layers.end || layers.end > calls.size())
    return bug("stages_c1", "layers {} to {} of {}", layers.begin, layers.end, calls.size());
  std::set<std::string> places;
  for (uint64_t layer = layers.begin; layer < layers.end; ++layer)
    places.insert(string_attribute(*calls[layer], "at"));
  Contract stage{contract.compute, contract.weights, contract.blocks, {}};
  for (const Block& entry : contract.entries) {
    if (entry.name.starts_with("layer_")) {
      if (is_of_layers(entry, places)) stage.entries.push_back(entry);
      continue;
    }
    if (!calls_all_layers(entry, calls.size()))
      return cannot(fmt::format("{} does not call every layer", entry.name));
    TANDEM_TRY(Block part, Cut(contract, entry, layers).entry());
    stage.entries.push_back(std::move(part));
  }
  drop_unused(stage);
  if (const Status fits = check(stage); !fits.ok()) return cannot(fits.error().message());
  return stage;
}

}  // namespace tandem
