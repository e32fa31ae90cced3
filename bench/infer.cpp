#include "bench/infer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace tandem {
namespace {

constexpr double kLimitSeconds = 0.1;  // of the memory's limit, before each round

HostTensor random_ids(const Scenario& scenario, uint64_t vocab_size) {
  std::mt19937_64 generator(scenario.prompt * 1000 + scenario.batch);
  HostTensor ids{DType::i32, {scenario.batch, scenario.prompt}, {}};
  for (uint64_t i = 0; i < scenario.batch * scenario.prompt; ++i) {
    const auto id = static_cast<int32_t>(generator() % vocab_size);
    const auto bytes = std::as_bytes(std::span(&id, 1));
    ids.data.insert(ids.data.end(), bytes.begin(), bytes.end());
  }
  return ids;
}

/// A row of a prompt and the first `count` of the tokens that were decoded after it.
HostTensor grown_row(const HostTensor& ids, uint64_t row, std::span<const int32_t> tokens) {
  const uint64_t row_bytes = ids.shape[1] * sizeof(int32_t);
  HostTensor grown{DType::i32, {1, ids.shape[1] + tokens.size()}, {}};
  const auto begin = ids.data.begin() + static_cast<int64_t>(row * row_bytes);
  grown.data.assign(begin, begin + static_cast<int64_t>(row_bytes));
  const auto bytes = std::as_bytes(tokens);
  grown.data.insert(grown.data.end(), bytes.begin(), bytes.end());
  return grown;
}

double rms_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double tolerance_for(const ContenderRow& row, double rms) { return row.tolerance * std::max(1.0, rms); }

std::string_view word_of(Measure measure) {
  return measure == Measure::load ? "load" : measure == Measure::decode ? "decode" : "prefill";
}

/// Compares an answer with the reference's; a failure is a sentence in the result.
class Comparison {
 public:
  Comparison(Contender& reference, const ContenderRow& row, const Scenario& scenario, const HostTensor& ids,
             const TimedAnswer& expected)
      : reference_(reference), row_(row), scenario_(scenario), ids_(ids), expected_(expected) {}

  Status judge(const TimedAnswer& answer, InferResult& result) {
    result.logits_rms = rms_of(expected_.logits);
    if (answer.logits.size() != expected_.logits.size()) {
      result.failure =
          fmt::format("{} logits where the reference has {}", answer.logits.size(), expected_.logits.size());
      return {};
    }
    for (size_t i = 0; i < answer.logits.size(); ++i)
      result.max_abs_error = std::max(result.max_abs_error,
                                      std::abs(static_cast<double>(answer.logits[i]) - expected_.logits[i]));
    const double tolerance = tolerance_for(row_, result.logits_rms);
    if (!(result.max_abs_error <= tolerance)) {
      result.failure = fmt::format(
          "its logits are {:.3g} from the reference's, at most {:.3g} is what its arithmetic rounds",
          result.max_abs_error, tolerance);
      return {};
    }
    return scenario_.decode() ? compare_tokens(answer, result) : Status();
  }

 private:
  /// A row that parts from the reference's may do so where two tokens were as good, and nowhere else.
  Status compare_tokens(const TimedAnswer& answer, InferResult& result) {
    const uint64_t columns = scenario_.steps + 1;
    result.same_tokens = columns;
    for (uint64_t row = 0; row < scenario_.batch; ++row) {
      const auto mine = std::span(expected_.tokens).subspan(row * columns, columns);
      const auto theirs = std::span(answer.tokens).subspan(row * columns, columns);
      const auto same =
          static_cast<uint64_t>(std::mismatch(mine.begin(), mine.end(), theirs.begin()).first - mine.begin());
      if (same == columns) continue;
      result.same_tokens = std::min(result.same_tokens, same);
      TANDEM_TRY(const TimedAnswer there,
                 reference_.time("prefill", grown_row(ids_, row, mine.subspan(0, same)), 0));
      const auto logit = [&](int32_t id) {
        return id >= 0 && static_cast<size_t>(id) < there.logits.size()
                   ? static_cast<double>(there.logits[static_cast<size_t>(id)])
                   : -INFINITY;
      };
      const double gap = std::abs(logit(mine[same]) - logit(theirs[same]));
      const double tolerance = 2 * tolerance_for(row_, rms_of(there.logits));
      if (!(gap <= tolerance)) {
        result.failure = fmt::format(
            "row {} has token {} where the reference has {}, after {} that are the same; their logits are "
            "{:.3g} "
            "apart",
            row, theirs[same], mine[same], same, gap);
        return {};
      }
      result.near_tie = true;
    }
    return {};
  }

  Contender& reference_;
  const ContenderRow& row_;
  const Scenario& scenario_;
  const HostTensor& ids_;
  const TimedAnswer& expected_;
};

struct Started {
  const ContenderRow* row;
  std::unique_ptr<Contender> contender;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Bench {
 public:
  Bench(const ModelPaths& paths, const InferOptions& options, uint64_t vocab_size, InferReport& report)
      : paths_(paths), options_(options), vocab_size_(vocab_size), report_(report) {}

  Status start() {
    for (const std::string& name : options_.contenders) {
      TANDEM_TRY(const ContenderRow* row, contender_named(name));
      TANDEM_CHECK(step("starting " + name));
      auto contender = start_contender(*row, paths_, report_.threads, true, options_.timeout_s);
      if (!contender.ok()) {
        if (contenders_.empty()) return std::move(contender).error();
        report_.not_started[name] = contender.error().message();
        continue;
      }
      report_.contenders[name] = contender.value()->info();
      contenders_.push_back({row, std::move(contender).value()});
    }
    return {};
  }

  Status run(const Scenario& scenario) {
    const HostTensor ids = random_ids(scenario, vocab_size_);
    ScenarioReport timed{scenario, {}, std::vector<InferResult>(contenders_.size())};
    std::optional<TimedAnswer> expected;
    for (size_t i = 0; i < contenders_.size(); ++i) {
      const ContenderRow& row = *contenders_[i].row;
      InferResult& result = timed.results[i];
      result.contender = row.name;
      TANDEM_CHECK(step(fmt::format("{}: {} is checked", scenario.name(), row.name)));
      TANDEM_TRY(const auto answer, answer_of(scenario, ids, i, result));
      if (!answer) continue;
      if (i == 0) expected = *answer;
      TANDEM_CHECK(
          Comparison(*contenders_[0].contender, row, scenario, ids, *expected).judge(*answer, result));
      result.loaded.clear();
    }
    for (uint64_t round = 0; round < options_.rounds; ++round) {
      TANDEM_TRY(const Rate limit,
                 memory_limit(report_.threads, memory_to_read(cache_bytes()), kLimitSeconds));
      timed.memory_bytes_per_s.push_back(limit.best);
      for (size_t i = 0; i < contenders_.size(); ++i) {
        InferResult& result = timed.results[i];
        if (!result.failure.empty()) continue;
        TANDEM_CHECK(step(fmt::format("{}: round {} of {}, {}", scenario.name(), round + 1, options_.rounds,
                                      result.contender)));
        TANDEM_TRY(const auto answer, answer_of(scenario, ids, i, result));
        if (answer) result.seconds.push_back(answer->seconds);
      }
    }
    report_.results.push_back(std::move(timed));
    return {};
  }

 private:
  /// None where the contender failed, which is noted; the first must not.
  Result<std::optional<TimedAnswer>> answer_of(const Scenario& scenario, const HostTensor& ids, size_t i,
                                               InferResult& result) {
    auto answer = scenario.measure == Measure::load
                      ? first_token(*contenders_[i].row, ids, result)
                      : contenders_[i].contender->time(word_of(scenario.measure), ids, scenario.steps);
    if (!answer.ok()) {
      if (i == 0) return std::move(answer).error();
      result.failure = answer.error().message();
      return std::optional<TimedAnswer>();
    }
    uint64_t& peak = report_.peak_bytes[result.contender];
    peak = std::max(peak, answer.value().peak_bytes);
    return std::optional(std::move(answer).value());
  }

  /// Of a process that is started for it: its seconds are those from before its start.
  Result<TimedAnswer> first_token(const ContenderRow& row, const HostTensor& ids, InferResult& result) {
    const auto begin = std::chrono::steady_clock::now();
    TANDEM_TRY(const auto contender,
               start_contender(row, paths_, report_.threads, false, options_.timeout_s));
    result.loaded.push_back(seconds_since(begin));
    TANDEM_TRY(TimedAnswer answer, contender->time("first", ids, 0));
    answer.seconds = seconds_since(begin);
    return answer;
  }

  Status step(const std::string& text) { return options_.progress ? options_.progress(text) : Status(); }

  const ModelPaths& paths_;
  const InferOptions& options_;
  uint64_t vocab_size_;
  InferReport& report_;
  std::vector<Started> contenders_;
};

uint64_t count_in(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

double operations_a_token(const InferReport& report) { return 2 * report.cost.weights_a_token; }

double weight_bytes_of(const std::string& name) {
  const auto row = contender_named(name);
  return row.ok() ? row.value()->weight_bytes : sizeof(float);
}

/// Where a scenario stands under the roof: what is done with a byte of weights that was read.
double operations_per_byte(const InferReport& report, const Scenario& scenario, double weight_bytes) {
  const uint64_t at_once = scenario.decode() ? scenario.batch : scenario.batch * scenario.prompt;
  return operations_a_token(report) * static_cast<double>(at_once) /
         report.cost.bytes_a_step(at_once, weight_bytes);
}

/// Share of the limit that a speed is: of the memory's of the same round for steps, of the arithmetic's for
/// prompts. A host moves a virtual machine between processors whose memory is not alike.
double share_of_limit(const InferReport& report, const ScenarioReport& timed, const InferResult& result,
                      double weight_bytes) {
  const Scenario& scenario = timed.scenario;
  std::vector<double> shares;
  for (size_t round = 0; round < result.seconds.size(); ++round) {
    const double tokens_per_second = static_cast<double>(scenario.tokens()) / result.seconds[round];
    const double bytes_per_second = tokens_per_second / static_cast<double>(scenario.batch) *
                                    report.cost.bytes_a_step(scenario.batch, weight_bytes);
    shares.push_back(scenario.decode()
                         ? bytes_per_second / timed.memory_bytes_per_s[round]
                         : tokens_per_second * operations_a_token(report) / report.limits.float32_per_s);
  }
  return median_interval(shares).median;
}

Json to_json(const InferReport& report, const ScenarioReport& timed, const InferResult& result) {
  const Scenario& scenario = timed.scenario;
  Json json{{"contender", result.contender}};
  if (!result.failure.empty()) {
    json["failure"] = result.failure;
    return json;
  }
  json["seconds"] = result.seconds;
  json["ratio"] = to_json(speed_ratio(result, timed.results[0]));
  json["max_abs_error"] = result.max_abs_error;
  json["logits_rms"] = result.logits_rms;
  if (scenario.measure == Measure::load) {
    json["to_first_token_s"] = to_json(median_interval(result.seconds));
    json["to_load_s"] = to_json(median_interval(result.loaded));
    return json;
  }
  const Interval speed = tokens_per_s(scenario, result);
  const double weight_bytes = weight_bytes_of(result.contender);
  json["tokens_per_s"] = to_json(speed);
  json["share_of_limit"] = share_of_limit(report, timed, result, weight_bytes);
  json["operations_per_s"] = speed.median * operations_a_token(report);
  json["operations_per_byte"] = operations_per_byte(report, scenario, weight_bytes);
  if (scenario.decode()) {
    json["same_tokens"] = result.same_tokens;
    json["near_tie"] = result.near_tie;
  }
  return json;
}

}  // namespace

std::string Scenario::name() const {
  const std::string rows = batch > 1 ? fmt::format(", batch {}", batch) : "";
  if (measure == Measure::load) return fmt::format("load to first token, prompt {}{}", prompt, rows);
  return decode() ? fmt::format("decode {}-{}{}", prompt, prompt + steps, rows)
                  : fmt::format("prefill {}{}", prompt, rows);
}

double ModelCost::bytes_a_step(uint64_t rows, double weight_bytes) const {
  const double share = std::min(1.0, chosen_share * static_cast<double>(rows));
  return weight_bytes * (static_cast<double>(head_and_rest) + share * static_cast<double>(experts));
}

Interval tokens_per_s(const Scenario& scenario, const InferResult& result) {
  std::vector<double> speeds;
  for (const double seconds : result.seconds)
    speeds.push_back(static_cast<double>(scenario.tokens()) / seconds);
  return median_interval(speeds);
}

Interval speed_ratio(const InferResult& result, const InferResult& reference) {
  return ratio_interval(reference.seconds, result.seconds);
}

ModelCost cost_of(const TensorSource& tensors, const Json& config) {
  ModelCost cost;
  const bool tied = config.value("tie_word_embeddings", false) || !tensors.find("lm_head.weight");
  for (const TensorInfo& tensor : tensors.tensors()) {
    const auto count = element_count(tensor.shape);
    if (!count.ok() || tensor.name.ends_with("_scale_inv")) continue;
    cost.weights += count.value();
    const bool looked_up = tensor.name == "model.embed_tokens.weight" && !tied;  // one row a token
    if (tensor.name.find(".mlp.experts.") != std::string::npos)
      cost.experts += count.value();
    else if (!looked_up)
      cost.head_and_rest += count.value();
  }
  const uint64_t chosen = count_in(config, "num_experts_per_tok"), all = count_in(config, "n_routed_experts");
  if (chosen && all) cost.chosen_share = static_cast<double>(chosen) / static_cast<double>(all);
  cost.weights_a_token =
      static_cast<double>(cost.head_and_rest) + cost.chosen_share * static_cast<double>(cost.experts);
  return cost;
}

Result<InferReport> bench_infer(const ModelPaths& paths, uint64_t vocab_size, const InferOptions& options) {
  if (options.contenders.empty() || options.scenarios.empty() || options.rounds == 0 || vocab_size == 0)
    return usage("bench_c5", "nothing to time: {} contenders, {} scenarios, {} rounds",
                 options.contenders.size(), options.scenarios.size(), options.rounds);
  InferReport report;
  report.model = paths.folder;
  LimitOptions limits;
  limits.threads = options.threads;
  limits.disk_bytes = 0;
  TANDEM_TRY(report.limits, measure_limits(limits));
  report.threads = report.limits.threads;
  Bench bench(paths, options, vocab_size, report);
  TANDEM_CHECK(bench.start());
  for (const Scenario& scenario : options.scenarios) {
    TANDEM_CHECK(bench.run(scenario));
  }
  return report;
}

Json to_json(const InferReport& report) {
  Json json{{"model", report.model},
            {"threads", report.threads},
            {"limits", to_json(report.limits)},
            {"weights", report.cost.weights},
            {"weights_a_token", report.cost.weights_a_token},
            {"contenders", report.contenders},
            {"peak_bytes", report.peak_bytes},
            {"not_started", report.not_started},
            {"scenarios", Json::array()}};
  for (const ScenarioReport& timed : report.results) {
    const Scenario& scenario = timed.scenario;
    Json rows = Json::array();
    for (const InferResult& result : timed.results) rows.push_back(to_json(report, timed, result));
    json["scenarios"].push_back({{"name", scenario.name()},
                                 {"what", word_of(scenario.measure)},
                                 {"batch", scenario.batch},
                                 {"prompt", scenario.prompt},
                                 {"steps", scenario.steps},
                                 {"memory_read_bytes_per_s", timed.memory_bytes_per_s},
                                 {"results", std::move(rows)}});
  }
  return json;
}

}  // namespace tandem
