#include "bench/contender.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "engines/worker_process.h"

namespace tandem {
namespace {

constexpr std::array kContenders{
    ContenderRow{"tf", "the SavedModel's portable signatures, by TensorFlow's C API", true, ""},
    ContenderRow{"tf-xla", "its compiled signatures; each length is compiled before it is timed", true,
                 "compiled"},
    ContenderRow{"transformers", "PyTorch eager: the fastest attention and experts that transformers has",
                 false, "eager"},
    ContenderRow{"torch-compile", "the same through torch.compile, with a static cache", false, "compile"},
};

constexpr std::string_view kWorker = "bench_worker.py";

/// transformers' own worker's program and Python, with the benchmark's script in place of its.
Result<WorkerCommand> command_of(const ContenderRow& row) {
  TANDEM_TRY(WorkerCommand command, worker_command(row.takes_graph ? EngineKind::tf : EngineKind::hf));
  if (row.takes_graph) return command;
  std::string& script = command.arguments.back();
  script = script.substr(0, script.rfind('/') + 1) + std::string(kWorker);
  return command;
}

template <class T>
Result<std::vector<T>> values_of(const Message& reply, const std::string& name, DType dtype, uint64_t batch,
                                 std::optional<uint64_t> columns) {
  const auto found = reply.tensors.find(name);
  const bool fits = found != reply.tensors.end() && found->second.dtype == dtype &&
                    found->second.shape.size() == 2 && found->second.shape[0] == batch &&
                    (columns ? found->second.shape[1] == *columns : found->second.shape[1] > 0) &&
                    found->second.data.size() == batch * found->second.shape[1] * sizeof(T);
  if (!fits)
    return corrupt("bench_c4", "the contender's answer has no {} {}[{}, {}]", name, dtype, batch,
                   columns ? std::to_string(*columns) : "n");
  std::vector<T> values(found->second.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), found->second.data.data(), found->second.data.size());
  return values;
}

template <class T>
Result<T> number_in(const Message& reply, const std::string& name) {
  const std::string text = word(reply.words, name);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return corrupt("bench_c4", "the contender's answer has {}={}, expected a number", name, text);
  return value;
}

class WorkerContender : public Contender {
 public:
  WorkerContender(std::unique_ptr<WorkerProcess> process, Words info, double timeout_s)
      : process_(std::move(process)), info_(std::move(info)), timeout_s_(timeout_s) {}

  const std::map<std::string, std::string>& info() const override { return info_; }

  Result<TimedAnswer> time(std::string_view what, const HostTensor& ids, uint64_t steps) override {
    const Message request{{{"op", "time"}, {"what", std::string(what)}, {"steps", std::to_string(steps)}},
                          {{"input_ids", ids}}};
    TANDEM_TRY(const Message reply, process_->call(request, timeout_s_));
    TimedAnswer answer;
    TANDEM_TRY(answer.seconds, number_in<double>(reply, "seconds"));
    TANDEM_TRY(answer.peak_bytes, number_in<uint64_t>(reply, "peak_bytes"));
    if (!(answer.seconds > 0) || !std::isfinite(answer.seconds))
      return corrupt("bench_c4", "the contender's answer has seconds={}", answer.seconds);
    TANDEM_TRY(answer.logits, values_of<float>(reply, "logits", DType::f32, ids.shape[0], {}));
    TANDEM_TRY(answer.tokens, values_of<int32_t>(reply, "tokens", DType::i32, ids.shape[0],
                                                 what == "decode" ? steps + 1 : 0));
    return answer;
  }

 private:
  std::unique_ptr<WorkerProcess> process_;
  Words info_;
  double timeout_s_;
};

}  // namespace

std::span<const ContenderRow> contenders() { return kContenders; }

Result<const ContenderRow*> contender_named(std::string_view name) {
  for (const ContenderRow& row : kContenders)
    if (row.name == name) return &row;
  std::vector<std::string_view> names;
  for (const ContenderRow& row : kContenders) names.push_back(row.name);
  return usage("bench_c3", "there is no contender \"{}\", only {}", name, fmt::join(names, ", "));
}

Result<std::unique_ptr<Contender>> start_contender(const ContenderRow& row, const std::string& path,
                                                   int threads, double timeout_s) {
  TANDEM_TRY(const WorkerCommand command, command_of(row));
  TANDEM_TRY(auto process, WorkerProcess::start(command));
  const Words load{{"op", "load"},
                   {"path", path},
                   {"threads", std::to_string(threads)},
                   {"dtype", "float32"},
                   {"mode", std::string(row.mode)},
                   {"compiled", row.mode == "compiled" ? "1" : ""}};
  TANDEM_TRY(Message reply, process->call({load, {}}, timeout_s));
  reply.words.erase("ok");
  return std::unique_ptr<Contender>(
      std::make_unique<WorkerContender>(std::move(process), std::move(reply.words), timeout_s));
}

}  // namespace tandem
