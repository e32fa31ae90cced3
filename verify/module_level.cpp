#include "verify/module_level.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>

namespace tandem {
namespace {

constexpr double kTiny = 1e-12;
const std::vector<std::string> kAll;

struct Place {
  std::string tap, value;
};

class ModuleComparison {
 public:
  explicit ModuleComparison(const Sides& sides) : sides_(sides) {
    const LayerStack& stack = *sides.stack;
    places_.push_back({stack.embedding.tap, stack.embedding.value});
    for (const Node& node : stack.entry->nodes)
      if (node.op == "call") places_.push_back({node.tap, node.outputs[0]});
    places_.push_back({stack.norm.tap, stack.norm.value});
    for (const Place& place : places_) {
      level_.taps.push_back({});
      level_.taps.back().tap = place.tap;
      level_.taps.back().hidden = !sides.show(place.tap);
      level_.depths.push_back({place.tap, 0, 0});
      values_.push_back(place.value);
    }
    for (const LayerPlace& layer : stack.layers)
      if (layer.route && sides.show(layer.route_tap)) routes_.push_back(layer.route_tap);
  }

  Result<ModuleLevel> run(const std::vector<Probe>& probes) && {
    TANDEM_TRY(inside_, sees_inside(*sides_.other, *sides_.stack));
    uint64_t longest = 0;
    for (const Probe& probe : probes) longest = std::max(longest, probe.tokens);
    for (const Probe& probe : probes) {
      TANDEM_CHECK(compare(probe, probe.tokens == longest && level_.positions.empty()));
    }
    for (TapResult& tap : level_.taps) finish(tap, sides_.tolerance, Depth::stack);
    std::optional<size_t> first;
    for (size_t i = 0; i < level_.taps.size() && !first; ++i)
      if (!level_.taps[i].equal()) first = i;
    level_.growth = growth_of(level_.depths, level_.positions, first);
    if (first) level_.jump_at = level_.taps[*first].tap;
    level_.forced_experts = !routes_.empty() && inside_;
    return std::move(level_);
  }

 private:
  Status compare(const Probe& probe, bool by_position) {
    std::vector<std::string> wanted = routes_;
    for (const Place& place : places_)
      if (sides_.show(place.tap)) wanted.push_back(place.tap);
    TANDEM_TRY(const HostTensors reference, sides_.reference->run("taps", probe.inputs(), wanted));
    const std::optional<HostTensor> forced = choices(reference);
    HostTensors other, exact, exact_of_other;
    // Float64 needs the reference's choices alone, and is computed beside the other side.
    auto exact_running = std::async(std::launch::async, [&]() -> Result<HostTensors> {
      if (!sides_.exact) return HostTensors();
      return stack_values(*sides_.exact, probe, forced);
    });
    if (inside_) {
      auto values = stack_values(*sides_.other, probe, forced);
      if (!values.ok() && values.error().kind == ErrorKind::invalid) {
        for (TapResult& tap : level_.taps) {
          tap.verdict = std::max(tap.verdict, Verdict::different);
          tap.failures.push_back(values.error().text);
        }
        return {};
      }
      if (!values.ok()) return std::move(values).error();
      other = std::move(values).value();
    } else {
      // A side that lists its taps has those; another may not know the names.
      const bool listed = !sides_.other_shows.taps.empty();
      TANDEM_TRY(HostTensors taps, sides_.other->run("taps", probe.inputs(), listed ? wanted : kAll));
      for (const Place& place : places_)
        if (const auto tap = taps.find(place.tap); tap != taps.end()) other[place.value] = tap->second;
      const std::optional<HostTensor> own = choices(taps);
      if (sides_.exact && own && (!forced || own->data != forced->data)) {
        exact_running.wait();  // an engine answers one call at a time
        TANDEM_TRY(exact_of_other, stack_values(*sides_.exact, probe, own));
      }
    }
    TANDEM_TRY(exact, exact_running.get());
    const TokenMask mask{probe.batch, probe.tokens, probe.attention_mask, 1};
    const auto find = [](const HostTensors& tensors, const std::string& name) {
      const auto found = tensors.find(name);
      return found == tensors.end() ? nullptr : &found->second;
    };
    for (size_t i = 0; i < places_.size(); ++i) {
      TapResult& tap = level_.taps[i];
      if (tap.hidden) continue;
      const HostTensor *mine = find(reference, places_[i].tap), *theirs = find(other, places_[i].value);
      if (!mine || !theirs) {
        TapResult lost =
            missing_tap(places_[i].tap, mine ? sides_.name_of_other() : sides_.name_of_reference());
        tap.verdict = std::max(tap.verdict, lost.verdict);
        tap.failures.push_back(std::move(lost.failures[0]));
        continue;
      }
      const HostTensor* e = find(exact, places_[i].value);
      const HostTensor* f = find(exact_of_other, places_[i].value);
      const auto distance = measure(*mine, *theirs, e, f, mask);
      if (!distance.ok() && distance.error().kind == ErrorKind::not_equal) {
        tap.verdict = std::max(tap.verdict, Verdict::different);
        tap.failures.push_back(distance.error().text);
        continue;
      }
      if (!distance.ok()) return distance.error();
      const TapDistance& d = distance.value();
      add(tap, probe.name, d);
      DepthError& depth = level_.depths[i];
      const double rms = std::max(d.rms, kTiny);
      depth.reference = std::max(depth.reference, d.reference_rms / rms);
      depth.other = std::max(depth.other, (d.has_exact ? d.other_rms : d.rms_error) / rms);
      if (by_position && i + 1 == places_.size()) {
        TANDEM_CHECK(add_positions(probe, *theirs, e ? (f ? *f : *e) : *mine, rms));
      }
    }
    return {};
  }

  Result<HostTensors> stack_values(Engine& engine, const Probe& probe,
                                   const std::optional<HostTensor>& forced) {
    HostTensors given = probe.inputs();
    if (forced) given["forced_experts"] = *forced;
    return engine.values(forced ? "logits_forced" : "logits", Scope::entry, given, values_);
  }

  /// The experts of every mixture layer, i32 [batch, moe_layers, tokens, top_k].
  std::optional<HostTensor> choices(const HostTensors& taps) const {
    if (routes_.empty()) return std::nullopt;
    std::vector<const HostTensor*> layers;
    for (const std::string& route : routes_) {
      const auto found = taps.find(route);
      if (found == taps.end() || found->second.dtype != DType::i32 || found->second.shape.size() != 3)
        return std::nullopt;
      layers.push_back(&found->second);
    }
    const Shape& one = layers[0]->shape;
    HostTensor all{DType::i32, {one[0], layers.size(), one[1], one[2]}, {}};
    const auto row = static_cast<int64_t>(one[1] * one[2] * sizeof(int32_t));
    for (int64_t batch = 0; batch < static_cast<int64_t>(one[0]); ++batch)
      for (const HostTensor* layer : layers)
        all.data.insert(all.data.end(), layer->data.begin() + batch * row,
                        layer->data.begin() + (batch + 1) * row);
    return all;
  }

  Status add_positions(const Probe& probe, const HostTensor& found, const HostTensor& expected, double rms) {
    level_.probe = probe.name;
    TANDEM_TRY(const std::vector<double> a, doubles_of(found));
    TANDEM_TRY(const std::vector<double> b, doubles_of(expected));
    const uint64_t width = probe.attention_mask.empty() ? 0 : a.size() / probe.attention_mask.size();
    for (uint64_t token = 0; token < probe.attention_mask.size(); ++token) {
      if (!probe.attention_mask[token]) continue;
      double sum = 0;
      for (uint64_t i = token * width; i < (token + 1) * width; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
      level_.positions.push_back({probe.position_ids[token],
                                  std::sqrt(sum / static_cast<double>(std::max<uint64_t>(1, width))) / rms});
    }
    return {};
  }

  const Sides& sides_;
  std::vector<Place> places_;
  std::vector<std::string> values_, routes_;
  bool inside_ = false;
  ModuleLevel level_;
};

double mean_of(std::span<const PositionError> errors) {
  double sum = 0;
  for (const PositionError& error : errors) sum += error.other;
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

}  // namespace

std::string_view name(Growth growth) {
  if (growth == Growth::steady) return "steady";
  return growth == Growth::jump ? "jump" : "with position";
}

Growth growth_of(const std::vector<DepthError>& depths, const std::vector<PositionError>& positions,
                 std::optional<size_t> first_out_of_line) {
  if (!first_out_of_line) return Growth::steady;
  const size_t quarter = positions.size() / 4;
  if (quarter > 0) {
    const std::span all(positions);
    const double early = mean_of(all.first(quarter)), late = mean_of(all.last(quarter));
    if (late > kPositionGrowth * std::max(early, kTiny)) return Growth::with_position;
  }
  const auto against_reference = [&](size_t i) {
    return depths[i].other / std::max(depths[i].reference, kTiny);
  };
  const size_t at = *first_out_of_line;
  if (at == 0 || against_reference(at) > kJump * std::max(1.0, against_reference(at - 1)))
    return Growth::jump;
  return Growth::steady;
}

bool ModuleLevel::passed() const {
  const auto compared = [](const TapResult& tap) { return tap.values > 0; };
  return std::any_of(taps.begin(), taps.end(), compared) &&
         std::all_of(taps.begin(), taps.end(), [](const TapResult& tap) { return tap.equal(); });
}

Json to_json(const ModuleLevel& level) {
  Json json{{"equal", level.passed()},
            {"growth", name(level.growth)},
            {"first_out_of_line", level.jump_at.empty() ? Json(nullptr) : Json(level.jump_at)},
            {"forced_experts", level.forced_experts},
            {"taps", Json::array()},
            {"depths", Json::array()},
            {"positions", {{"probe", level.probe}, {"errors", Json::array()}}}};
  for (const TapResult& tap : level.taps) json["taps"].push_back(to_json(tap));
  for (const DepthError& depth : level.depths)
    json["depths"].push_back({{"tap", depth.tap}, {"reference", depth.reference}, {"other", depth.other}});
  for (const PositionError& error : level.positions)
    json["positions"]["errors"].push_back({error.position, error.other});
  return json;
}

Result<ModuleLevel> compare_modules(const Sides& sides, const std::vector<Probe>& probes) {
  return ModuleComparison(sides).run(probes);
}

}  // namespace tandem
