#include "engines/timed_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <vector>

namespace tandem {
namespace {

constexpr uint64_t kMaxTokens = 1 << 20;

HostTensor ids_tensor(uint64_t batch, const std::vector<int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::i32, {batch, values.size() / batch}, {bytes.begin(), bytes.end()}};
}

/// Rows that grow together, without padding.
class Rows {
 public:
  Rows(const HostTensor& ids) : batch_(ids.shape[0]), tokens_(ids.shape[1]), ids_(batch_ * tokens_) {
    if (!ids_.empty()) std::memcpy(ids_.data(), ids.data.data(), ids.data.size());
  }
  void add(const std::vector<int32_t>& next) {
    std::vector<int32_t> grown;
    grown.reserve(ids_.size() + batch_);
    for (uint64_t row = 0; row < batch_; ++row) {
      grown.insert(grown.end(), ids_.begin() + static_cast<int64_t>(row * tokens_),
                   ids_.begin() + static_cast<int64_t>((row + 1) * tokens_));
      grown.push_back(next[row]);
    }
    ids_ = std::move(grown);
    ++tokens_;
  }
  HostTensors inputs() const {
    std::vector<int32_t> positions(ids_.size());
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i % tokens_);
    return {{"input_ids", ids_tensor(batch_, ids_)},
            {"attention_mask", ids_tensor(batch_, std::vector<int32_t>(ids_.size(), 1))},
            {"position_ids", ids_tensor(batch_, positions)}};
  }

 private:
  uint64_t batch_, tokens_;
  std::vector<int32_t> ids_;
};

/// f32 [batch, 1, vocab] as values; checked.
Result<std::vector<float>> logits_of(ServedModel& model, const HostTensors& inputs, uint64_t batch) {
  TANDEM_TRY(const HostTensors outputs, model.last_logits(inputs));
  const auto found = outputs.find("logits");
  if (found == outputs.end() || found->second.dtype != DType::f32 || found->second.shape.size() != 3 ||
      found->second.shape[0] != batch || found->second.shape[1] != 1 || found->second.shape[2] == 0)
    return invalid("time_c1", "the model gives no logits f32 [{}, 1, vocab]", batch);
  std::vector<float> values(found->second.data.size() / sizeof(float));
  std::memcpy(values.data(), found->second.data.data(), found->second.data.size());
  return values;
}

std::vector<int32_t> best_of(const std::vector<float>& logits, uint64_t batch) {
  const size_t vocab = logits.size() / batch;
  std::vector<int32_t> best;
  for (size_t row = 0; row < batch; ++row) {
    const auto begin = logits.begin() + static_cast<int64_t>(row * vocab);
    best.push_back(
        static_cast<int32_t>(std::max_element(begin, begin + static_cast<int64_t>(vocab)) - begin));
  }
  return best;
}

std::string peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::to_string(static_cast<uint64_t>(usage.ru_maxrss) * 1024);
}

}  // namespace

Result<Message> timed_run(ServedModel& model, const Message& request) {
  const std::string what = word(request.words, "what"), steps_text = word(request.words, "steps");
  const auto ids = request.tensors.find("input_ids");
  uint64_t steps = 0;
  std::from_chars(steps_text.data(), steps_text.data() + steps_text.size(), steps);
  if ((what != "first" && what != "prefill" && what != "decode") ||
      (what == "decode" && (steps == 0 || steps > kMaxTokens)))
    return invalid("time_c1",
                   "op=time what={} steps={}: expected first, prefill, or decode and 1 to {} steps", what,
                   steps_text, kMaxTokens);
  if (ids == request.tensors.end() || ids->second.dtype != DType::i32 || ids->second.shape.size() != 2 ||
      ids->second.data.empty())
    return invalid("time_c1", "op=time: expected input_ids i32 [batch, tokens]");

  using Clock = std::chrono::steady_clock;
  const uint64_t batch = ids->second.shape[0];
  Rows rows(ids->second);
  const HostTensors inputs = rows.inputs();
  Clock::time_point begin = Clock::now();
  TANDEM_TRY(const std::vector<float> logits, logits_of(model, inputs, batch));
  std::vector<std::vector<int32_t>> columns;
  if (what == "decode") {
    columns.push_back(best_of(logits, batch));
    begin = Clock::now();
    for (uint64_t step = 0; step < steps; ++step) {
      rows.add(columns.back());
      TANDEM_TRY(const std::vector<float> next, logits_of(model, rows.inputs(), batch));
      columns.push_back(best_of(next, batch));
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();

  Message reply{{{"ok", "1"}, {"seconds", fmt::format("{:.9g}", seconds)}, {"peak_bytes", peak_bytes()}}, {}};
  const auto bytes = std::as_bytes(std::span(logits));
  reply.tensors["logits"] = {DType::f32, {batch, logits.size() / batch}, {bytes.begin(), bytes.end()}};
  std::vector<int32_t> tokens;
  for (uint64_t row = 0; row < batch; ++row)
    for (const std::vector<int32_t>& column : columns) tokens.push_back(column[row]);
  reply.tensors["tokens"] = {DType::i32, {batch, columns.size()}, {}};
  const auto token_bytes = std::as_bytes(std::span(tokens));
  reply.tensors["tokens"].data.assign(token_bytes.begin(), token_bytes.end());
  return reply;
}

}  // namespace tandem
