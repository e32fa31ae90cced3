#include "contract/cached.h"

#include <algorithm>
#include <optional>
#include <set>

#include "contract/check.h"
#include "contract/ops/attention.h"

namespace tandem {
namespace {

constexpr std::string_view kPast = "past_", kPresent = "present_";
constexpr const char* kKeys = "keys";

Error cannot(std::string text) { return unsupported("cached_c1", "no prefill and decode: {}", text); }

Operand value(std::string name) { return {std::move(name), false}; }

/// Ops that read other tokens than the one they write. Of these only attention can be given a cache.
bool mixes_tokens(const Node& node) { return node.op == "roll" || node.op == "positions"; }

const Node* maker(const Block& block, const Operand& operand, std::string_view op) {
  for (const Node& node : block.nodes)
    if (!operand.is_weight && node.op == op && node.outputs[0] == operand.name) return &node;
  return nullptr;
}

/// Keys and values that are made from one latent: key = [part of kernel(latent), one rotated key for all
/// heads], value = another part of kernel(latent).
struct Latent {
  Operand latent, kernel, rotated_key, q_nope, q_rope;
  std::string layout;
  int64_t key_begin, key_size, value_begin, value_size, rank;
};

std::optional<Latent> find_latent(const Block& block, const ValueTypes& types, const Node& attention) {
  const Node* key = maker(block, attention.inputs[1], "concat");
  const Node* v = maker(block, attention.inputs[2], "slice");
  const Node* query = maker(block, attention.inputs[0], "concat");
  if (!key || !v || !query) return {};
  const Node* k_nope = maker(block, key->inputs[0], "slice");
  const Node* shared = maker(block, key->inputs[1], "repeat_heads");
  if (!k_nope || !shared || k_nope->inputs != v->inputs) return {};
  const Node* heads = maker(block, v->inputs[0], "split_heads");
  const Node* linear = heads ? maker(block, heads->inputs[0], "linear") : nullptr;
  if (!linear || linear->inputs.size() != 2 || !linear->inputs[1].is_weight) return {};
  const int64_t key_size = int_attribute(*k_nope, "size");
  const TensorType& q_nope = types.find(query->inputs[0].name)->second;
  const Dim& rank = types.find(linear->inputs[0].name)->second.shape.back();
  if (q_nope.shape.back() != Dim(static_cast<uint64_t>(key_size)) || !rank.fixed()) return {};
  return Latent{linear->inputs[0],
                linear->inputs[1],
                shared->inputs[0],
                query->inputs[0],
                query->inputs[1],
                string_attribute(*linear, "layout"),
                int_attribute(*k_nope, "begin"),
                key_size,
                int_attribute(*v, "begin"),
                int_attribute(*v, "size"),
                static_cast<int64_t>(rank.size)};
}

/// A block in its two cached forms, and what its caches are called.
struct CachedBlock {
  Block prefill, decode;
  std::vector<Parameter> caches;  ///< "key", "value" or "latent", as prefill returns them
};

/// Leaves out what the results do not need.
void drop_unused(Block& block) {
  std::set<std::string> needed(block.results.begin(), block.results.end());
  std::vector<Node> kept;
  for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const auto& output) { return needed.contains(output); }))
      continue;
    for (const Operand& operand : node->inputs)
      if (!operand.is_weight) needed.insert(operand.name);
    kept.push_back(std::move(*node));
  }
  block.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

Node append(const std::string& cache, const Operand& added) {
  return {"append",
          {value(std::string(kPast) + cache), added},
          {{"axis", int64_t{2}}, {"length", std::string(kKeys)}},
          {std::string(kPresent) + cache},
          ""};
}

/// What stands in the cache for the tokens at hand, as [batch, 1, tokens, rank + rope].
std::vector<Node> latent_row(const Latent& latent, const std::string& output) {
  return {{"split_heads", {latent.latent}, {{"heads", int64_t{1}}}, {"latent_head"}, ""},
          {"concat", {value("latent_head"), latent.rotated_key}, {}, {output}, ""}};
}

/// Attention on the latents themselves: all heads share one key, and its first lanes are the values.
std::vector<Node> absorbed_attention(const Latent& latent, const Node& attention) {
  const auto head_linear = [&](const std::string& x, int64_t begin, int64_t size, bool transpose,
                               const std::string& y) {
    const Attributes attributes{
        {"layout", latent.layout}, {"begin", begin}, {"size", size}, {"transpose", transpose}};
    return Node{"head_linear", {value(x), latent.kernel}, attributes, {y}, ""};
  };
  const std::string present = std::string(kPresent) + "latent";
  std::vector<Node> nodes = latent_row(latent, "latent_row");
  nodes.push_back(append("latent", value("latent_row")));
  nodes.push_back(head_linear(latent.q_nope.name, latent.key_begin, latent.key_size, true, "absorbed_query"));
  nodes.push_back({"concat", {value("absorbed_query"), latent.q_rope}, {}, {"latent_query"}, ""});
  nodes.push_back({"attention",
                   {value("latent_query"), value(present), value(present), attention.inputs[3]},
                   attention.attributes,
                   {"latent_attended"},
                   ""});
  nodes.push_back({"slice",
                   {value("latent_attended")},
                   {{"begin", int64_t{0}}, {"size", latent.rank}},
                   {"latent_mixed"},
                   ""});
  nodes.push_back(
      head_linear("latent_mixed", latent.value_begin, latent.value_size, false, attention.outputs[0]));
  nodes.back().tap = attention.tap;
  return nodes;
}

std::vector<Node> attention_over_cache(const Node& attention) {
  Node over = attention;
  over.inputs[1] = value(std::string(kPresent) + "key");
  over.inputs[2] = value(std::string(kPresent) + "value");
  return {append("key", attention.inputs[1]), append("value", attention.inputs[2]), over};
}

/// The one attention of a block.
Result<size_t> the_attention(const Block& block) {
  std::optional<size_t> found;
  for (size_t i = 0; i < block.nodes.size(); ++i) {
    const Node& node = block.nodes[i];
    if (mixes_tokens(node)) return cannot(fmt::format("{} of {} reads other tokens", node.op, block.name));
    if (node.op != "attention") continue;
    if (found) return cannot(fmt::format("{} has several attentions", block.name));
    found = i;
  }
  if (!found) return cannot(fmt::format("{} has no attention", block.name));
  const AttentionForm form = attention_form(block.nodes[*found]);
  if (!form.causal || form.diagonal > 0)
    return cannot(fmt::format("a token of {} sees later ones", block.name));
  if (block.results.size() != 1) return cannot(fmt::format("{} has several results", block.name));
  return *found;
}

void rename_axis(TensorType& type, const Dim& from, const Dim& to) {
  std::ranges::replace(type.shape, from, to);
}

Result<CachedBlock> cached(const Contract& contract, const Block& block, const CachedOptions& options) {
  TANDEM_TRY(const size_t at, the_attention(block));
  TANDEM_TRY(const ValueTypes types, infer_types(contract, block));
  const Node& attention = block.nodes[at];
  const Dim tokens = types.find(attention.inputs[0].name)->second.shape[2];
  const std::string& mask = attention.inputs[3].name;
  const auto has_name = [](const std::string& name) {
    return [&](const Parameter& parameter) { return parameter.name == name; };
  };
  if (std::ranges::none_of(block.inputs, has_name(mask)) || tokens.fixed())
    return cannot(fmt::format("the mask of {} is not one of its inputs", block.name));

  const auto latent = options.absorb ? find_latent(block, types, attention) : std::nullopt;
  CachedBlock made{block, block, {}};
  made.prefill.name = "prefill_" + block.name;
  made.decode.name = "decode_" + block.name;
  if (latent) {
    TensorType type = types.find(latent->rotated_key.name)->second;  // [batch, 1, tokens, rope]
    type.shape.back() = Dim(type.shape.back().size + static_cast<uint64_t>(latent->rank));
    made.caches = {{"latent", type}};
    for (Node& node : latent_row(*latent, "present_latent")) made.prefill.nodes.push_back(std::move(node));
    made.prefill.results.push_back("present_latent");
  } else {
    made.caches = {{"key", types.find(attention.inputs[1].name)->second},
                   {"value", types.find(attention.inputs[2].name)->second}};
    for (const size_t i : {1, 2}) made.prefill.results.push_back(attention.inputs[i].name);
  }

  for (Parameter& input : made.decode.inputs)
    rename_axis(input.type, tokens, input.name == mask ? Dim(kKeys) : Dim(1));
  for (const Parameter& cache : made.caches) {
    made.decode.inputs.push_back({std::string(kPast) + cache.name, cache.type});
    rename_axis(made.decode.inputs.back().type, tokens, Dim("past"));
    made.decode.results.push_back(std::string(kPresent) + cache.name);
  }
  const std::vector<Node> nodes =
      latent ? absorbed_attention(*latent, attention) : attention_over_cache(attention);
  const auto place = made.decode.nodes.erase(made.decode.nodes.begin() + static_cast<std::ptrdiff_t>(at));
  made.decode.nodes.insert(place, nodes.begin(), nodes.end());
  drop_unused(made.decode);
  return made;
}

using CachedBlocks = std::map<std::string, CachedBlock>;  ///< by the name of the block they are made from

/// The entry without position_ids: they come from the mask.
Result<Block> with_own_positions(const Block& logits, std::string name, std::vector<Node> positions) {
  Block entry = logits;
  entry.name = std::move(name);
  const auto is_positions = [](const Parameter& input) { return input.name == "position_ids"; };
  if (std::erase_if(entry.inputs, is_positions) != 1 || entry.inputs.size() != 2 ||
      entry.inputs[0].name != "input_ids" || entry.inputs[1].name != "attention_mask" ||
      entry.inputs[0].type.rank() != 2 || entry.inputs[0].type.shape[1].fixed())
    return cannot("logits does not take input_ids, attention_mask and position_ids");
  for (const Node& node : entry.nodes)
    if (mixes_tokens(node) || node.op == "attention")
      return cannot(fmt::format("{} of logits reads other tokens", node.op));
  entry.nodes.insert(entry.nodes.begin(), positions.begin(), positions.end());
  return entry;
}

std::string of_layer(std::string_view kind, const std::string& cache, size_t layer) {
  return fmt::format("{}{}_{}", kind, cache, layer);
}

Result<Block> prefill_entry(const Block& logits, const CachedBlocks& blocks) {
  TANDEM_TRY(Block entry,
             with_own_positions(logits, "prefill",
                                {{"positions", {value("attention_mask")}, {}, {"position_ids"}, ""}}));
  size_t layer = 0, last = 0;
  for (size_t i = 0; i < entry.nodes.size(); ++i) {
    Node& node = entry.nodes[i];
    if (node.op != "call") continue;
    const CachedBlock& block = blocks.at(string_attribute(node, "block"));
    node.attributes["block"] = block.prefill.name;
    for (const Parameter& cache : block.caches) {
      node.outputs.push_back(of_layer(kPresent, cache.name, layer));
      entry.results.push_back(node.outputs.back());
    }
    ++layer;
    last = i;
  }
  // What follows the last layer is asked of the last token alone.
  const std::string hidden = entry.nodes[last].outputs[0], newest = hidden + "_last";
  for (size_t i = last + 1; i < entry.nodes.size(); ++i)
    for (Operand& operand : entry.nodes[i].inputs)
      if (!operand.is_weight && operand.name == hidden) operand.name = newest;
  entry.nodes.insert(entry.nodes.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                     {"last_tokens", {value(hidden)}, {{"count", int64_t{1}}}, {newest}, ""});
  return entry;
}

Result<Block> decode_entry(const Block& logits, const CachedBlocks& blocks) {
  TANDEM_TRY(
      Block entry,
      with_own_positions(
          logits, "decode",
          {{"positions", {value("attention_mask")}, {}, {"all_position_ids"}, ""},
           {"last_tokens", {value("all_position_ids")}, {{"count", int64_t{1}}}, {"position_ids"}, ""}}));
  entry.inputs[0].type.shape[1] = Dim(1);
  entry.inputs[1].type.shape[1] = Dim(kKeys);
  size_t layer = 0;
  for (Node& node : entry.nodes) {
    if (node.op != "call") continue;
    const CachedBlock& block = blocks.at(string_attribute(node, "block"));
    node.attributes["block"] = block.decode.name;
    const size_t own = block.decode.inputs.size() - block.caches.size();
    for (size_t i = 0; i < block.caches.size(); ++i) {
      const std::string past = of_layer(kPast, block.caches[i].name, layer);
      entry.inputs.push_back({past, block.decode.inputs[own + i].type});
      node.inputs.push_back(value(past));
      node.outputs.push_back(of_layer(kPresent, block.caches[i].name, layer));
      entry.results.push_back(node.outputs.back());
    }
    ++layer;
  }
  return entry;
}

}  // namespace

Result<Contract> with_cached_entries(Contract contract, const CachedOptions& options) {
  const Block* logits = find_entry(contract, "logits");
  if (!logits) return cannot("there is no entry logits");
  CachedBlocks blocks;
  std::vector<std::string> order;
  for (const Node& node : logits->nodes) {
    if (node.op != "call") continue;
    const std::string& name = string_attribute(node, "block");
    if (blocks.contains(name)) continue;
    TANDEM_TRY(blocks[name], cached(contract, *find_block(contract, name), options));
    order.push_back(name);
  }
  if (blocks.empty()) return cannot("logits calls no block");
  TANDEM_TRY(Block prefill, prefill_entry(*logits, blocks));
  TANDEM_TRY(Block decode, decode_entry(*logits, blocks));
  for (const std::string& name : order) {
    contract.blocks.push_back(std::move(blocks[name].prefill));
    contract.blocks.push_back(std::move(blocks[name].decode));
  }
  contract.entries.push_back(std::move(prefill));
  contract.entries.push_back(std::move(decode));
  if (const Status fits = check(contract); !fits.ok()) return cannot(fits.error().message());
  return contract;
}

bool is_cache(std::string_view name) { return name.starts_with(kPast) || name.starts_with(kPresent); }

}  // namespace tandem
