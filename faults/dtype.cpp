// Faults of precision: an intermediate of a float32 model that is rounded to sixteen bits.

#include <algorithm>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

constexpr DType kNarrow[] = {DType::bf16, DType::f16};

/// In a model of sixteen bits its own rounding hides this one.
bool is_wide(const FaultSite& site) { return size_of(site.contract.compute) >= size_of(DType::f32); }

std::string words(DType to, const std::string& value) {
  return fmt::format("{} is rounded to {}", value, row(to).long_name);
}

Hypotheses rounded_outputs(const FaultSite& site, const std::vector<std::string>& values) {
  if (!is_wide(site)) return {};
  Hypotheses found;
  for (const DType to : kNarrow) {
    BlockEdit edit = [](Block&) {};
    for (const std::string& value : values)
      edit = both(edit, round_value(value, to, site.types.find(value)->second.dtype));
    found.push_back({{}, words(to, fmt::format("{}", fmt::join(values, ", "))), edit, {}});
  }
  return found;
}

Hypotheses output_of(const FaultSite& site, std::string_view op) {
  return site.node.op == op ? rounded_outputs(site, {site.node.outputs[0]}) : Hypotheses{};
}
Hypotheses norm(const FaultSite& site) { return output_of(site, "rms_norm"); }
Hypotheses attention(const FaultSite& site) { return output_of(site, "attention"); }
Hypotheses residual(const FaultSite& site) { return output_of(site, "add"); }
Hypotheses linear(const FaultSite& site) { return output_of(site, "linear"); }
Hypotheses gate(const FaultSite& site) { return output_of(site, "activation_gate"); }

Hypotheses rotary_table(const FaultSite& site) {
  return site.node.op == "rotary_table" ? rounded_outputs(site, site.node.outputs) : Hypotheses{};
}

Hypotheses softmax(const FaultSite& site) {
  if (site.node.op != "attention" || !is_wide(site)) return {};
  Hypotheses found;
  for (const DType to : kNarrow)
    found.push_back({{},
                     words(to, "the softmax of attention"),
                     set_attributes(site.node.outputs[0], {{"softmax_dtype", std::string(name(to))}}),
                     {}});
  return found;
}

/// What the router reads: hidden states and kernel, and both.
Hypotheses router(const FaultSite& site) {
  if (site.node.op != "route" || !is_wide(site)) return {};
  const std::string& out = site.node.outputs[0];
  Hypotheses found;
  for (const DType to : kNarrow) {
    const std::string x = out + ".x", kernel = out + ".kernel";
    std::vector<Node> nodes =
        rounding(site.node.inputs[0], x, to, site.types.find(site.node.inputs[0].name)->second.dtype);
    const std::vector<Node> more = rounding(site.node.inputs[1], kernel, to, DType::f32);
    const BlockEdit input = set_input(out, 0, {x, false}), weight = set_input(out, 1, {kernel, false});
    std::vector<Node> all = nodes;
    all.insert(all.end(), more.begin(), more.end());
    found.push_back(
        {{}, words(to, "the router's input and kernel"), put_before(out, all, both(input, weight)), {}});
    found.push_back({{}, words(to, "the router's input"), put_before(out, nodes, input), {}});
  }
  for (Hypothesis& weights : rounded_outputs(site, {site.node.outputs[1]}))
    found.push_back(std::move(weights));
  return found;
}

constexpr FaultRow kRows[] = {
    {"dtype.norm", "dtype of an intermediate", "A norm's output is rounded to 16 bits", norm},
    {"dtype.rotary_table", "dtype of an intermediate", "The cosines and sines are rounded to 16 bits",
     rotary_table},
    {"dtype.softmax", "dtype of an intermediate", "The softmax of attention is taken in 16 bits", softmax},
    {"dtype.attention", "dtype of an intermediate", "Attention's output is rounded to 16 bits", attention},
    {"dtype.residual", "dtype of an intermediate", "The residual stream is rounded to 16 bits", residual},
    {"dtype.router", "dtype of an intermediate", "The router computes in 16 bits", router},
    {"dtype.gate", "dtype of an intermediate", "The gated activation is rounded to 16 bits", gate},
    {"dtype.linear", "dtype of an intermediate", "A projection's output is rounded to 16 bits", linear},
};

}  // namespace

std::span<const FaultRow> dtype_faults() { return kRows; }

}  // namespace tandem
