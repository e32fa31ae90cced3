#include "contract/cached.h"

#include <algorithm>
#include <optional>
#include <set>

#include "contract/check.h"
#include "contract/ops/attention.h"

namespace tandem {
namespace {

constexpr std::string_view kPast = "past_", kPresent = "present_", kNew = "new_";
constexpr const char *kKeys = "keys", *kPastAxis = "past";

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

/// A block in its cached forms, and what its caches are called.
struct CachedBlock {
  Block prefill, decode, decode_two;
  std::optional<Block> step;
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

/// How the new token meets the cache: joined to it (decode), or beside it (step).
enum class Meeting { joined, beside };

/// What stands for attention, and the names of the block's results of that: the caches, or their new rows.
struct OverCache {
  std::vector<Node> nodes;
  std::vector<std::string> results;
};

Attributes scale_of(const Node& attention) { return {{"scale", attention.attributes.at("scale")}}; }

/// Attention on the latents themselves: all heads share one key, and its first lanes are the values.
OverCache absorbed_attention(const Latent& latent, const Node& attention, Meeting meeting) {
  const auto head_linear = [&](const std::string& x, int64_t begin, int64_t size, bool transpose,
                               const std::string& y) {
    const Attributes attributes{
        {"layout", latent.layout}, {"begin", begin}, {"size", size}, {"transpose", transpose}};
    return Node{"head_linear", {value(x), latent.kernel}, attributes, {y}, ""};
  };
  const std::string row = std::string(kNew) + "latent";
  const Operand past = value(std::string(kPast) + "latent"),
                present = value(std::string(kPresent) + "latent");
  const Operand query = value("latent_query"), &mask = attention.inputs[3];
  OverCache over{latent_row(latent, row), {row}};
  over.nodes.push_back(
      head_linear(latent.q_nope.name, latent.key_begin, latent.key_size, true, "absorbed_query"));
  over.nodes.push_back({"concat", {value("absorbed_query"), latent.q_rope}, {}, {query.name}, ""});
  if (meeting == Meeting::joined) {
    over.results = {present.name};
    over.nodes.push_back(append("latent", value(row)));
    over.nodes.push_back(
        {"attention", {query, present, present, mask}, attention.attributes, {"latent_attended"}, ""});
  } else {
    over.nodes.push_back({"cached_attention",
                          {query, past, past, value(row), value(row), mask},
                          scale_of(attention),
                          {"latent_attended"},
                          ""});
  }
  over.nodes.push_back({"slice",
                        {value("latent_attended")},
                        {{"begin", int64_t{0}}, {"size", latent.rank}},
                        {"latent_mixed"},
                        ""});
  over.nodes.push_back(
      head_linear("latent_mixed", latent.value_begin, latent.value_size, false, attention.outputs[0]));
  over.nodes.back().tap = attention.tap;
  return over;
}

OverCache plain_attention(const Node& attention, Meeting meeting) {
  const Operand &key = attention.inputs[1], &row = attention.inputs[2];
  if (meeting == Meeting::beside) {
    const std::vector<Operand> inputs{
        attention.inputs[0], value(std::string(kPast) + "key"), value(std::string(kPast) + "value"), key, row,
        attention.inputs[3]};
    return {{{"cached_attention", inputs, scale_of(attention), attention.outputs, attention.tap}},
            {key.name, row.name}};
  }
  OverCache over{{append("key", key), append("value", row), attention}, {}};
  over.nodes[2].inputs[1] = value(std::string(kPresent) + "key");
  over.nodes[2].inputs[2] = value(std::string(kPresent) + "value");
  over.results = {over.nodes[2].inputs[1].name, over.nodes[2].inputs[2].name};
  return over;
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
  CachedBlock made{block, {}, {}, {}, {}};
  made.prefill.name = "prefill_" + block.name;
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

  const auto of_new_tokens = [&](std::string name, Meeting meeting, uint64_t count) {
    Block one = block;
    one.name = std::move(name);
    for (Parameter& input : one.inputs) {
      const Dim keys = meeting == Meeting::joined ? Dim(kKeys) : Dim(kPastAxis);
      rename_axis(input.type, tokens, input.name == mask ? keys : Dim(count));
    }
    for (const Parameter& cache : made.caches) {
      one.inputs.push_back({std::string(kPast) + cache.name, cache.type});
      rename_axis(one.inputs.back().type, tokens, Dim(kPastAxis));
    }
    const OverCache over =
        latent ? absorbed_attention(*latent, attention, meeting) : plain_attention(attention, meeting);
    const auto place = one.nodes.erase(one.nodes.begin() + static_cast<std::ptrdiff_t>(at));
    one.nodes.insert(place, over.nodes.begin(), over.nodes.end());
    one.results.insert(one.results.end(), over.results.begin(), over.results.end());
    drop_unused(one);
    return one;
  };
  made.decode = of_new_tokens("decode_" + block.name, Meeting::joined, 1);
  made.decode_two = of_new_tokens("decode_two_" + block.name, Meeting::joined, 2);
  const AttentionForm form = attention_form(attention);
  if (form.diagonal == 0 && !form.softmax_dtype)
    made.step = of_new_tokens("step_" + block.name, Meeting::beside, 1);
  return made;
}

using CachedBlocks = std::map<std::string, CachedBlock>;  ///< by the name of the block they are made from

/// What `logits` must be: input_ids, attention_mask and position_ids, and calls that alone read other tokens.
Status can_be_cut(const Block& logits) {
  const std::vector<Parameter>& in = logits.inputs;
  if (in.size() != 3 || in[0].name != "input_ids" || in[1].name != "attention_mask" ||
      in[2].name != "position_ids" || in[0].type.rank() != 2 || in[0].type.shape[1].fixed())
    return cannot("logits does not take input_ids, attention_mask and position_ids");
  for (const Node& node : logits.nodes)
    if (mixes_tokens(node) || node.op == "attention")
      return cannot(fmt::format("{} of logits reads other tokens", node.op));
  return {};
}

/// The entry without position_ids: they come from the mask.
Block with_own_positions(const Block& logits, std::string name, const std::vector<Node>& positions) {
  Block entry = logits;
  entry.name = std::move(name);
  std::erase_if(entry.inputs, [](const Parameter& input) { return input.name == "position_ids"; });
  entry.nodes.insert(entry.nodes.begin(), positions.begin(), positions.end());
  return entry;
}

std::string of_layer(std::string_view kind, const std::string& cache, size_t layer) {
  return fmt::format("{}{}_{}", kind, cache, layer);
}

/// The entry with caches among its results. What follows `hidden`, a value behind the last layer, is asked of
/// the last token alone.
Block that_fills_caches(Block entry, const CachedBlocks& blocks, const std::string& hidden) {
  size_t layer = 0;
  for (Node& node : entry.nodes) {
    if (node.op != "call") continue;
    const CachedBlock& block = blocks.at(string_attribute(node, "block"));
    node.attributes["block"] = block.prefill.name;
    for (const Parameter& cache : block.caches) {
      node.outputs.push_back(of_layer(kPresent, cache.name, layer));
      entry.results.push_back(node.outputs.back());
    }
    ++layer;
  }
  const std::string newest = hidden + "_last";
  for (Node& node : entry.nodes)
    for (Operand& operand : node.inputs)
      if (!operand.is_weight && operand.name == hidden) operand.name = newest;
  const auto made =
      std::ranges::find_if(entry.nodes, [&](const Node& node) { return node.outputs[0] == hidden; });
  entry.nodes.insert(made + 1, {"last_tokens", {value(hidden)}, {{"count", int64_t{1}}}, {newest}, ""});
  return entry;
}

std::string last_layer(const Block& entry) {
  std::string output;
  for (const Node& node : entry.nodes)
    if (node.op == "call") output = node.outputs[0];
  return output;
}

/// How an entry goes on from caches.
struct Going {
  Meeting meeting;
  uint64_t tokens;  ///< new ones of each row
  const Block& block(const CachedBlock& of) const {
    return meeting == Meeting::beside ? *of.step : tokens == 1 ? of.decode : of.decode_two;
  }
};

/// The entry for new tokens alone: every call gets its block for them, and the caches of its layer.
Block that_goes_on(Block entry, const CachedBlocks& blocks, const Going& going) {
  const bool joined = going.meeting == Meeting::joined;
  const Dim tokens = entry.inputs[0].type.shape[1];
  for (Parameter& input : entry.inputs)
    rename_axis(input.type, tokens,
                input.name == "attention_mask" ? Dim(joined ? kKeys : kPastAxis) : Dim(going.tokens));
  size_t layer = 0;
  for (Node& node : entry.nodes) {
    if (node.op != "call") continue;
    const CachedBlock& block = blocks.at(string_attribute(node, "block"));
    const Block& one = going.block(block);
    node.attributes["block"] = one.name;
    const size_t own = one.inputs.size() - block.caches.size();
    for (size_t i = 0; i < block.caches.size(); ++i) {
      const std::string& cache = block.caches[i].name;
      const std::string past = of_layer(kPast, cache, layer);
      entry.inputs.push_back({past, one.inputs[own + i].type});
      node.inputs.push_back(value(past));
      node.outputs.push_back(of_layer(joined ? kPresent : kNew, cache, layer));
      entry.results.push_back(node.outputs.back());
    }
    ++layer;
  }
  return entry;
}

/// Positions of all tokens, from the mask.
Block from_the_start(const Block& logits, std::string name) {
  return with_own_positions(logits, std::move(name),
                            {{"positions", {value("attention_mask")}, {}, {"position_ids"}, ""}});
}

/// Positions of the last tokens.
Block from_the_last(const Block& logits, std::string name, int64_t count) {
  return with_own_positions(
      logits, std::move(name),
      {{"positions", {value("attention_mask")}, {}, {"all_position_ids"}, ""},
       {"last_tokens", {value("all_position_ids")}, {{"count", count}}, {"position_ids"}, ""}});
}

Block named(Block entry, std::string name) {
  entry.name = std::move(name);
  return entry;
}

constexpr std::string_view kFinalNorm = "model.norm";
constexpr const char* kHidden = "hidden_states";

/// `logits` with what the final norm makes among its results, as hidden_states.
Result<Block> with_hidden_states(Block logits) {
  const auto norm = std::ranges::find(logits.nodes, kFinalNorm, &Node::tap);
  if (norm == logits.nodes.end()) return cannot("there is a draft, and no tap model.norm");
  const std::string before = norm->outputs[0];
  norm->outputs[0] = kHidden;
  for (Node& node : logits.nodes)
    for (Operand& operand : node.inputs)
      if (!operand.is_weight && operand.name == before) operand.name = kHidden;
  logits.results.push_back(kHidden);
  return logits;
}

/// What a loop with drafts needs.
Result<std::vector<Block>> drafting_entries(const Block& logits, const Block& draft,
                                            const CachedBlocks& blocks) {
  const Going two{Meeting::joined, 2};
  TANDEM_TRY(const Block trunk, with_hidden_states(logits));
  return std::vector{that_fills_caches(from_the_start(trunk, "prefill_hidden"), blocks, kHidden),
                     that_goes_on(from_the_last(trunk, "decode_two", 2), blocks, two),
                     that_fills_caches(named(draft, "prefill_draft"), blocks, last_layer(draft)),
                     that_goes_on(named(draft, "decode_draft"), blocks, two)};
}

}  // namespace

Result<Contract> with_cached_entries(Contract contract, const CachedOptions& options) {
  const Block *logits = find_entry(contract, "logits"), *draft = find_entry(contract, "draft");
  if (!logits) return cannot("there is no entry logits");
  CachedBlocks blocks;
  std::vector<std::string> order;
  for (const Block* entry : {logits, draft}) {
    if (!entry) continue;
    for (const Node& node : entry->nodes) {
      if (node.op != "call") continue;
      const std::string& name = string_attribute(node, "block");
      if (blocks.contains(name)) continue;
      TANDEM_TRY(blocks[name], cached(contract, *find_block(contract, name), options));
      order.push_back(name);
    }
  }
  if (blocks.empty()) return cannot("logits calls no block");
  TANDEM_CHECK(can_be_cut(*logits));
  const bool steps =
      std::ranges::all_of(blocks, [](const auto& item) { return item.second.step.has_value(); });
  std::vector<Block> entries{
      that_fills_caches(from_the_start(*logits, "prefill"), blocks, last_layer(*logits)),
      that_goes_on(from_the_last(*logits, "decode", 1), blocks, {Meeting::joined, 1})};
  if (steps) entries.push_back(that_goes_on(named(*logits, "step"), blocks, {Meeting::beside, 1}));
  if (draft) {
    TANDEM_TRY(std::vector<Block> more, drafting_entries(*logits, *draft, blocks));
    std::ranges::move(more, std::back_inserter(entries));
  }
  const bool drafts = draft != nullptr;
  for (const std::string& name : order) {
    CachedBlock& block = blocks[name];
    contract.blocks.push_back(std::move(block.prefill));
    contract.blocks.push_back(std::move(block.decode));
    if (steps) contract.blocks.push_back(std::move(*block.step));
    if (drafts) contract.blocks.push_back(std::move(block.decode_two));
  }
  std::ranges::move(entries, std::back_inserter(contract.entries));
  if (const Status fits = check(contract); !fits.ok()) return cannot(fits.error().message());
  return contract;
}

bool is_cache(std::string_view name) { return name.starts_with(kPast) || name.starts_with(kPresent); }

}  // namespace tandem
