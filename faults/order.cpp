// Faults of order: of heads, of queries, keys and values, of gate and up, and of the parts of one projection.

#include <algorithm>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

// ---- Heads.

/// The number of heads that a linear's output is cut into; 0 if it is not.
uint64_t heads_of(const FaultSite& site) {
  if (site.node.op != "linear") return 0;
  for (const Node* reader : readers(site.block, site.node.outputs[0]))
    if (reader->op == "split_heads") return static_cast<uint64_t>(int_attribute(*reader, "heads"));
  return 0;
}

/// The number of heads that a linear's input was merged from; 0 if it was not.
uint64_t merged_heads_of(const FaultSite& site) {
  if (site.node.op != "linear") return 0;
  const Node* merge = producer(site.block, site.node.inputs[0].name);
  return merge && merge->op == "merge_heads" ? site.types.find(merge->inputs[0].name)->second.shape[1].size
                                             : 0;
}

std::vector<uint64_t> reversed_heads(uint64_t channels, uint64_t heads) {
  std::vector<uint64_t> order(channels);
  const uint64_t size = channels / heads;
  for (uint64_t c = 0; c < channels; ++c) order[c] = (heads - 1 - c / size) * size + c % size;
  return order;
}

/// Channels cut as [size, heads] where they lie as [heads, size].
std::vector<uint64_t> interleaved_heads(uint64_t channels, uint64_t heads) {
  std::vector<uint64_t> order(channels);
  const uint64_t size = channels / heads;
  for (uint64_t c = 0; c < channels; ++c) order[c] = c % size * heads + c / size;
  return order;
}

using OrderOf = std::vector<uint64_t> (*)(uint64_t channels, uint64_t heads);

Hypotheses outputs_in(const FaultSite& site, OrderOf order_of, const char* words) {
  const uint64_t heads = heads_of(site);
  if (heads < 2) return {};
  const Kernel kernel = kernel_of(site, site.node);
  const std::vector<uint64_t> order = order_of(kernel.out(), heads);
  if (is_in_order(order)) return {};
  std::vector<WeightEdit> edits{edit_taken(*kernel.weight, kernel.out_axis, order)};
  if (kernel.bias) edits.push_back(edit_taken(*kernel.bias, 0, order));
  return {{{}, fmt::format("{} of {}", words, kernel.weight->name), {}, std::move(edits)}};
}
Hypotheses reversed(const FaultSite& site) {
  return outputs_in(site, reversed_heads, "the heads are reversed in the rows");
}
Hypotheses interleaved(const FaultSite& site) {
  return outputs_in(site, interleaved_heads,
                    "channels are cut as [size, heads], not [heads, size], in the rows");
}

Hypotheses inputs_in_other_order(const FaultSite& site) {
  const uint64_t heads = merged_heads_of(site);
  if (heads < 2) return {};
  const Kernel kernel = kernel_of(site, site.node);
  Hypotheses found;
  for (const auto& [order_of, words] : {std::pair<OrderOf, const char*>{reversed_heads, "reversed"},
                                        {interleaved_heads, "cut as [size, heads], not [heads, size],"}}) {
    const std::vector<uint64_t> order = order_of(kernel.in(), heads);
    if (is_in_order(order)) continue;
    found.push_back({{},
                     fmt::format("the heads are {} in the columns of {}", words, kernel.weight->name),
                     {},
                     {edit_taken(*kernel.weight, kernel.in_axis, order)}});
  }
  return found;
}

/// Attention whose keys and values are read in another order of heads.
Hypothesis with_kv_heads(const FaultSite& site, const std::vector<int64_t>& order, const char* words) {
  const std::string &out = site.node.outputs[0], keys = out + ".keys", values = out + ".values";
  const std::vector<Node> nodes{{"gather_heads", {site.node.inputs[1]}, {{"order", order}}, {keys}, {}},
                                {"gather_heads", {site.node.inputs[2]}, {{"order", order}}, {values}, {}}};
  return {{},
          words,
          put_before(out, nodes, both(set_input(out, 1, {keys, false}), set_input(out, 2, {values, false}))),
          {}};
}

struct HeadCounts {
  uint64_t heads = 0, kv_heads = 0;
};
HeadCounts head_counts(const FaultSite& site) {
  if (site.node.op != "attention") return {};
  return {site.types.find(site.node.inputs[0].name)->second.shape[1].size,
          site.types.find(site.node.inputs[1].name)->second.shape[1].size};
}

Hypotheses kv_mapping(const FaultSite& site) {
  const auto [heads, kv_heads] = head_counts(site);
  if (kv_heads < 2 || heads == kv_heads) return {};
  std::vector<int64_t> order;
  for (uint64_t h = 0; h < heads; ++h) order.push_back(static_cast<int64_t>(h % kv_heads));
  return {
      with_kv_heads(site, order, "query head h reads kv head h mod kv_heads, not h / (heads / kv_heads)")};
}

Hypotheses kv_order(const FaultSite& site) {
  const uint64_t kv_heads = head_counts(site).kv_heads;
  if (kv_heads < 2) return {};
  std::vector<int64_t> order;
  for (uint64_t h = kv_heads; h-- > 0;) order.push_back(static_cast<int64_t>(h));
  return {with_kv_heads(site, order, "the kv heads are read in reverse order")};
}

// ---- Queries, keys and values.

/// The linear that a value with heads is made by, however it was cut and rotated.
const Node* source_linear(const Block& block, const std::string& value) {
  const Node* node = producer(block, value);
  while (node && (node->op == "rotary" || node->op == "split_heads"))
    node = producer(block, node->inputs[0].name);
  return node && node->op == "linear" ? node : nullptr;
}

bool are_alike(const Kernel& a, const Kernel& b) {
  return a.weight->shape == b.weight->shape && a.in_axis == b.in_axis && !a.bias == !b.bias;
}

std::vector<WeightEdit> swap_kernels(const Kernel& a, const Kernel& b) {
  std::vector<WeightEdit> edits = edit_swapped(*a.weight, *b.weight);
  if (a.bias && b.bias)
    for (WeightEdit& edit : edit_swapped(*a.bias, *b.bias)) edits.push_back(std::move(edit));
  return edits;
}

Hypothesis swapped(const FaultSite& site, const Node& a, const Node& b) {
  const Kernel first = kernel_of(site, a), second = kernel_of(site, b);
  return {{},
          fmt::format("{} and {} are swapped", first.weight->name, second.weight->name),
          {},
          swap_kernels(first, second)};
}

Hypotheses qkv(const FaultSite& site) {
  if (site.node.op != "linear") return {};
  for (const Node& attention : site.block.nodes) {
    if (attention.op != "attention") continue;
    const Node* linears[3];
    for (size_t i = 0; i < 3; ++i) linears[i] = source_linear(site.block, attention.inputs[i].name);
    Hypotheses found;
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = i + 1; j < 3 && linears[i] == &site.node; ++j)
        if (linears[j] && linears[j] != linears[i] &&
            are_alike(kernel_of(site, *linears[i]), kernel_of(site, *linears[j])))
          found.push_back(swapped(site, *linears[i], *linears[j]));
    if (!found.empty()) return found;
  }
  return {};
}

Hypotheses qkv_operands(const FaultSite& site) {
  if (site.node.op != "attention") return {};
  constexpr const char* kNames[] = {"queries", "keys", "values"};
  Hypotheses found;
  for (const auto& [i, j] : {std::pair<size_t, size_t>{1, 2}, {0, 1}, {0, 2}}) {
    const Operand a = site.node.inputs[i], b = site.node.inputs[j];
    if (site.types.find(a.name)->second != site.types.find(b.name)->second) continue;
    found.push_back({{},
                     fmt::format("{} and {} are swapped in attention", kNames[i], kNames[j]),
                     both(set_input(site.node.outputs[0], i, b), set_input(site.node.outputs[0], j, a)),
                     {}});
  }
  return found;
}

/// Two slices that cut one value in two: the second part is taken first.
Hypotheses split(const FaultSite& site) {
  if (site.node.op != "slice" || int_attribute(site.node, "begin") != 0) return {};
  const std::string& from = site.node.inputs[0].name;
  const int64_t size = int_attribute(site.node, "size");
  const auto whole = static_cast<int64_t>(last_size(site.types, from));
  for (const Node* other : readers(site.block, from)) {
    if (other->op != "slice" || int_attribute(*other, "begin") != size ||
        int_attribute(*other, "size") != whole - size)
      continue;
    return {{{},
             fmt::format("{} is cut with {} first", from, other->outputs[0]),
             both(set_attributes(site.node.outputs[0], {{"begin", whole - size}}),
                  set_attributes(other->outputs[0], {{"begin", int64_t{0}}})),
             {}}};
  }
  return {};
}

// ---- Gate and up.

bool is_gate(const Node& node) { return node.op == "activation_gate"; }

Hypotheses gate_up_of_experts(const FaultSite& site) {
  const auto chunks = static_cast<size_t>(int_attribute(site.node, "chunks"));
  std::vector<WeightEdit> edits;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const WeightEntry* gate = weight_at(site, site.node.inputs[3 + chunk]);
    const WeightEntry* up = weight_at(site, site.node.inputs[3 + chunks + chunk]);
    for (WeightEdit& edit : edit_swapped(*gate, *up)) edits.push_back(std::move(edit));
  }
  return {{{}, "gate and up of the experts are swapped", {}, std::move(edits)}};
}

Hypotheses gate_up(const FaultSite& site) {
  if (site.node.op == "experts") return gate_up_of_experts(site);
  if (site.node.op != "linear") return {};
  for (const Node* gate : readers(site.block, site.node.outputs[0])) {
    if (!is_gate(*gate) || gate->inputs[0].name != site.node.outputs[0]) continue;
    const Node* up = producer(site.block, gate->inputs[1].name);
    if (up && up->op == "linear" && are_alike(kernel_of(site, site.node), kernel_of(site, *up)))
      return {swapped(site, site.node, *up)};
  }
  return {};
}

Hypotheses gate_up_operands(const FaultSite& site) {
  if (!is_gate(site.node)) return {};
  const std::string& out = site.node.outputs[0];
  return {{{},
           "the activation is taken of up, not of gate",
           both(set_input(out, 0, site.node.inputs[1]), set_input(out, 1, site.node.inputs[0])),
           {}}};
}

constexpr FaultRow kRows[] = {
    {"heads.reversed", "head order", "The heads of a projection are in reverse order", reversed},
    {"heads.interleaved", "head order", "A projection's channels are cut as [size, heads] for [heads, size]",
     interleaved},
    {"heads.output", "head order", "The output projection reads the heads in another order",
     inputs_in_other_order},
    {"heads.kv_mapping", "head order", "Query heads read kv heads in turn, not in groups", kv_mapping},
    {"heads.kv_order", "head order", "The kv heads are read in reverse order", kv_order},
    {"order.qkv", "q/k/v order", "Query, key or value projections of one shape are swapped", qkv},
    {"order.qkv_operands", "q/k/v order", "Queries, keys or values are swapped in attention", qkv_operands},
    {"order.split", "q/k/v order", "The two parts of a projection are cut in the wrong order", split},
    {"order.gate_up", "gate/up order", "gate_proj and up_proj are swapped", gate_up},
    {"order.gate_up_operands", "gate/up order", "The activation is taken of up, not of gate",
     gate_up_operands},
};

}  // namespace

std::span<const FaultRow> order_faults() { return kRows; }

}  // namespace tandem
