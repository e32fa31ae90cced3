#include "verify/model_level.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <set>

#include "verify/host_values.h"

namespace tandem {
namespace {

constexpr double kNoBar = std::numeric_limits<double>::infinity();  // as an atol: all but the absolute bar

/// The named output, or an error if it is absent or of another type or shape. Axes of size 0 in `shape` may
/// have any size.
Result<const HostTensor*> expect(const HostTensors& outputs, const std::string& name, DType dtype,
                                 const Shape& shape) {
  const auto found = outputs.find(name);
  if (found == outputs.end()) return unavailable("verify_c4", "the engine gave no output {}", name);
  const HostTensor& tensor = found->second;
  bool same = tensor.dtype == dtype && tensor.shape.size() == shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i) same = shape[i] == 0 || shape[i] == tensor.shape[i];
  const Result<uint64_t> bytes = byte_count(tensor.dtype, tensor.shape);
  if (!same || !bytes.ok() || bytes.value() != tensor.data.size())
    return unavailable("verify_c4", "the engine's {} is {}{}, expected {}{}", name, tensor.dtype,
                       to_string(tensor.shape), dtype, to_string(shape));
  return &tensor;
}

/// Logits of one probe, [batch, tokens, vocab].
struct Logits {
  std::vector<float> values;
  uint64_t vocab = 0;
  std::span<const float> row(uint64_t index) const { return std::span(values).subspan(index * vocab, vocab); }
};

Result<Logits> run_logits(Engine& engine, const std::string& entry, const HostTensors& inputs,
                          const Probe& probe) {
  TANDEM_TRY(const HostTensors outputs, engine.run(entry, inputs, {"logits"}));
  TANDEM_TRY(const HostTensor* tensor, expect(outputs, "logits", DType::f32, {probe.batch, probe.tokens, 0}));
  if (tensor->shape[2] == 0) return unavailable("verify_c4", "the engine's logits are empty");
  return Logits{values_of<float>(*tensor), tensor->shape[2]};
}

double rms_at_real_tokens(const Probe& probe, const Logits& logits) {
  double sum = 0;
  uint64_t count = 0;
  for (uint64_t i = 0; i < probe.attention_mask.size(); ++i) {
    if (!probe.attention_mask[i]) continue;
    for (const float value : logits.row(i))
      sum += std::isfinite(value) ? static_cast<double>(value) * value : 0;
    count += logits.vocab;
  }
  return count ? std::sqrt(sum / static_cast<double>(count)) : 0;
}

/// The id that follows a token, PyTorch's label of it: none where a row's real ids end. (The first real id of
/// a row padded on the left has no real token before it, and counts as little as that of any other row.)
int32_t label_of(const Probe& probe, uint64_t i) {
  const bool last = (i + 1) % probe.tokens == 0;
  return !last && probe.attention_mask[i + 1] ? probe.input_ids[i + 1] : kIgnoredLabel;
}

/// One probe: the sums, and KL of each real token in order.
struct Measured {
  Metrics metrics;
  std::vector<TokenResult> tokens;  ///< without ids
};

Measured measure(const Probe& probe, const Logits& reference, const Logits& other,
                 const Tolerance& tolerance) {
  const double gap = tolerance.top1_gap * std::max(1.0, rms_at_real_tokens(probe, reference));
  Measured measured;
  for (uint64_t i = 0; i < probe.attention_mask.size(); ++i) {
    if (!probe.attention_mask[i]) continue;
    Metrics token;
    add_row(token, reference.row(i), other.row(i), gap, label_of(probe, i));
    measured.metrics += token;
    measured.tokens.push_back({probe.name, i / probe.tokens, i % probe.tokens, probe.position_ids[i],
                               token.not_finite ? kNoBar : token.max_kl});
  }
  return measured;
}

/// The tokens of the largest KL first, as many as are shown.
void keep_worst(std::vector<TokenResult>& tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const TokenResult& a, const TokenResult& b) { return a.kl > b.kl; });
  tokens.resize(std::min(tokens.size(), kWorstTokens));
}

std::vector<PositionKl> first_row(const std::vector<TokenResult>& tokens) {
  std::vector<PositionKl> positions;
  for (const TokenResult& token : tokens)
    if (token.row == 0) positions.push_back({token.position, token.kl});
  return positions;
}

/// The reference's routing of one probe.
struct Routing {
  Shape shape;                   ///< [batch, moe_layers, tokens, top_k]
  std::vector<int32_t> experts;  ///< of that shape
  std::vector<float> margins;    ///< [batch, moe_layers, tokens]
};

Result<Routing> routing_of(Engine& reference, const Probe& probe, const ModelLevelOptions& options) {
  TANDEM_TRY(const HostTensors outputs,
             reference.run("logits", probe.inputs(), {"experts", "router_margin"}));
  const Shape shape{probe.batch, options.moe_layers, probe.tokens, options.num_experts_per_tok};
  TANDEM_TRY(const HostTensor* experts, expect(outputs, "experts", DType::i32, shape));
  TANDEM_TRY(const HostTensor* margins,
             expect(outputs, "router_margin", DType::f32, {shape[0], shape[1], shape[2]}));
  return Routing{shape, values_of<int32_t>(*experts), values_of<float>(*margins)};
}

bool is_real(const Probe& probe, const NearTie& tie) {
  return probe.attention_mask[tie.row * probe.tokens + tie.token];
}

std::vector<NearTie> near_ties_of(const Probe& probe, const Routing& routing, float margin) {
  std::vector<NearTie> ties;
  for (uint64_t i = 0; i < routing.margins.size(); ++i) {
    const uint64_t token = i % probe.tokens, layer = i / probe.tokens % routing.shape[1];
    const NearTie tie{probe.name, i / probe.tokens / routing.shape[1], token, layer, routing.margins[i]};
    if (routing.margins[i] < margin && is_real(probe, tie)) ties.push_back(tie);
  }
  return ties;
}

/// The reference's experts at near ties; -1, which lets the other side choose, everywhere else.
HostTensor forced_experts(const Probe& probe, const Routing& routing, const std::vector<NearTie>& ties) {
  std::vector<int32_t> forced(routing.experts.size(), -1);
  const uint64_t layers = routing.shape[1], top_k = routing.shape[3];
  for (const NearTie& tie : ties) {
    const uint64_t at = ((tie.row * layers + tie.moe_layer) * probe.tokens + tie.token) * top_k;
    std::copy_n(routing.experts.begin() + at, top_k, forced.begin() + at);
  }
  HostTensor tensor{DType::i32, routing.shape, std::vector<std::byte>(forced.size() * sizeof(int32_t))};
  if (!forced.empty()) std::memcpy(tensor.data.data(), forced.data(), tensor.data.size());
  return tensor;
}

uint64_t tokens_in(const std::vector<NearTie>& ties) {
  std::set<std::pair<uint64_t, uint64_t>> tokens;
  for (const NearTie& tie : ties) tokens.insert({tie.row, tie.token});
  return tokens.size();
}

/// The float64 logits of one probe, [batch, tokens, vocab].
Result<std::vector<double>> run_exact(Engine& exact, const std::string& entry, const HostTensors& inputs,
                                      const Probe& probe, uint64_t vocab) {
  TANDEM_TRY(const HostTensors outputs, exact.run(entry, inputs, {"logits"}));
  TANDEM_TRY(const HostTensor* tensor,
             expect(outputs, "logits", DType::f64, {probe.batch, probe.tokens, vocab}));
  return values_of<double>(*tensor);
}

FromExact distances(const Probe& probe, const Logits& reference, const Logits& other,
                    const std::vector<double>& exact) {
  FromExact d;
  double count = 0;
  const auto add = [](double error, double& max, double& sum) {
    max = std::max(max, std::abs(error));
    sum += error * error;
  };
  for (uint64_t i = 0; i < probe.attention_mask.size(); ++i) {
    if (!probe.attention_mask[i]) continue;
    for (uint64_t j = i * reference.vocab; j < (i + 1) * reference.vocab; ++j) {
      add(reference.values[j] - exact[j], d.reference_max, d.reference_rms);
      add(other.values[j] - exact[j], d.other_max, d.other_rms);
      d.logits_rms += exact[j] * exact[j];
      ++count;
    }
  }
  for (double* sum : {&d.reference_rms, &d.other_rms, &d.logits_rms})
    *sum = std::sqrt(*sum / std::max(1.0, count));
  return d;
}

class ModelComparison {
 public:
  ModelComparison(Engine& reference, Engine& other, const ModelLevelOptions& options)
      : reference_(reference), other_(other), options_(options) {
    level_.tolerance = tolerance_of(options.lowest);
    level_.atol = options.atol;
  }

  Result<ModelLevel> run(const std::vector<Probe>& probes) && {
    for (const Probe& probe : probes) {
      TANDEM_CHECK(compare(probe));
    }
    return std::move(level_);
  }

 private:
  Status compare(const Probe& probe) {
    // One engine may stand on both sides; it answers one call at a time.
    auto running = std::async(&reference_ == &other_ ? std::launch::deferred : std::launch::async,
                              [&] { return run_logits(other_, "logits", probe.inputs(), probe); });
    auto of_reference = run_logits(reference_, "logits", probe.inputs(), probe);
    auto of_other = running.get();
    TANDEM_TRY(const Logits expected, std::move(of_reference));
    TANDEM_TRY(const Logits found, std::move(of_other));
    if (expected.vocab != found.vocab)
      return not_equal("verify_c4", "one side has {} logits a token, the other {}", expected.vocab,
                       found.vocab);
    ProbeResult result;
    result.name = probe.name;
    result.prompts = probe.batch;
    Measured measured = measure(probe, expected, found, level_.tolerance);
    judge(result, measured.metrics);
    std::optional<Logits> forced;
    if (!result.failures.empty() && options_.moe_layers && options_.reference_has_margins) {
      TANDEM_TRY(forced, run_forced(probe, result));
    }
    if (forced) {
      measured = measure(probe, expected, *forced, level_.tolerance);
      judge(result, measured.metrics);
    }
    TANDEM_CHECK(compare_exact(probe, expected, found, result));
    add_tokens(probe, expected, forced ? *forced : found, std::move(measured.tokens));
    level_.total += result.metrics;
    level_.probes.push_back(std::move(result));
    return {};
  }

  /// Where the bar on the difference alone failed: is the other side as close to float64 as the reference is?
  Status compare_exact(const Probe& probe, const Logits& expected, const Logits& found, ProbeResult& result) {
    const bool only_the_bar = failures(result.metrics, level_.tolerance, kNoBar).empty();
    if (result.failures.empty() || !only_the_bar || result.forced || level_.atol > 0 ||
        level_.tolerance.dtype != DType::f32 || !options_.start_exact)
      return {};
    if (!exact_) {
      TANDEM_TRY(exact_, options_.start_exact());
      if (!exact_) return {};
    }
    TANDEM_TRY(const std::vector<double> exact,
               run_exact(*exact_, "logits", probe.inputs(), probe, expected.vocab));
    result.exact = distances(probe, expected, found, exact);
    result.failures = failures(*result.exact);
    return {};
  }

  void add_tokens(const Probe& probe, const Logits& expected, const Logits& found,
                  std::vector<TokenResult> tokens) {
    if (probe.tokens > longest_) {
      longest_ = probe.tokens;
      level_.longest_probe = probe.name;
      level_.positions = thinned(first_row(tokens), kShownPositions);
    }
    keep_worst(tokens);
    for (TokenResult& token : tokens) {
      if (std::isinf(token.kl)) continue;
      const uint64_t at = token.row * probe.tokens + token.token;
      token.reference_id = static_cast<int32_t>(largest(expected.row(at), 1)[0]);
      token.other_id = static_cast<int32_t>(largest(found.row(at), 1)[0]);
    }
    level_.worst_tokens.insert(level_.worst_tokens.end(), tokens.begin(), tokens.end());
    keep_worst(level_.worst_tokens);
  }

  void judge(ProbeResult& result, const Metrics& metrics) {
    result.metrics = metrics;
    result.failures = failures(metrics, level_.tolerance, level_.atol);
  }

  /// A flipped near tie is told apart from a wrong weight: with the reference's experts there, all must be
  /// equal. Nothing where there are no near ties, or too many.
  Result<std::optional<Logits>> run_forced(const Probe& probe, ProbeResult& result) {
    TANDEM_TRY(const Routing routing, routing_of(reference_, probe, options_));
    const std::vector<NearTie> ties = near_ties_of(probe, routing, level_.tolerance.routing_margin);
    const uint64_t allowed = std::max<uint64_t>(
        1,
        static_cast<uint64_t>(level_.tolerance.routing_share * static_cast<double>(result.metrics.tokens)));
    if (ties.empty() || tokens_in(ties) > allowed) return std::optional<Logits>();
    HostTensors inputs = probe.inputs();
    inputs["forced_experts"] = forced_experts(probe, routing, ties);
    auto forced = run_logits(other_, "logits_forced", inputs, probe);
    if (!forced.ok() && forced.error().kind == ErrorKind::unsupported) {
      result.failures.push_back(fmt::format(
          "{} tokens hang on near ties, and the other side cannot be run with the reference's experts: {}",
          tokens_in(ties), forced.error().text));
      return std::optional<Logits>();
    }
    if (!forced.ok()) return std::move(forced).error();
    result.forced = true;
    level_.near_ties.insert(level_.near_ties.end(), ties.begin(), ties.end());
    return std::optional<Logits>(std::move(forced).value());
  }

  Engine& reference_;
  Engine& other_;
  Engine* exact_ = nullptr;
  uint64_t longest_ = 0;  ///< tokens of the longest probe so far
  const ModelLevelOptions& options_;
  ModelLevel level_;
};

Json measures(const Metrics& metrics) {
  return Json{{"compared", metrics.compared},
              {"tokens", metrics.tokens},
              {"max_abs_error", metrics.max_abs_error},
              {"mean_abs_error", metrics.mean_abs_error()},
              {"rms_error", metrics.rms_error()},
              {"nmse", metrics.nmse()},
              {"cosine", metrics.cosine()},
              {"kl", metrics.max_kl},
              {"mean_kl", metrics.mean_kl()},
              {"top1_agreement", metrics.top1_agreement()},
              {"top1_agreement_raw", metrics.top1_agreement_raw()},
              {"decided", metrics.decided},
              {"top5_agreement", metrics.top_k_agreement(0)},
              {"top10_agreement", metrics.top_k_agreement(1)},
              {"labels", metrics.labels},
              {"loss_reference", metrics.loss()},
              {"loss_other", metrics.loss_other()},
              {"loss_difference", metrics.loss_difference()},
              {"rms", metrics.rms()},
              {"not_finite", metrics.not_finite}};
}

Json to_json(const ProbeResult& result) {
  Json json = measures(result.metrics);
  json["name"] = result.name;
  json["prompts"] = result.prompts;
  json["forced_near_ties"] = result.forced;
  if (result.exact)
    json["from_float64"] = {{"reference_max", result.exact->reference_max},
                            {"reference_rms", result.exact->reference_rms},
                            {"other_max", result.exact->other_max},
                            {"other_rms", result.exact->other_rms},
                            {"factor", kExactFactor}};
  json["failures"] = result.failures;
  return json;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json id(int32_t value) { return value < 0 ? Json(nullptr) : Json(value); }

void add_piece(Json& json, const char* key, const std::string& piece) {
  if (!piece.empty()) json[key] = piece;
}

Json to_json(const TokenResult& token) {
  Json json{{"probe", token.probe},          {"row", token.row},
            {"token", token.token},          {"position", token.position},
            {"kl", finite(token.kl)},        {"reference_id", id(token.reference_id)},
            {"other_id", id(token.other_id)}};
  add_piece(json, "piece", token.piece);
  add_piece(json, "reference_piece", token.reference_piece);
  add_piece(json, "other_piece", token.other_piece);
  return json;
}

Json to_json(const NearTie& tie) {
  Json json{{"probe", tie.probe},
            {"row", tie.row},
            {"token", tie.token},
            {"moe_layer", tie.moe_layer},
            {"margin", tie.margin}};
  add_piece(json, "piece", tie.piece);
  return json;
}

/// The id at a place of a probe; -1 where there is none.
int32_t id_at(const std::vector<Probe>& probes, const std::string& name, uint64_t row, uint64_t token) {
  for (const Probe& probe : probes)
    if (probe.name == name && row < probe.batch && token < probe.tokens)
      return probe.input_ids[row * probe.tokens + token];
  return -1;
}

std::string piece_of(const text::Tokenizer& tokenizer, int32_t id) {
  if (id < 0) return {};
  return std::string(tokenizer.token_of(static_cast<uint32_t>(id)).value_or(""));
}

}  // namespace

void add_pieces(ModelLevel& level, const std::vector<Probe>& probes, const text::Tokenizer& tokenizer) {
  for (NearTie& tie : level.near_ties)
    tie.piece = piece_of(tokenizer, id_at(probes, tie.probe, tie.row, tie.token));
  for (TokenResult& token : level.worst_tokens) {
    token.piece = piece_of(tokenizer, id_at(probes, token.probe, token.row, token.token));
    token.reference_piece = piece_of(tokenizer, token.reference_id);
    token.other_piece = piece_of(tokenizer, token.other_id);
  }
}

uint64_t ModelLevel::prompts() const {
  uint64_t rows = 0;
  for (const ProbeResult& result : probes) rows += result.prompts;
  return rows;
}

bool ModelLevel::passed() const {
  return !probes.empty() && std::all_of(probes.begin(), probes.end(),
                                        [](const ProbeResult& result) { return result.failures.empty(); });
}

Json to_json(const ModelLevel& level) {
  Json json = measures(level.total);
  json["equal"] = level.passed();
  json["prompts"] = level.prompts();
  json["bar"] = {{"dtype", row(level.tolerance.dtype).long_name},
                 {"max_abs_error", level.atol > 0 ? level.atol : level.tolerance.max_abs_error},
                 {"times_rms", level.atol <= 0},
                 {"kl", level.tolerance.max_kl},
                 {"top1_gap", level.tolerance.top1_gap},
                 {"top1_share", kTop1Share},
                 {"reason", level.tolerance.reason}};
  for (const ProbeResult& result : level.probes) json["probes"].push_back(to_json(result));
  json["skipped"] = level.skipped;
  json["near_ties"] = Json::array();
  for (const NearTie& tie : level.near_ties) json["near_ties"].push_back(to_json(tie));
  json["worst_tokens"] = Json::array();
  for (const TokenResult& token : level.worst_tokens) json["worst_tokens"].push_back(to_json(token));
  json["positions"] = {{"probe", level.longest_probe}, {"kl", Json::array()}};
  for (const PositionKl& at : level.positions)
    json["positions"]["kl"].push_back(Json::array({at.position, finite(at.kl)}));
  return json;
}

std::vector<PositionKl> thinned(const std::vector<PositionKl>& positions, size_t shown) {
  const size_t run = shown ? (positions.size() + shown - 1) / shown : 0;
  if (run <= 1) return positions;
  std::vector<PositionKl> kept;
  for (size_t begin = 0; begin < positions.size(); begin += run)
    kept.push_back(*std::max_element(positions.begin() + begin,
                                     positions.begin() + std::min(begin + run, positions.size()),
                                     [](const PositionKl& a, const PositionKl& b) { return a.kl < b.kl; }));
  return kept;
}

Result<std::vector<NearTie>> routing_near_ties(Engine& reference, const Probe& probe,
                                               const ModelLevelOptions& options) {
  TANDEM_TRY(const Routing routing, routing_of(reference, probe, options));
  return near_ties_of(probe, routing, tolerance_of(options.lowest).routing_margin);
}

Result<ModelLevel> compare_models(Engine& reference, Engine& other, const std::vector<Probe>& probes,
                                  const ModelLevelOptions& options) {
  return ModelComparison(reference, other, options).run(probes);
}

}  // namespace tandem
