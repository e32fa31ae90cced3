#include "verify/layer_level.h"

#include <algorithm>
#include <future>
#include <set>

#include "contract/check.h"
#include "contract/ops/route.h"
#include "verify/host_values.h"

namespace tandem {
namespace {

TokenMask mask_of(const Probe& probe, size_t token_axis = 1) {
  return {probe.batch, probe.tokens, probe.attention_mask, token_axis};
}

/// A side has nothing to say about that: the other model has no such layer or value, or none of that shape.
bool is_difference(const Error& error) {
  return error.kind == ErrorKind::invalid || error.kind == ErrorKind::not_equal;
}

/// What one side's layer was run on, and what came out.
struct Pass {
  HostTensors inputs;                  ///< hidden_states, attention_mask, position_ids
  HostTensors taps;                    ///< by tap name
  std::optional<HostTensor> chosen;    ///< of its router, i32 [batch, tokens, top_k]
  const HostTensors* exact = nullptr;  ///< float64 on the same inputs with the same experts, by value name
};

/// The experts of one token as a set.
std::set<int32_t> set_at(const std::vector<int32_t>& chosen, uint64_t token, uint64_t top_k) {
  return {chosen.begin() + static_cast<int64_t>(token * top_k),
          chosen.begin() + static_cast<int64_t>((token + 1) * top_k)};
}

class LayerComparison {
 public:
  explicit LayerComparison(const Sides& sides) : sides_(sides), stack_(*sides.stack) {}

  Result<LayerLevel> run(const std::vector<Probe>& probes) && {
    TANDEM_TRY(inside_, sees_inside(*sides_.other, stack_));
    level_.own_inputs = !inside_;
    name_results();
    for (const Probe& probe : probes) {
      TANDEM_CHECK(compare(probe));
    }
    for (LayerResult& layer : level_.layers)
      for (TapResult& tap : layer.taps) finish(tap, sides_.tolerance, Depth::layer);
    return std::move(level_);
  }

 private:
  void name_results() {
    const auto add_tap = [&](LayerResult& result, const std::string& tap) {
      result.taps.push_back({});
      result.taps.back().tap = tap;
      result.taps.back().hidden = !sides_.show(tap);
    };
    const auto single = [&](const TapPlace& place) {
      LayerResult result;
      result.layer = place.tap;
      add_tap(result, place.tap);
      level_.layers.push_back(std::move(result));
    };
    single(stack_.rotary);
    single(stack_.embedding);
    for (const LayerPlace& layer : stack_.layers) {
      LayerResult result;
      result.layer = layer.place;
      for (const TapPlace& tap : layer.taps) add_tap(result, tap.tap);
      if (!sides_.show(layer.input_tap))
        for (TapResult& tap : result.taps) tap.hidden = true;
      if (layer.route) result.routing.emplace();
      level_.layers.push_back(std::move(result));
    }
    single(stack_.norm);
    single(stack_.head);
  }

  Status compare(const Probe& probe) {
    const std::vector<std::string> names = tap_names(stack_);
    TANDEM_TRY(const HostTensors reference, sides_.reference->run("taps", probe.inputs(), {}));
    HostTensors other;
    if (!inside_) {
      TANDEM_TRY(other, sides_.other->run("taps", probe.inputs(), {}));
    }
    size_t at = 0;
    TANDEM_CHECK(outside(probe, stack_.rotary, {}, reference, other, level_.layers[at++]));
    TANDEM_CHECK(outside(probe, stack_.embedding, {}, reference, other, level_.layers[at++]));
    uint64_t moe_layer = 0;
    for (const LayerPlace& layer : stack_.layers) {
      TANDEM_CHECK(inside(probe, layer, moe_layer, reference, other, level_.layers[at++]));
      moe_layer += layer.route != nullptr;
    }
    const TapPlace& last = stack_.layers.back().taps.back();
    TANDEM_CHECK(outside(probe, stack_.norm, {&last}, reference, other, level_.layers[at++]));
    return outside(probe, stack_.head, {&stack_.norm}, reference, other, level_.layers[at++]);
  }

  /// A value of the entry itself, computed from the side's (or the reference's) values `from`.
  Status outside(const Probe& probe, const TapPlace& place, std::vector<const TapPlace*> from,
                 const HostTensors& reference, const HostTensors& others, LayerResult& result) {
    TapResult& tap = result.taps[0];
    for (const TapPlace* source : from) tap.hidden |= !sides_.show(source->tap);
    if (tap.hidden) return {};
    const auto given_by = [&](const HostTensors& taps) -> std::optional<HostTensors> {
      HostTensors given = probe.inputs();
      for (const TapPlace* source : from) {
        const auto value = taps.find(source->tap);
        if (value == taps.end()) return std::nullopt;
        given[entry_value(*source)] = as_float32(value->second);
      }
      return given;
    };
    const auto given = given_by(reference);
    const auto mine = reference.find(place.tap);
    if (!given || mine == reference.end()) return add_missing(tap, place.tap, sides_.name_of_reference());
    std::optional<HostTensor> found, exact, others_exact;
    if (inside_) {
      auto values = sides_.other->values("logits", Scope::entry, *given, {place.value});
      if (!values.ok() && is_difference(values.error())) return add_failure(tap, values.error());
      if (!values.ok()) return std::move(values).error();
      found = std::move(values.value().begin()->second);
    } else {
      const auto theirs = others.find(place.tap);
      const auto own = given_by(others);
      if (theirs == others.end() || !own) return add_missing(tap, place.tap, sides_.name_of_other());
      found = theirs->second;
      if (sides_.exact && !from.empty()) {
        TANDEM_TRY(others_exact, exact_value(*own, place.value));
      }
    }
    if (sides_.exact) {
      TANDEM_TRY(exact, exact_value(*given, place.value));
    }
    const double angle = place.tap == stack_.rotary.tap ? largest_position(probe) : 0;
    return compare_tap(probe, mine->second, *found, exact ? &*exact : nullptr,
                       others_exact ? &*others_exact : nullptr, place.token_axis, tap, angle);
  }

  /// The name of a tap's value in the entry "logits".
  std::string entry_value(const TapPlace& place) const {
    for (const Node& node : stack_.entry->nodes)
      if (node.tap == place.tap) return node.outputs[0];
    return place.value;
  }

  Result<std::optional<HostTensor>> exact_value(const HostTensors& given, const std::string& value) {
    TANDEM_TRY(HostTensors values, sides_.exact->values("logits", Scope::entry, given, {value}));
    return std::optional<HostTensor>(std::move(values.begin()->second));
  }

  Status inside(const Probe& probe, const LayerPlace& layer, uint64_t moe_layer, const HostTensors& reference,
                const HostTensors& others, LayerResult& result) {
    if (!sides_.show(layer.input_tap)) return {};
    const auto input = reference.find(layer.input_tap);
    if (input == reference.end())
      return add_missing(result.taps.back(), layer.input_tap, sides_.name_of_reference());
    Pass mine{inputs_of(probe, input->second), {}, {}, nullptr}, theirs;
    take(layer, reference, mine);
    // Float64 needs the reference alone, and is computed beside the other side.
    auto exact_running = std::async(std::launch::async, [&] { return exact_pass(layer, mine); });
    if (inside_) {
      theirs.inputs = mine.inputs;
      auto values = sides_.other->values(layer.entry, Scope::block, theirs.inputs, value_names(layer, false));
      if (!values.ok() && is_difference(values.error()))
        return add_failure(result.taps.back(), values.error());
      if (!values.ok()) return std::move(values).error();
      for (const TapPlace& tap : layer.taps) theirs.taps[tap.tap] = std::move(values.value().at(tap.value));
      if (layer.route) theirs.chosen = theirs.taps.at(layer.route_tap);
      TANDEM_CHECK(delivered(layer, theirs, result));
    } else {
      const auto own = others.find(layer.input_tap);
      if (own == others.end())
        return add_missing(result.taps.back(), layer.input_tap, sides_.name_of_other());
      theirs.inputs = inputs_of(probe, own->second);
      take(layer, others, theirs);
    }
    HostTensors exact_of_mine, exact_of_theirs;
    if (sides_.exact) {
      TANDEM_TRY(exact_of_mine, exact_running.get());
      mine.exact = theirs.exact = &exact_of_mine;
      if (!inside_ || !same_choice(mine, theirs)) {
        TANDEM_TRY(exact_of_theirs, exact_pass(layer, theirs));
        theirs.exact = &exact_of_theirs;
      }
    }
    if (layer.route && sides_.show(layer.route_tap)) {
      TANDEM_CHECK(compare_routing(probe, layer, moe_layer, mine, theirs, result));
    }
    for (size_t i = 0; i < layer.taps.size(); ++i) {
      const TapPlace& tap = layer.taps[i];
      if (tap.tap == layer.route_tap || result.taps[i].hidden) continue;
      const auto a = mine.taps.find(tap.tap), b = theirs.taps.find(tap.tap);
      if (a == mine.taps.end() || b == theirs.taps.end()) {
        TANDEM_CHECK(add_missing(result.taps[i], tap.tap,
                                 a == mine.taps.end() ? sides_.name_of_reference() : sides_.name_of_other()));
        continue;
      }
      const HostTensor* exact = mine.exact ? &mine.exact->at(tap.value) : nullptr;
      const HostTensor* others_exact =
          theirs.exact && theirs.exact != mine.exact ? &theirs.exact->at(tap.value) : nullptr;
      TANDEM_CHECK(
          compare_tap(probe, a->second, b->second, exact, others_exact, tap.token_axis, result.taps[i]));
    }
    return {};
  }

  /// The layer's result is what its signature returns, not what was looked at inside.
  Status delivered(const LayerPlace& layer, Pass& pass, LayerResult& result) {
    const std::string& output = find_entry(*sides_.contract, layer.entry)->results[0];
    HostTensors inputs = pass.inputs;
    TANDEM_TRY(inputs["hidden_states"], in_dtype(inputs["hidden_states"], sides_.other_compute));
    auto outputs = sides_.other->run(layer.entry, inputs, {output});
    if (!outputs.ok() && is_difference(outputs.error()))
      return add_failure(result.taps.back(), outputs.error());
    if (!outputs.ok()) return std::move(outputs).error();
    pass.taps[layer.taps.back().tap] = std::move(outputs.value().at(output));
    return {};
  }

  static HostTensors inputs_of(const Probe& probe, const HostTensor& hidden_states) {
    HostTensors inputs = probe.inputs();
    inputs.erase("input_ids");
    inputs["hidden_states"] = as_float32(hidden_states);
    return inputs;
  }

  static void take(const LayerPlace& layer, const HostTensors& taps, Pass& pass) {
    for (const TapPlace& tap : layer.taps)
      if (const auto value = taps.find(tap.tap); value != taps.end()) pass.taps[tap.tap] = value->second;
    if (!layer.route) return;
    const auto chosen = pass.taps.find(layer.route_tap);
    if (chosen != pass.taps.end() && chosen->second.dtype == DType::i32) pass.chosen = chosen->second;
  }

  static std::vector<std::string> value_names(const LayerPlace& layer, bool for_exact) {
    std::set<std::string> names;
    for (const TapPlace& tap : layer.taps) names.insert(tap.value);
    if (layer.route && for_exact) {
      names.insert(layer.route->inputs[0].name);
      for (const std::string& output : layer.route->outputs) names.insert(output);
    }
    return {names.begin(), names.end()};
  }

  /// Empty where there is no float64.
  Result<HostTensors> exact_pass(const LayerPlace& layer, const Pass& pass) {
    if (!sides_.exact) return HostTensors();
    HostTensors given = pass.inputs;
    if (layer.route && pass.chosen) given[forced_operand(*layer.route)] = *pass.chosen;
    return sides_.exact->values(layer.entry, Scope::block, given, value_names(layer, true));
  }

  static bool same_choice(const Pass& a, const Pass& b) {
    if (!a.chosen || !b.chosen) return !a.chosen && !b.chosen;
    return a.chosen->data == b.chosen->data;
  }

  /// Which tokens chose another set than float64 does from the same input, and by what margin.
  struct Choice {
    std::vector<int32_t> chosen;  ///< [batch, tokens, top_k]
    std::vector<int32_t> free;    ///< float64's own
    std::vector<float> margins;   ///< [batch, tokens]
  };
  Result<Choice> choice_of(const LayerPlace& layer, const Pass& pass) {
    Choice choice{values_of<int32_t>(*pass.chosen), {}, {}};
    const std::string& x = layer.route->inputs[0].name;
    const HostTensors given{{x, pass.exact->at(x)},
                            {forced_operand(*layer.route), filled_like(*pass.chosen, -1)}};
    TANDEM_TRY(const HostTensors outputs,
               sides_.exact->values(layer.entry, Scope::block, given,
                                    {layer.route->outputs[0], layer.route->outputs[2]}));
    choice.free = values_of<int32_t>(outputs.at(layer.route->outputs[0]));
    TANDEM_TRY(const std::vector<double> scores, doubles_of(outputs.at(layer.route->outputs[2])));
    const uint64_t experts = outputs.at(layer.route->outputs[2]).shape.back();
    for (uint64_t token = 0; token * experts < scores.size(); ++token)
      choice.margins.push_back(static_cast<float>(
          routing_margin(*layer.route, std::span<const double>(scores).subspan(token * experts, experts))));
    return choice;
  }

  Status compare_routing(const Probe& probe, const LayerPlace& layer, uint64_t moe_layer, const Pass& mine,
                         const Pass& theirs, LayerResult& result) {
    const auto tap = std::find_if(result.taps.begin(), result.taps.end(),
                                  [&](const TapResult& t) { return t.tap == layer.route_tap; });
    if (!mine.chosen || !theirs.chosen)
      return add_missing(*tap, layer.route_tap,
                         mine.chosen ? sides_.name_of_other() : sides_.name_of_reference());
    if (mine.chosen->shape != theirs.chosen->shape)
      return add_failure(*tap, not_equal("verify_c4", "one side chooses {}, the other {}",
                                         to_string(mine.chosen->shape), to_string(theirs.chosen->shape)));
    const uint64_t top_k = mine.chosen->shape.back();
    Choice a{values_of<int32_t>(*mine.chosen), {}, {}}, b{values_of<int32_t>(*theirs.chosen), {}, {}};
    if (sides_.exact) {
      TANDEM_TRY(a, choice_of(layer, mine));
      TANDEM_TRY(b, choice_of(layer, theirs));
    }
    RoutingResult& routing = *result.routing;
    count_experts(layer, routing);
    uint64_t mine_wrong = 0;
    for (uint64_t token = 0; token < probe.attention_mask.size(); ++token) {
      if (!probe.attention_mask[token]) continue;
      const std::set<int32_t> left = set_at(a.chosen, token, top_k), right = set_at(b.chosen, token, top_k);
      ++routing.tokens;
      ++tap->values;
      routing.same += left == right;
      for (const int32_t expert : left) bump(routing.reference, expert);
      for (const int32_t expert : right) {
        bump(routing.other, expert);
        if (left.contains(expert)) bump(routing.both, expert);
      }
      const NearTie tie{probe.name, token / probe.tokens, token % probe.tokens, moe_layer,
                        b.margins.empty() ? 0 : b.margins[token]};
      const bool wrong = sides_.exact ? right != set_at(b.free, token, top_k) : left != right;
      const bool reference_wrong = sides_.exact && left != set_at(a.free, token, top_k);
      if (wrong) (is_near(tie) ? routing.near_ties : routing.faults).push_back(tie);
      if (reference_wrong && a.margins[token] > sides_.tolerance.routing_margin) ++mine_wrong;
    }
    if (mine_wrong) {
      tap->verdict = Verdict::reference_disagrees;
      tap->failures.push_back(fmt::format(
          "{}: contract and reference disagree: the reference chooses other experts for {} tokens",
          probe.name, mine_wrong));
    }
    const auto here = [&](const NearTie& tie) { return tie.probe == probe.name; };
    const auto faults = std::count_if(routing.faults.begin(), routing.faults.end(), here);
    if (faults) {
      tap->verdict = std::max(tap->verdict, Verdict::different);
      tap->failures.push_back(
          fmt::format("{}: other experts for {} tokens, and not by a near tie", probe.name, faults));
    }
    return {};
  }

  bool is_near(const NearTie& tie) const {
    return sides_.exact && tie.margin <= sides_.tolerance.routing_margin;
  }
  static void bump(std::vector<uint64_t>& counts, int32_t expert) {
    if (expert >= 0 && static_cast<size_t>(expert) < counts.size()) ++counts[static_cast<size_t>(expert)];
  }
  /// The router's kernel says how many experts there are.
  void count_experts(const LayerPlace& layer, RoutingResult& routing) const {
    if (!routing.both.empty()) return;
    const auto types = infer_types(*sides_.contract, *layer.block);
    const uint64_t experts = types.ok() ? types.value().at(layer.route->outputs[2]).shape.back().size : 0;
    routing.reference.assign(experts, 0);
    routing.other = routing.both = routing.reference;
  }

  Status compare_tap(const Probe& probe, const HostTensor& mine, const HostTensor& theirs,
                     const HostTensor* exact, const HostTensor* others_exact, size_t token_axis,
                     TapResult& tap, double angle = 0) {
    auto distance = measure(mine, theirs, exact, others_exact, mask_of(probe, token_axis));
    if (!distance.ok() && is_difference(distance.error())) return add_failure(tap, distance.error());
    if (!distance.ok()) return distance.error();
    distance.value().angle = angle;
    add(tap, probe.name, distance.value());
    return {};
  }

  /// No frequency is above 1, so no angle of a rotary table is above this.
  static double largest_position(const Probe& probe) {
    int32_t largest = 0;
    for (size_t i = 0; i < probe.position_ids.size(); ++i)
      if (probe.attention_mask[i]) largest = std::max(largest, probe.position_ids[i]);
    return largest;
  }

  static Status add_missing(TapResult& tap, const std::string& name, std::string_view side) {
    TapResult found = missing_tap(name, side);
    tap.verdict = std::max(tap.verdict, found.verdict);
    tap.failures.push_back(std::move(found.failures[0]));
    return {};
  }
  static Status add_failure(TapResult& tap, const Error& error) {
    tap.verdict = std::max(tap.verdict, Verdict::different);
    tap.failures.push_back(error.text);
    return {};
  }

  const Sides& sides_;
  const LayerStack& stack_;
  bool inside_ = false;
  LayerLevel level_;
};

Json to_json(const NearTie& tie) {
  return Json{{"probe", tie.probe}, {"row", tie.row}, {"token", tie.token}, {"margin", tie.margin}};
}

Json to_json(const RoutingResult& routing) {
  constexpr size_t kShown = 50;
  Json json{
      {"tokens", routing.tokens},
      {"same", routing.same},
      {"near_ties", routing.near_ties.size()},
      {"faults", routing.faults.size()},
      {"first_near_ties", Json::array()},
      {"first_faults", Json::array()},
      {"experts", {{"reference", routing.reference}, {"other", routing.other}, {"both", routing.both}}}};
  for (size_t i = 0; i < std::min(kShown, routing.near_ties.size()); ++i)
    json["first_near_ties"].push_back(to_json(routing.near_ties[i]));
  for (size_t i = 0; i < std::min(kShown, routing.faults.size()); ++i)
    json["first_faults"].push_back(to_json(routing.faults[i]));
  return json;
}

}  // namespace

Result<bool> sees_inside(Engine& engine, const LayerStack& stack) {
  HostTensor positions{DType::i32, {1, 1}, std::vector<std::byte>(sizeof(int32_t))};
  const auto values =
      engine.values("logits", Scope::entry, {{"position_ids", positions}}, {stack.rotary.value});
  if (values.ok()) return true;
  if (values.error().kind == ErrorKind::unsupported || is_difference(values.error())) return false;
  return values.error();
}

bool LayerResult::equal() const {
  return !taps.empty() &&
         std::all_of(taps.begin(), taps.end(), [](const TapResult& tap) { return tap.equal(); });
}

bool LayerResult::hidden() const {
  return std::all_of(taps.begin(), taps.end(), [](const TapResult& tap) { return tap.hidden; });
}

uint64_t LayerLevel::values() const {
  uint64_t count = 0;
  for (const LayerResult& layer : layers)
    for (const TapResult& tap : layer.taps) count += tap.values;
  return count;
}

bool LayerLevel::passed() const {
  return failures.empty() && values() > 0 &&
         std::all_of(layers.begin(), layers.end(), [](const LayerResult& layer) { return layer.equal(); });
}

Json to_json(const LayerLevel& level) {
  Json json{{"equal", level.passed()},
            {"values", level.values()},
            {"own_inputs", level.own_inputs},
            {"failures", level.failures},
            {"layers", Json::array()}};
  for (const LayerResult& layer : level.layers) {
    Json entry{{"layer", layer.layer}, {"equal", layer.equal()}, {"taps", Json::array()}};
    for (const TapResult& tap : layer.taps) entry["taps"].push_back(to_json(tap));
    if (layer.routing) entry["routing"] = to_json(*layer.routing);
    json["layers"].push_back(std::move(entry));
  }
  return json;
}

Result<LayerLevel> compare_layers(const Sides& sides, const std::vector<Probe>& probes) {
  return LayerComparison(sides).run(probes);
}

}  // namespace tandem
