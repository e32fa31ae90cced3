// Faults of rotary positions: how lanes are paired, how fast they turn, and which positions they turn by.

#include <algorithm>
#include <cmath>
#include <set>

#include "contract/ops/rotary_table.h"
#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

// ---- Pairing.

std::vector<const Node*> rotations(const Block& block) {
  std::vector<const Node*> found;
  for (const Node& node : block.nodes)
    if (node.op == "rotary") found.push_back(&node);
  return found;
}

std::string_view pairing_name(bool interleaved) { return interleaved ? "neighbouring lanes" : "halves"; }

BlockEdit flip_pairing(const Node& node) {
  return set_attributes(node.outputs[0], {{"interleaved", !bool_attribute(node, "interleaved")}});
}

/// Pairs of two lanes are the same either way.
bool has_pairing(const FaultSite& site, const Node& node) {
  return last_size(site.types, node.outputs[0]) > 2;
}

Hypotheses pairing(const FaultSite& site) {
  if (site.node.op != "rotary" || !has_pairing(site, site.node)) return {};
  const auto all = rotations(site.block);
  if (all.front() != &site.node) return {};
  BlockEdit edit = [](Block&) {};
  for (const Node* node : all) edit = both(edit, flip_pairing(*node));
  const bool interleaved = bool_attribute(site.node, "interleaved");
  return {{{},
           fmt::format("{} are paired where the reference pairs {}", pairing_name(!interleaved),
                       pairing_name(interleaved)),
           edit,
           {}}};
}

Hypotheses pairing_of_one(const FaultSite& site) {
  if (site.node.op != "rotary" || !has_pairing(site, site.node)) return {};
  return {{{},
           fmt::format("{} are paired in {} alone", pairing_name(!bool_attribute(site.node, "interleaved")),
                       site.node.outputs[0]),
           flip_pairing(site.node),
           {}}};
}

/// Where each rotated lane of a linear comes from when its rows were permuted from halves to pairs, or back.
std::vector<uint64_t> pairing_order(const HeadChannels& heads, uint64_t out, bool to_pairs) {
  std::vector<uint64_t> order = numbers_up_to(out);
  for (const auto& lanes : heads.channels)
    for (size_t i = 0, half = lanes.size() / 2; i < half; ++i)
      for (size_t part = 0; part < 2; ++part) {
        const uint64_t paired = lanes[2 * i + part], halved = lanes[part * half + i];
        order[to_pairs ? paired : halved] = to_pairs ? halved : paired;
      }
  return order;
}

std::vector<WeightEdit> permute_rows(const FaultSite& site, const HeadChannels& heads, bool to_pairs) {
  const Kernel kernel = kernel_of(site, *heads.linear);
  const std::vector<uint64_t> order = pairing_order(heads, kernel.out(), to_pairs);
  if (is_in_order(order)) return {};
  std::vector<WeightEdit> edits{edit_taken(*kernel.weight, kernel.out_axis, order)};
  if (kernel.bias) edits.push_back(edit_taken(*kernel.bias, 0, order));
  return edits;
}

Hypotheses permuted_rows(const FaultSite& site) {
  if (site.node.op != "linear") return {};
  std::vector<HeadChannels> all;
  for (const Node* node : rotations(site.block))
    if (auto heads = head_channels(site.block, site.types, node->inputs[0].name))
      all.push_back(std::move(*heads));
  const auto own = std::ranges::find(all, &site.node, &HeadChannels::linear);
  if (own == all.end()) return {};
  Hypotheses found;
  for (const bool alone : {false, true})
    for (const bool to_pairs : {true, false}) {
      if (!alone && own != all.begin()) continue;
      std::vector<WeightEdit> edits;
      for (const HeadChannels& heads : all)
        if (!alone || heads.linear == &site.node)
          for (WeightEdit& edit : permute_rows(site, heads, to_pairs)) edits.push_back(std::move(edit));
      if (edits.empty()) continue;
      // Of four lanes the two orders are the same one.
      if (!to_pairs && own->channels.front().size() == 4) continue;
      found.push_back({{},
                       fmt::format("rotated rows of {} were permuted {}",
                                   alone ? full_name(site.place, site.node.tap) : "queries and keys",
                                   to_pairs ? "from halves to pairs" : "from pairs to halves"),
                       {},
                       std::move(edits)});
    }
  return found;
}

// ---- Frequencies.

/// Those that the node makes at the longest position that its type reads; nothing if it is not valid.
std::optional<RotaryFrequencies> frequencies(const Node& table) {
  const auto scaling = rotary_scaling(table);
  if (!scaling.ok()) return {};
  const int64_t original = scaling.value().original_max_position_embeddings.value_or(0);
  auto made = rotary_frequencies(scaling.value(), static_cast<uint64_t>(4 * original));
  return made.ok() ? std::optional(std::move(made).value()) : std::nullopt;
}

/// Without those whose table is invalid, or the same after all: ramps may round to the same lanes.
Hypotheses that_differ(const FaultSite& site, Hypotheses all) {
  const auto own = frequencies(site.node);
  std::erase_if(all, [&](const Hypothesis& hypothesis) {
    Block alone;
    alone.nodes.push_back(site.node);
    hypothesis.edit(alone);
    const auto other = frequencies(alone.nodes[0]);
    return !own || !other ||
           (own->inverse_frequencies == other->inverse_frequencies &&
            own->attention_factor == other->attention_factor);
  });
  return all;
}

constexpr double kUsualBases[] = {10000, 500000, 1000000, 100000, 10000000, 5000000, 50000, 1000};

Hypothesis with_base(const FaultSite& site, double theta, const std::string& reason = {}) {
  return {
      {},
      fmt::format("base {} where the reference has {}{}", theta, float_attribute(site.node, "theta"), reason),
      set_attributes(site.node.outputs[0], {{"theta", theta}}),
      {}};
}

Hypotheses base(const FaultSite& site) {
  if (site.node.op != "rotary_table") return {};
  Hypotheses found;
  for (const double theta : kUsualBases)
    if (theta != float_attribute(site.node, "theta")) found.push_back(with_base(site, theta));
  return that_differ(site, std::move(found));
}

/// Sizes that could be taken for the number of rotated lanes.
std::set<uint64_t> other_sizes(const FaultSite& site, uint64_t dim) {
  std::set<uint64_t> sizes{2 * dim, dim / 2};
  for (const Block& block : site.contract.blocks) {
    const auto types = infer_types(site.contract, block);
    if (!types.ok()) continue;
    for (const Node& node : block.nodes) {
      if (node.op != "attention") continue;
      const uint64_t heads = types.value().find(node.inputs[0].name)->second.shape[1].size;
      const uint64_t hidden = block.inputs.empty() ? 0 : block.inputs[0].type.shape.back().size;
      sizes.insert({last_size(types.value(), node.inputs[0].name),
                    last_size(types.value(), node.inputs[2].name), hidden, hidden / heads});
    }
  }
  sizes.erase(dim);
  sizes.erase(0);
  return sizes;
}

/// base^(2i/size) is (base^(dim/size))^(2i/dim).
Hypotheses head_dim(const FaultSite& site) {
  if (site.node.op != "rotary_table") return {};
  const auto dim = static_cast<uint64_t>(int_attribute(site.node, "dim"));
  if (dim <= 2) return {};  // the exponent of the one frequency is 0
  Hypotheses found;
  for (const uint64_t size : other_sizes(site, dim)) {
    const double theta =
        std::pow(float_attribute(site.node, "theta"), static_cast<double>(dim) / static_cast<double>(size));
    if (std::isfinite(theta) && theta > 1)
      found.push_back(with_base(site, theta, fmt::format(": exponents over {} lanes, not {}", size, dim)));
  }
  return that_differ(site, std::move(found));
}

/// Removes what the type does not read, so that the node stays valid.
BlockEdit set_scaling(const std::string& value, Attributes scaling) {
  return [value, scaling = std::move(scaling)](Block& block) {
    Node& node = node_making(block, value);
    Attributes kept{{"dim", node.attributes.at("dim")},
                    {"theta", node.attributes.at("theta")},
                    {"dtype", node.attributes.at("dtype")}};
    kept.insert(scaling.begin(), scaling.end());
    node.attributes = std::move(kept);
  };
}

bool is_scaled(const FaultSite& site) {
  return site.node.op == "rotary_table" && string_attribute(site.node, "type") != "default";
}

Hypotheses scaling_dropped(const FaultSite& site) {
  if (!is_scaled(site)) return {};
  return that_differ(site, {{{},
                             fmt::format("rotary scaling {} is dropped", string_attribute(site.node, "type")),
                             set_scaling(site.node.outputs[0], {{"type", std::string("default")}}),
                             {}}});
}

Hypotheses scaling_linear(const FaultSite& site) {
  if (!is_scaled(site) || string_attribute(site.node, "type") == "linear") return {};
  return that_differ(
      site, {{{},
              fmt::format("rotary scaling {} is taken for linear", string_attribute(site.node, "type")),
              set_scaling(site.node.outputs[0],
                          {{"type", std::string("linear")}, {"factor", site.node.attributes.at("factor")}}),
              {}}});
}

Hypotheses attention_factor(const FaultSite& site) {
  if (!is_scaled(site) || string_attribute(site.node, "type") != "yarn") return {};
  const auto scaling = rotary_scaling(site.node);
  if (!scaling.ok()) return {};
  const auto made = rotary_frequencies(scaling.value());
  if (!made.ok()) return {};
  const double factor = made.value().attention_factor;
  Hypotheses found;
  std::vector<double> others{1.0, yarn_mscale(*scaling.value().factor), factor * factor};
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i] == factor || std::find(others.begin(), others.begin() + i, others[i]) != others.begin() + i)
      continue;
    found.push_back({{},
                     fmt::format("attention factor {} where the reference has {}", others[i], factor),
                     set_attributes(site.node.outputs[0], {{"attention_factor", others[i]}}),
                     {}});
  }
  return that_differ(site, std::move(found));
}

Hypotheses wrong_number(const FaultSite& site, const std::string& field, std::vector<double> others) {
  const double own = float_attribute(site.node, field);
  const bool whole = std::holds_alternative<int64_t>(site.node.attributes.at(field));
  Hypotheses found;
  for (const double other : others) {
    if (other == own || other <= 0) continue;
    Attributes attributes{{field, whole ? Attribute(static_cast<int64_t>(other)) : Attribute(other)}};
    found.push_back({{},
                     fmt::format("{} {} where the reference has {}", field, other, own),
                     set_attributes(site.node.outputs[0], attributes),
                     {}});
  }
  return that_differ(site, std::move(found));
}

Hypotheses factor(const FaultSite& site) {
  if (!is_scaled(site)) return {};
  const double own = float_attribute(site.node, "factor");
  return wrong_number(site, "factor", {2 * own, own / 2, 1 / own, std::sqrt(own)});
}

Hypotheses original_length(const FaultSite& site) {
  if (!is_scaled(site) || !find_attribute(site.node, "original_max_position_embeddings")) return {};
  const double own = float_attribute(site.node, "original_max_position_embeddings");
  const double stretched = std::floor(own * float_attribute(site.node, "factor"));
  return wrong_number(site, "original_max_position_embeddings", {stretched, 2 * own, std::floor(own / 2)});
}

// ---- Positions.

/// Positions that count every token, padding too: 0, 1, 2, ...
Hypotheses positions_ignored(const FaultSite& site) {
  if (site.node.op != "rotary_table" || producer(site.block, site.node.inputs[0].name)) return {};
  const std::string ones = "position_ids.ones", counted = "position_ids.counted";
  const Attributes fill{{"value", int64_t{1}}, {"last", std::vector<int64_t>{}}};
  const std::vector<Node> nodes{{"fill_like", {site.node.inputs[0]}, fill, {ones}, {}},
                                {"positions", {{ones, false}}, {}, {counted}, {}}};
  return {{{},
           "position_ids are ignored: tokens are counted, padding too",
           put_before(site.node.outputs[0], nodes, set_input(site.node.outputs[0], 0, {counted, false})),
           {}}};
}

/// A rotated query turned once more, by the angles of one position: the output is as if its position were
/// `by` further on.
BlockEdit turn_further(const FaultSite& site, const Node& table, int64_t by) {
  const std::string& out = site.node.outputs[0];
  const std::string at = out + ".offset", exact = out + ".exact";
  Attributes attributes = table.attributes;
  if (string_attribute(table, "type") == "yarn") attributes["attention_factor"] = 1.0;
  const auto mask = std::ranges::find_if(site.block.inputs, [](const Parameter& input) {
    return input.type.dtype == DType::i32 && input.type.rank() == 2;
  });
  const std::vector<Node> before{
      {"fill_like", {{mask->name, false}}, {{"value", by}, {"last", std::vector<int64_t>{}}}, {at}, {}},
      {"rotary_table", {{at, false}}, attributes, {at + ".cos", at + ".sin"}, {}}};
  const Node again{"rotary",
                   {{exact, false}, {at + ".cos", false}, {at + ".sin", false}},
                   {{"interleaved", false}},
                   {out},
                   {}};
  return [=](Block& block) {
    Node& node = node_making(block, out);
    node.outputs[0] = exact;
    Node last = again;
    std::swap(last.tap, node.tap);
    const auto behind = block.nodes.begin() + (&node - block.nodes.data()) + 1;
    std::vector<Node> nodes = before;
    nodes.push_back(std::move(last));
    block.nodes.insert(behind, nodes.begin(), nodes.end());
  };
}

Hypotheses offset_of_queries(const FaultSite& site) {
  const Node* table = rotary_table_of(site.contract);
  // Under type dynamic the base of one position is not that of the call.
  if (site.node.op != "rotary" || !table || string_attribute(*table, "type") == "dynamic") return {};
  if (rotations(site.block).front() != &site.node) return {};
  const bool has_mask = std::ranges::any_of(site.block.inputs, [](const Parameter& input) {
    return input.type.dtype == DType::i32 && input.type.rank() == 2;
  });
  if (!has_mask) return {};
  Hypotheses found;
  for (const int64_t by : {int64_t{1}, int64_t{-1}})
    found.push_back(
        {{},
         fmt::format("positions of queries are {} by one against those of keys", by > 0 ? "late" : "early"),
         turn_further(site, *table, by),
         {}});
  return found;
}

constexpr FaultRow kRows[] = {
    {"rotary.pairing", "rotary pairing", "Neighbouring lanes are paired for halves, or halves for neighbours",
     pairing},
    {"rotary.pairing_of_one", "rotary pairing", "The same for queries alone, or for keys alone",
     pairing_of_one, true, true},
    {"rotary.permuted_rows", "rotary pairing",
     "Rows of the query and key projections were permuted for the other pairing", permuted_rows},
    {"rotary.base", "rotary base", "Another usual base (rope_theta)", base},
    {"rotary.head_dim", "rotary base", "Exponents over another size than the rotated lanes", head_dim},
    {"rotary.scaling_dropped", "rotary scaling", "The rotary scaling is not applied", scaling_dropped},
    {"rotary.scaling_linear", "rotary scaling", "Frequencies are divided by the factor, whatever the type",
     scaling_linear},
    {"rotary.attention_factor", "rotary scaling",
     "The attention factor of yarn is dropped, remade or squared", attention_factor},
    {"rotary.factor", "rotary scaling", "The scaling's factor is wrong", factor},
    {"rotary.original_length", "rotary scaling",
     "original_max_position_embeddings is the stretched length, or off by a factor of two", original_length},
    {"position.ignored", "position offset", "position_ids are ignored: tokens are counted, padding too",
     positions_ignored},
    {"position.offset_q", "position offset", "Queries are one position off against keys", offset_of_queries},
};

}  // namespace

std::span<const FaultRow> rotary_faults() { return kRows; }

}  // namespace tandem
