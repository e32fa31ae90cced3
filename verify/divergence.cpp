#include "verify/divergence.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "contract/check.h"
#include "contract/ops/route.h"
#include "contract/text.h"

namespace tandem {
namespace {

/// Rounding to a narrow type in float64 and in float32 differs where a value lies on the edge between two:
/// such a fault explains a difference when less than this share of it is left.
constexpr double kRoundingLeft = 0.1;

std::string cause_of(const Hypothesis& hypothesis) {
  const auto rows = faults_named(hypothesis.fault);
  return rows.empty() ? hypothesis.fault : std::string(rows[0]->cause);
}

/// A fault explains a difference only if no more than this share of it is left: what rounding hides explains
/// nothing.
constexpr double kMustVanish = 0.25;

bool rounds(const Hypothesis& hypothesis) { return hypothesis.fault.starts_with("dtype"); }

/// A scope whose nodes can be run one by one: a block at its place, or the entry "logits".
struct Walk {
  Scope scope = Scope::entry;
  std::string entry;  ///< "layer_3" or "logits"
  std::string place;  ///< "model.layers.3" or ""
  const Block* block = nullptr;
  ValueTypes types;
  std::vector<const Node*> nodes;  ///< candidates, in order
  HostTensors values;              ///< float64's, and the scope's inputs
  HostTensors given;               ///< the scope's inputs alone
  std::string first_bad;           ///< value of the first tap out of line, where values cannot be seen
};

struct Judged {
  bool equal = false;
  double rms = 0;  ///< of (other - expected), the worst output's as a share of the value's RMS
};

class Search {
 public:
  Search(const Sides& sides, const Probe& probe, const DiagnosisInputs& inputs)
      : sides_(sides), probe_(probe), inputs_(inputs) {}

  /// Inside the layer whose result differs.
  Result<Divergence> in_layer(const LayerPlace& layer, const LayerResult& result) {
    Divergence found = start("layer", result);
    found.place = layer.place;
    TANDEM_TRY(const HostTensors reference,
               sides_.reference->run("taps", probe_.inputs(), wanted_taps(layer)));
    if (!reference.contains(layer.input_tap)) return found;
    TANDEM_TRY(const bool inside, sees_inside(*sides_.other, *sides_.stack));
    HostTensors others_taps;
    if (!inside) {
      TANDEM_TRY(others_taps, sides_.other->run("taps", probe_.inputs(), {}));
      if (!others_taps.contains(layer.input_tap)) return found;
    }
    const HostTensors& source = inside ? reference : others_taps;
    TANDEM_TRY(Walk walk, walk_of(layer, source));
    narrow(walk, layer, result);
    if (inside) {
      TANDEM_CHECK(walk_ops(walk, found));
      if (found.op.empty()) return found;
      TANDEM_CHECK(try_faults(walk, layer, found, nullptr));
    } else {
      if (walk.nodes.size() == 1) name_op(walk, *walk.nodes[0], found);
      TANDEM_CHECK(try_faults(walk, layer, found, &others_taps));
    }
    return found;
  }

  /// Outside the layers: the one node that makes the tap.
  Result<Divergence> outside(const TapPlace& place, const LayerResult& result) {
    Divergence found = start("layer", result);
    TANDEM_TRY(Walk walk, walk_of_entry());
    std::erase_if(walk.nodes, [&](const Node* node) { return node->outputs[0] != place.value; });
    TANDEM_TRY(const bool inside, sees_inside(*sides_.other, *sides_.stack));
    if (inside) {
      TANDEM_CHECK(walk_ops(walk, found));
      if (found.op.empty()) return found;
      TANDEM_CHECK(try_faults(walk, std::nullopt, found, nullptr));
      return found;
    }
    TANDEM_TRY(const HostTensors taps, sides_.other->run("taps", probe_.inputs(), {}));
    // The inputs of a side that cannot be given any are its own.
    for (const TapPlace* source : {&sides_.stack->embedding, &sides_.stack->norm})
      if (const auto own = taps.find(source->tap); own != taps.end())
        walk.values[source->value] = as_float32(own->second);
    const LayerPlace& last = sides_.stack->layers.back();
    for (const Node& node : walk.block->nodes)
      if (node.op == "call" && node.tap == last.taps.back().tap && taps.contains(node.tap))
        walk.values[node.outputs[0]] = as_float32(taps.at(node.tap));
    if (walk.nodes.size() == 1) name_op(walk, *walk.nodes[0], found);
    TANDEM_CHECK(try_faults(walk, std::nullopt, found, &taps));
    return found;
  }

  /// The layers are each right: the entry's own nodes, calls included.
  Result<Divergence> in_entry(const ModuleLevel& modules) {
    Divergence found;
    found.level = "module";
    found.tap = modules.jump_at;
    found.probe = probe_.name;
    TANDEM_TRY(Walk walk, walk_of_entry());
    TANDEM_TRY(const bool inside, sees_inside(*sides_.other, *sides_.stack));
    if (!inside) return found;
    TANDEM_CHECK(walk_ops(walk, found));
    if (!found.op.empty()) {
      TANDEM_CHECK(try_faults(walk, std::nullopt, found, nullptr));
    }
    return found;
  }

 private:
  Divergence start(std::string level, const LayerResult& result) const {
    Divergence found;
    found.level = std::move(level);
    const auto first = std::find_if(result.taps.begin(), result.taps.end(),
                                    [](const TapResult& tap) { return !tap.equal(); });
    if (first != result.taps.end()) found.tap = first->tap;
    found.probe = probe_.name;
    return found;
  }

  static std::vector<std::string> wanted_taps(const LayerPlace& layer) {
    std::vector<std::string> names{layer.input_tap};
    if (layer.route) names.push_back(layer.route_tap);
    return names;
  }

  Result<Walk> walk_of(const LayerPlace& layer, const HostTensors& source) {
    Walk walk{Scope::block, layer.entry, layer.place, layer.block, {}, {}, {}, {}, {}};
    TANDEM_TRY(walk.types, infer_types(*sides_.contract, *layer.block));
    HostTensors given = probe_.inputs();
    given.erase("input_ids");
    given["hidden_states"] = as_float32(source.at(layer.input_tap));
    if (layer.route)
      if (const auto chosen = source.find(layer.route_tap); chosen != source.end())
        given[forced_operand(*layer.route)] = chosen->second;
    std::vector<std::string> names;
    for (const Node& node : layer.block->nodes) {
      walk.nodes.push_back(&node);
      names.insert(names.end(), node.outputs.begin(), node.outputs.end());
    }
    for (const Parameter& input : layer.block->inputs)
      if (!given.contains(input.name)) names.push_back(input.name);
    return with_values(std::move(walk), std::move(given), names);
  }

  Result<Walk> walk_of_entry() {
    Walk walk{Scope::entry, "logits", "", sides_.stack->entry, {}, {}, {}, {}, {}};
    TANDEM_TRY(walk.types, infer_types(*sides_.contract, *walk.block));
    std::vector<std::string> names;
    for (const Node& node : walk.block->nodes) {
      walk.nodes.push_back(&node);
      names.insert(names.end(), node.outputs.begin(), node.outputs.end());
    }
    return with_values(std::move(walk), probe_.inputs(), names);
  }

  /// What float64 computes, as the float32 that both sides are given.
  Result<Walk> with_values(Walk walk, HostTensors given, const std::vector<std::string>& names) {
    TANDEM_TRY(const HostTensors exact, sides_.exact->values(walk.entry, walk.scope, given, names));
    walk.given = given;
    for (const Parameter& input : walk.block->inputs)
      if (const auto value = exact.find(input.name); value != exact.end())
        walk.given[input.name] = as_float32(value->second);
    walk.values = std::move(given);
    for (const auto& [name, value] : exact) walk.values[name] = as_float32(value);
    return walk;
  }

  /// A node's operands, and the inputs of its scope in case the other side reads something else.
  static HostTensors operands(const Walk& walk, const Node& node) {
    HostTensors given = walk.given;
    for (const Operand& operand : node.inputs)
      if (!operand.is_weight) given[operand.name] = walk.values.at(operand.name);
    return given;
  }

  /// One output against another: is it as close to `expected` as float32 arithmetic is?
  Result<Judged> compare(const Walk& walk, const std::string& value, const HostTensor& other,
                         const HostTensor& expected, const HostTensor* float32,
                         const HostTensor* float64 = nullptr,
                         const std::vector<int32_t>* mask = nullptr) const {
    const HostTensor& reference = float32 ? *float32 : expected;
    // The float32 engine's error is its distance from its own float64.
    const auto distance =
        measure(reference, other, float64 ? float64 : &expected, float64 ? &expected : nullptr,
                {probe_.batch, probe_.tokens, mask ? *mask : probe_.attention_mask,
                 token_axis(walk.types.at(value))});
    if (!distance.ok() && distance.error().kind == ErrorKind::not_equal) return Judged{false, HUGE_VAL};
    if (!distance.ok()) return distance.error();
    TapDistance d = distance.value();
    const double share = d.not_finite ? HUGE_VAL : d.other_rms / std::max(d.rms, 1e-300);
    if (float64) {  // what float32 may be off grows with the values that the fault makes
      TANDEM_TRY(const TapDistance own,
                 measure(expected, expected, nullptr, nullptr,
                         {probe_.batch, probe_.tokens, mask ? *mask : probe_.attention_mask,
                          token_axis(walk.types.at(value))}));
      const double scale = d.rms > 0 ? std::max(1.0, own.rms / d.rms) : 1;
      for (double* bar : {&d.reference_max, &d.reference_rms, &d.rms, &d.max_abs}) *bar *= scale;
    }
    return Judged{judge(d, sides_.tolerance, Depth::stack).verdict == Verdict::equal, share};
  }

  struct NodeRun {
    HostTensors given;
    HostTensors other, exact, float32;
    std::vector<int32_t> mask;  ///< real tokens; of a router, those whose choice is no near tie
  };

  /// What a node is given; a router chooses freely.
  static HostTensors inputs_of(const Walk& walk, const Node& node) {
    HostTensors given = operands(walk, node);
    if (node.op == "route") given[forced_operand(node)] = filled_like(given.at(forced_operand(node)), -1);
    return given;
  }

  /// Routers name their experts in any order: by number, their weights with them. Float64's scores say which
  /// choices are near ties.
  Status canonical_choice(const Node& node, NodeRun& run) const {
    if (node.op != "route") return {};
    const HostTensor& scores = run.exact.at(node.outputs[2]);
    TANDEM_TRY(const std::vector<double> values, doubles_of(scores));
    const uint64_t experts = scores.shape.back();
    for (uint64_t token = 0; token < run.mask.size() && (token + 1) * experts <= values.size(); ++token)
      if (routing_margin(node, std::span<const double>(values).subspan(token * experts, experts)) <=
          static_cast<double>(sides_.tolerance.routing_margin))
        run.mask[token] = 0;
    for (HostTensors* tensors : {&run.other, &run.exact, &run.float32}) {
      TANDEM_CHECK(sort_slots(node, *tensors));
    }
    return {};
  }
  static Status sort_slots(const Node& node, HostTensors& tensors) {
    const auto chosen = tensors.find(node.outputs[0]), weights = tensors.find(node.outputs[1]);
    if (chosen == tensors.end()) return {};
    TANDEM_TRY(const std::vector<double> ids, doubles_of(chosen->second));
    std::vector<double> shares(ids.size(), 0);
    if (weights != tensors.end()) {
      TANDEM_TRY(shares, doubles_of(weights->second));
    }
    if (chosen->second.shape.empty() || shares.size() != ids.size()) return {};
    const uint64_t top_k = chosen->second.shape.back();
    std::vector<std::pair<double, double>> slots(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) slots[i] = {ids[i], shares[i]};
    for (size_t i = 0; top_k > 0 && i + top_k <= slots.size(); i += top_k)
      std::sort(slots.begin() + static_cast<int64_t>(i), slots.begin() + static_cast<int64_t>(i + top_k));
    std::vector<double> sorted_ids, sorted_shares;
    for (const auto& [id, share] : slots) {
      sorted_ids.push_back(id);
      sorted_shares.push_back(share);
    }
    chosen->second = tensor_of(DType::f64, chosen->second.shape, sorted_ids);
    if (weights != tensors.end())
      weights->second = tensor_of(DType::f64, weights->second.shape, sorted_shares);
    return {};
  }
  Result<std::optional<NodeRun>> run_node(const Walk& walk, const Node& node) {
    NodeRun run{inputs_of(walk, node), {}, {}, {}, probe_.attention_mask};
    auto other = sides_.other->values(walk.entry, walk.scope, run.given, node.outputs);
    if (!other.ok() && other.error().kind == ErrorKind::invalid) return std::optional<NodeRun>();
    if (!other.ok()) return std::move(other).error();
    run.other = std::move(other).value();
    return expected_of(walk, node, std::move(run));
  }

  Result<std::optional<NodeRun>> expected_of(const Walk& walk, const Node& node, NodeRun run) {
    TANDEM_TRY(run.exact, sides_.exact->values(walk.entry, walk.scope, run.given, node.outputs));
    if (inputs_.float32) {
      TANDEM_TRY(run.float32, inputs_.float32->values(walk.entry, walk.scope, run.given, node.outputs));
    }
    TANDEM_CHECK(canonical_choice(node, run));
    return std::optional<NodeRun>(std::move(run));
  }

  Result<Judged> judge_node(const Walk& walk, const Node& node, const NodeRun& run,
                            const HostTensors& expected) {
    Judged all{true, 0};
    for (const std::string& output : node.outputs) {
      if (!run.other.contains(output)) continue;
      const HostTensor* float32 = inputs_.float32 ? &run.float32.at(output) : nullptr;
      const bool edited = &expected != &run.exact;
      TANDEM_TRY(const Judged one, compare(walk, output, run.other.at(output), expected.at(output), float32,
                                           edited ? &run.exact.at(output) : nullptr, &run.mask));
      all.equal &= one.equal;
      all.rms = std::max(all.rms, one.rms);
    }
    return all;
  }

  /// Every node with float64's inputs: the first one out of line is the op.
  Status walk_ops(Walk& walk, Divergence& found) {
    for (const Node* node : walk.nodes) {
      TANDEM_TRY(const std::optional<NodeRun> run, run_node(walk, *node));
      bool equal = false;
      if (run) {
        TANDEM_TRY(const Judged judged, judge_node(walk, *node, *run, run->exact));
        equal = judged.equal;
      }
      if (equal) continue;
      if (found.op.empty()) {
        name_op(walk, *node, found);
        located_ = node;
      } else {
        found.also.push_back(fmt::format("op out of line as well: {} ({})", node->outputs[0], node->op));
      }
    }
    if (located_) walk.nodes = {located_};
    return {};
  }

  void name_op(const Walk& walk, const Node& node, Divergence& found) const {
    found.op = node.op;
    found.value = node.outputs[0];
    found.module = module_of({*sides_.contract, *walk.block, walk.place, node, walk.types, inputs_.context});
  }

  /// The nodes from the last good taps to the first bad one: those before are right, those behind get wrong
  /// inputs.
  static void narrow(Walk& walk, const LayerPlace& layer, const LayerResult& result) {
    size_t first = 0;
    while (first < result.taps.size() && result.taps[first].equal()) ++first;
    if (first >= layer.taps.size()) return;
    walk.first_bad = layer.taps[first].value;
    const auto end = std::find(walk.nodes.begin(), walk.nodes.end(), layer.taps[first].node);
    std::set<const Node*> good;         // those that a side does not show say nothing
    for (size_t i = 0; i < first; ++i)  // and a router's tap says whom it chose, not with what weights
      if (!result.taps[i].hidden && layer.taps[i].node->op != "route") good.insert(layer.taps[i].node);
    // Nodes without a tap between earlier taps (heads, rotary) may be at fault too, so long as no tap
    // followed.
    std::set<std::string> feeding{layer.taps[first].node->outputs[0]};
    std::vector<const Node*> nodes;
    for (auto node = end;; --node) {
      const bool needed = std::any_of((*node)->outputs.begin(), (*node)->outputs.end(),
                                      [&](const std::string& name) { return feeding.contains(name); });
      if (needed && !good.contains(*node)) {
        nodes.push_back(*node);
        for (const Operand& operand : (*node)->inputs) feeding.insert(operand.name);
      }
      if (node == walk.nodes.begin()) break;
    }
    std::reverse(nodes.begin(), nodes.end());
    walk.nodes = std::move(nodes);
  }

  Status set_edit(const Walk& walk, const Hypothesis& hypothesis) {
    HostTensors weights;
    for (const WeightEdit& edit : hypothesis.weights) {
      std::vector<HostTensor> sources;
      for (const std::string& source : edit.sources) {
        TANDEM_TRY(sources.emplace_back(), inputs_.weight(source));
      }
      TANDEM_TRY(HostTensor made, edit.make(sources));
      weights.emplace(edit.weight, std::move(made));
    }
    const Contract edited = with_hypothesis(*sides_.contract, walk.block->name, walk.place, hypothesis);
    return sides_.exact->edit(print(edited), weights);
  }

  /// The taps of a layer with the edit in force against the other side's.
  struct Vanishing {
    bool all = false;    ///< no tap is out of line
    bool first = false;  ///< none up to the first that was: later ones may have a fault of their own
    double left = HUGE_VAL, first_left = HUGE_VAL;  ///< of the worst tap, of the first that was out of line
  };
  Result<Vanishing> layer_vanishes(const Walk& walk, const LayerPlace& layer, const HostTensors& others,
                                   const HostTensors& float64, const HostTensors& float32, bool rounded) {
    std::vector<std::string> names;
    for (const TapPlace& tap : layer.taps)
      if (tap.tap != layer.route_tap) names.push_back(tap.value);
    auto expected = sides_.exact->values(walk.entry, walk.scope, walk.given, names);
    if (!expected.ok()) return Vanishing();
    bool all = true, any = false, passed_first = false;
    Vanishing found{false, true, 0, HUGE_VAL};
    for (const std::string& name : names) {
      if (!others.contains(name)) continue;
      const HostTensor* narrow = float32.contains(name) ? &float32.at(name) : nullptr;
      TANDEM_TRY(const Judged now,
                 compare(walk, name, others.at(name), expected.value().at(name), narrow, &float64.at(name)));
      TANDEM_TRY(const Judged before, compare(walk, name, others.at(name), float64.at(name), narrow));
      const double share = before.rms > 0 ? now.rms / before.rms : 0;
      any |= !before.equal;
      if (!before.equal) found.left = std::max(found.left, share);
      const bool gone = now.equal || (rounded && !before.equal && share < kRoundingLeft);
      all &= gone;
      if (!passed_first) found.first &= gone;
      if (name == walk.first_bad) {
        passed_first = true;
        found.first_left = share;
      }
    }
    found.all = all && (any || !layer.route_tap.empty());
    found.first &= passed_first;
    return found;
  }

  Status try_faults(const Walk& walk, std::optional<LayerPlace> layer, Divergence& found,
                    const HostTensors* others_taps) {
    const Status tried = try_all(walk, layer, found, others_taps);
    const Status reset = sides_.exact->edit("", {});
    TANDEM_CHECK(tried);
    TANDEM_CHECK(reset);
    std::stable_sort(found.tried.begin(), found.tried.end(), [](const TriedFault& a, const TriedFault& b) {
      return std::pair(!a.explains, !a.explains_layer) < std::pair(!b.explains, !b.explains_layer);
    });
    if (found.tried.empty() || !found.tried[0].explains) return {};
    const TriedFault& best = found.tried[0];
    found.cause = best.cause;
    found.words = best.words;
    found.explains_layer = best.explains_layer;
    for (const TriedFault& other : found.tried)
      if (other.explains && other.explains_layer == best.explains_layer && other.words != best.words)
        found.also.push_back(
            fmt::format("cannot be told apart here from: {} ({})", other.cause, other.words));
    return {};
  }

  Status try_all(const Walk& walk, const std::optional<LayerPlace>& layer, Divergence& found,
                 const HostTensors* others_taps) {
    HostTensors others, float64, float32;  // the layer's taps without an edit, by value name
    if (layer) {
      TANDEM_CHECK(layer_values(walk, *layer, others_taps, others, float64, float32));
    }
    // Of a side whose ops are not seen, the op is that of the best explanation.
    bool named_for_layer = !found.op.empty();
    for (const Node* node : walk.nodes) {
      std::optional<NodeRun> run;
      Judged before{false, 0};
      if (!others_taps) {
        TANDEM_TRY(run, run_node(walk, *node));
        if (!run) return {};
        TANDEM_TRY(before, judge_node(walk, *node, *run, run->exact));
      } else if (!layer || node->op == "route") {
        TANDEM_TRY(run, run_tap(walk, *node, *others_taps));
        if (!run) return {};
        TANDEM_TRY(before, judge_node(walk, *node, *run, run->exact));
      }
      for (const Hypothesis& hypothesis :
           hypotheses_at({*sides_.contract, *walk.block, walk.place, *node, walk.types, inputs_.context})) {
        TriedFault tried{hypothesis.fault, cause_of(hypothesis), hypothesis.words, false, false, 1};
        if (const Status edited = set_edit(walk, hypothesis); !edited.ok()) {
          if (edited.error().kind == ErrorKind::bug) return edited;
          continue;  // cannot be said of this model
        }
        const bool rounded = rounds(hypothesis);
        if (run) {
          auto expected = sides_.exact->values(walk.entry, walk.scope, run->given, node->outputs);
          if (!expected.ok()) continue;
          if (node->op == "route") {
            TANDEM_CHECK(sort_slots(*node, expected.value()));
          }
          TANDEM_TRY(const Judged now, judge_node(walk, *node, *run, expected.value()));
          tried.left = before.rms > 0 ? now.rms / before.rms : 1;
          tried.explains = (now.equal && tried.left < kMustVanish) || (rounded && tried.left < kRoundingLeft);
        }
        if (layer && (!run || tried.explains)) {
          TANDEM_TRY(const Vanishing vanishes,
                     layer_vanishes(walk, *layer, others, float64, float32, rounded));
          tried.explains_layer = vanishes.all;
          if (!run) {
            // A fault planted everywhere stands in a layer twice: the first tap tells, as an op does.
            tried.explains = vanishes.first ? vanishes.first_left < kMustVanish
                                            : vanishes.all && vanishes.left < kMustVanish;
            tried.left = std::min(vanishes.left, vanishes.first_left);
          }
        } else if (!layer) {
          tried.explains_layer = tried.explains;
        }
        if (tried.explains && (found.op.empty() || (tried.explains_layer && !named_for_layer))) {
          name_op(walk, *node, found);
          named_for_layer = tried.explains_layer;
        }
        found.tried.push_back(std::move(tried));
      }
    }
    return {};
  }

  /// A node outside the layers of a side that cannot be looked into: what its tap says.
  Result<std::optional<NodeRun>> run_tap(const Walk& walk, const Node& node, const HostTensors& others_taps) {
    const auto tap = others_taps.find(node.tap);
    if (tap == others_taps.end()) return std::optional<NodeRun>();
    NodeRun run{inputs_of(walk, node), {}, {}, {}, probe_.attention_mask};
    run.other[node.outputs[0]] = tap->second;
    return expected_of(walk, node, std::move(run));
  }

  Status layer_values(const Walk& walk, const LayerPlace& layer, const HostTensors* others_taps,
                      HostTensors& others, HostTensors& float64, HostTensors& float32) {
    std::vector<std::string> names;
    for (const TapPlace& tap : layer.taps)
      if (tap.tap != layer.route_tap) names.push_back(tap.value);
    if (others_taps) {
      for (const TapPlace& tap : layer.taps)
        if (const auto value = others_taps->find(tap.tap); value != others_taps->end())
          others[tap.value] = value->second;
    } else {
      TANDEM_TRY(others, sides_.other->values(walk.entry, walk.scope, walk.given, names));
    }
    TANDEM_TRY(float64, sides_.exact->values(walk.entry, walk.scope, walk.given, names));
    if (inputs_.float32) {
      TANDEM_TRY(float32, inputs_.float32->values(walk.entry, walk.scope, walk.given, names));
    }
    return {};
  }

  const Sides& sides_;
  const Probe& probe_;
  const DiagnosisInputs& inputs_;
  const Node* located_ = nullptr;
};

/// The probe on which a result's first bad tap was worst.
const Probe& probe_of(const std::vector<Probe>& probes, const std::vector<TapResult>& taps) {
  const auto bad = std::find_if(taps.begin(), taps.end(), [](const TapResult& tap) { return !tap.equal(); });
  for (const Probe& probe : probes)
    if (bad != taps.end() && probe.name == bad->probe) return probe;
  // A tap without a distance (routing): the probe that its first line names.
  for (const Probe& probe : probes)
    if (bad != taps.end() && !bad->failures.empty() && bad->failures[0].starts_with(probe.name + ":"))
      return probe;
  return probes[0];
}

}  // namespace

Json to_json(const Divergence& divergence) {
  Json json{{"level", divergence.level}, {"tap", divergence.tap},
            {"place", divergence.place}, {"op", divergence.op},
            {"value", divergence.value}, {"module", divergence.module},
            {"probe", divergence.probe}, {"cause", divergence.cause},
            {"words", divergence.words}, {"explains_layer", divergence.explains_layer},
            {"also", divergence.also},   {"tried", Json::array()}};
  for (const TriedFault& tried : divergence.tried)
    json["tried"].push_back({{"fault", tried.fault},
                             {"cause", tried.cause},
                             {"words", tried.words},
                             {"explains", tried.explains},
                             {"explains_layer", tried.explains_layer},
                             {"left", std::isfinite(tried.left) ? Json(tried.left) : Json(nullptr)}});
  return json;
}

Result<std::optional<Divergence>> diagnose(const Sides& sides, const std::vector<Probe>& probes,
                                           const LayerLevel* layers, const ModuleLevel* modules,
                                           const DiagnosisInputs& inputs) {
  const LayerStack& stack = *sides.stack;
  if (layers) {
    const TapPlace* before[] = {&stack.rotary, &stack.embedding};
    const TapPlace* after[] = {&stack.norm, &stack.head};
    for (size_t i = 0; i < layers->layers.size(); ++i) {
      const LayerResult& result = layers->layers[i];
      if (result.equal()) continue;
      Search search(sides, probe_of(probes, result.taps), inputs);
      const size_t layer = i - std::size(before);
      Result<Divergence> found = i < std::size(before) ? search.outside(*before[i], result)
                                 : layer < stack.layers.size()
                                     ? search.in_layer(stack.layers[layer], result)
                                     : search.outside(*after[layer - stack.layers.size()], result);
      if (!found.ok()) return std::move(found).error();
      return std::optional<Divergence>(std::move(found).value());
    }
  }
  if (modules && !modules->passed()) {
    Search search(sides, probe_of(probes, modules->taps), inputs);
    TANDEM_TRY(Divergence found, search.in_entry(*modules));
    return std::optional<Divergence>(std::move(found));
  }
  return std::optional<Divergence>();
}

}  // namespace tandem
