// Faults of one kernel, its bias, and what follows it: transposition, the head, the activation.

#include <algorithm>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

/// The kernel's other orientation under its own shape: for a square one the transpose, else the bytes of the
/// transpose read row by row.
WeightEdit edit_transposed(const WeightEntry& weight) {
  return {weight.name, {weight.name}, [](std::span<const HostTensor> sources) {
            HostTensor other = transposed(sources[0]);
            other.shape = sources[0].shape;
            return Result(std::move(other));
          }};
}

bool is_square(const WeightEntry& weight) {
  return weight.shape[weight.shape.size() - 2] == weight.shape.back();
}
/// One row or one column is the same either way.
bool is_line(const WeightEntry& weight) {
  return weight.shape[weight.shape.size() - 2] == 1 || weight.shape.back() == 1;
}

Hypotheses transposed_kernel(const FaultSite& site, bool square) {
  if (site.node.op != "linear" && site.node.op != "route") return {};
  const WeightEntry* weight = weight_at(site, site.node.inputs[1]);
  if (!weight || is_square(*weight) != square || is_line(*weight)) return {};
  const char* words = square ? "is transposed" : "has its shape, but lies as its transpose";
  return {{{}, fmt::format("{} {}", weight->name, words), {}, {edit_transposed(*weight)}}};
}
Hypotheses transposed_square(const FaultSite& site) { return transposed_kernel(site, true); }
Hypotheses reshaped(const FaultSite& site) { return transposed_kernel(site, false); }

Hypotheses transposed_experts(const FaultSite& site) {
  if (site.node.op != "experts") return {};
  constexpr const char* kParts[] = {"gate", "up", "down"};
  const auto chunks = static_cast<size_t>(int_attribute(site.node, "chunks"));
  std::vector<WeightEdit> all;
  Hypotheses found;
  for (size_t part = 0; part < 3; ++part) {
    std::vector<WeightEdit> edits;
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      const WeightEntry* weight = weight_at(site, site.node.inputs[3 + part * chunks + chunk]);
      if (!is_line(*weight)) edits.push_back(edit_transposed(*weight));
    }
    all.insert(all.end(), edits.begin(), edits.end());
    if (!edits.empty())
      found.push_back({{}, fmt::format("the experts' {} kernels are transposed", kParts[part]), {}, edits});
  }
  if (!all.empty()) found.insert(found.begin(), {{}, "all kernels of the experts are transposed", {}, all});
  return found;
}

Hypotheses no_bias(const FaultSite& site) {
  if (site.node.op != "linear" || site.node.inputs.size() < 3) return {};
  const WeightEntry* bias = weight_at(site, site.node.inputs[2]);
  if (!bias) return {};
  return {{{}, fmt::format("{} is dropped", bias->name), {}, {edit_mapped(*bias, [](float, size_t) {
             return 0.0f;
           })}}};
}

/// The head of an entry that has a table of its own for the embedding.
Hypotheses tied_head(const FaultSite& site) {
  if (site.node.op != "linear" || site.node.tap != "lm_head") return {};
  const auto embedding = std::ranges::find(site.block.nodes, "embedding", &Node::op);
  if (embedding == site.block.nodes.end()) return {};
  const WeightEntry *head = weight_at(site, site.node.inputs[1]),
                    *table = weight_at(site, embedding->inputs[1]);
  if (!head || !table || head->name == table->name) return {};
  const bool out_in = string_attribute(site.node, "layout") == "out_in";
  const Shape expected{table->shape[out_in ? 0 : 1], table->shape[out_in ? 1 : 0]};
  if (head->shape != expected) return {};
  WeightEdit edit = edit_replaced(*head, *table);
  if (!out_in)
    edit.make = [dtype = head->storage](std::span<const HostTensor> sources) {
      return in_dtype(transposed(sources[0]), dtype);
    };
  return {{{}, "the head is tied to the embedding", {}, {std::move(edit)}}};
}

Hypotheses activation(const FaultSite& site, const std::string& other) {
  const Attribute* own = find_attribute(site.node, "hidden_act");
  const std::string* name = own ? std::get_if<std::string>(own) : nullptr;
  if (!name || *name == other) return {};
  return {{{},
           fmt::format("{} where the reference has {}", other, *name),
           set_attributes(site.node.outputs[0], {{"hidden_act", other}}),
           {}}};
}
Hypotheses silu(const FaultSite& site) { return activation(site, "silu"); }
Hypotheses gelu(const FaultSite& site) { return activation(site, "gelu"); }
Hypotheses gelu_tanh(const FaultSite& site) { return activation(site, "gelu_pytorch_tanh"); }
Hypotheses relu(const FaultSite& site) { return activation(site, "relu"); }

constexpr FaultRow kRows[] = {
    {"transposition.square", "transposition", "A square kernel is transposed", transposed_square},
    {"transposition.reshaped", "transposition", "A kernel was given its shape without being transposed",
     reshaped},
    {"transposition.experts", "transposition",
     "The experts' kernels are transposed, or reshaped in its stead", transposed_experts},
    {"dropped_bias.linear", "dropped bias", "A projection's bias is dropped", no_bias},
    {"head.tied", "tied or untied head", "The head is tied to the embedding though it has weights of its own",
     tied_head},
    {"activation.gelu", "activation", "gelu for the model's own activation", gelu},
    {"activation.gelu_pytorch_tanh", "activation", "gelu's tanh form for the model's own activation",
     gelu_tanh},
    {"activation.relu", "activation", "relu for the model's own activation", relu},
    {"activation.silu", "activation", "silu for the model's own activation", silu},
};

}  // namespace

std::span<const FaultRow> kernel_faults() { return kRows; }

}  // namespace tandem
