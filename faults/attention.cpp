// Faults of attention: the scale of scores, and which keys are seen.

#include "contract/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "contract/ops/rotary_table.h"
#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

bool is_attention(const FaultSite& site) { return site.node.op == "attention"; }

double scale_of(const FaultSite& site) { return float_attribute(site.node, "scale"); }

uint64_t key_size(const FaultSite& site) { return last_size(site.types, site.node.inputs[0].name); }

/// What the scale holds besides size^-0.5: 1, or the multiplier of latent attention under yarn.
double multiplier(const FaultSite& site) {
  const double found = scale_of(site) * std::sqrt(static_cast<double>(key_size(site)));
  return std::abs(found - 1) < 1e-9 ? 1 : found;
}

Hypothesis with_scale(const FaultSite& site, double scale, const std::string& reason) {
  return {{},
          fmt::format("score scale {:.6g} where the reference has {:.6g}: {}", scale, scale_of(site), reason),
          set_attributes(site.node.outputs[0], {{"scale", scale}}),
          {}};
}

/// Drops what changes nothing, and what was said before.
void add_scale(const FaultSite& site, double scale, const std::string& reason, std::vector<double>& seen,
               Hypotheses& found) {
  const auto near = [&](double other) { return std::abs(other - scale) <= 1e-9 * scale; };
  if (near(scale_of(site)) || std::ranges::any_of(seen, near)) return;
  seen.push_back(scale);
  found.push_back(with_scale(site, scale, reason));
}

Hypotheses no_scale(const FaultSite& site) {
  if (!is_attention(site)) return {};
  Hypotheses found;
  std::vector<double> seen;
  add_scale(site, 1, "none", seen, found);
  add_scale(site, multiplier(site), "without the size", seen, found);
  return found;
}

Hypotheses scale_of_another_size(const FaultSite& site) {
  if (!is_attention(site)) return {};
  const TensorType& q = site.types.find(site.node.inputs[0].name)->second;
  const uint64_t heads = q.shape[1].size, size = key_size(site);
  const uint64_t hidden = site.block.inputs.empty() ? 0 : site.block.inputs[0].type.shape.back().size;
  std::set<uint64_t> sizes{
      last_size(site.types, site.node.inputs[2].name), hidden, hidden / heads, heads, 2 * size, size / 2};
  if (const Node* parts = producer(site.block, site.node.inputs[0].name); parts && parts->op == "concat")
    for (const Operand& part : parts->inputs) sizes.insert(last_size(site.types, part.name));
  Hypotheses found;
  std::vector<double> seen;
  for (const uint64_t other : sizes)
    if (other > 0 && other != size)
      add_scale(site, multiplier(site) / std::sqrt(static_cast<double>(other)),
                fmt::format("1 / sqrt({}), not of {}", other, size), seen, found);
  add_scale(site, multiplier(site) / static_cast<double>(size), "divided by the size, not by its root", seen,
            found);
  return found;
}

/// mscale^2 of latent attention under yarn: dropped, taken once, taken twice, or taken where it is not asked
/// for.
Hypotheses mscale(const FaultSite& site) {
  if (!is_attention(site)) return {};
  Hypotheses found;
  std::vector<double> seen;
  const double own = multiplier(site);
  if (own != 1) {
    add_scale(site, scale_of(site) / own, "mscale is dropped", seen, found);
    add_scale(site, scale_of(site) / std::sqrt(own), "mscale is not squared", seen, found);
    add_scale(site, scale_of(site) * own, "mscale is squared twice", seen, found);
    return found;
  }
  const Node* table = rotary_table_of(site.contract);
  if (!table || !find_attribute(*table, "factor")) return {};
  const double factor = float_attribute(*table, "factor");
  const double all = find_attribute(*table, "mscale_all_dim") ? float_attribute(*table, "mscale_all_dim") : 1;
  const double m = yarn_mscale(factor, all);
  add_scale(site, scale_of(site) * m * m, "mscale squared, which this model does not have", seen, found);
  add_scale(site, scale_of(site) * m, "mscale, which this model does not have", seen, found);
  return found;
}

Hypotheses not_causal(const FaultSite& site) {
  if (!is_attention(site) || !attention_form(site.node).causal) return {};
  const BlockEdit edit = [value = site.node.outputs[0]](Block& block) {
    Node& node = node_making(block, value);
    node.attributes.erase("diagonal");
    node.attributes.insert_or_assign("causal", false);
  };
  return {{{}, "the causal mask is lost: queries see later keys", edit, {}}};
}

Hypotheses off_by_one(const FaultSite& site) {
  const AttentionForm form = is_attention(site) ? attention_form(site.node) : AttentionForm{false, 0, {}};
  if (!form.causal) return {};
  Hypotheses found;
  for (const int64_t by : {int64_t{1}, int64_t{-1}})
    found.push_back({{},
                     by > 0 ? "the causal mask is off by one: queries see the next key"
                            : "the causal mask is off by one: queries do not see their own key",
                     set_attributes(site.node.outputs[0], {{"diagonal", form.diagonal + by}}),
                     {}});
  return found;
}

Hypotheses padding_ignored(const FaultSite& site) {
  if (!is_attention(site)) return {};
  const Operand mask = site.node.inputs[3];
  if (const Node* made = producer(site.block, mask.name); made && made->op == "fill_like") return {};
  const std::string ones = site.node.outputs[0] + ".no_padding";
  const Node fill{"fill_like", {mask}, {{"value", int64_t{1}}, {"last", std::vector<int64_t>{}}}, {ones}, {}};
  return {{{},
           "the attention mask is ignored: padding is seen",
           put_before(site.node.outputs[0], {fill}, set_input(site.node.outputs[0], 3, {ones, false})),
           {}}};
}

constexpr FaultRow kRows[] = {
    {"scale.none", "score scale", "Scores are not scaled", no_scale},
    {"scale.other_size", "score scale", "Scores are scaled by the root of another size",
     scale_of_another_size},
    {"scale.mscale", "score scale", "yarn's mscale: dropped, not squared, squared twice, or added",  //
     mscale},
    {"mask.causal", "mask", "The causal mask is lost", not_causal},
    {"mask.padding", "mask", "The attention mask is ignored: padding is seen", padding_ignored},
    {"mask.off_by_one", "mask", "The causal mask's diagonal is off by one, either way", off_by_one},
};

}  // namespace

std::span<const FaultRow> attention_faults() { return kRows; }

}  // namespace tandem
