#include "bench/contender.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "engines/worker_process.h"

namespace tandem {
namespace {

/// Logits of two float32 computations agree within this, times the logits' RMS where that is above 1. Far
/// above what order of summation does, far below what a wrong model does. Rounded weights have what llama.cpp
/// was seen to lose with them, some times over.
constexpr double kFloat32 = 1e-3, kBf16 = 0.2, kQ8 = 0.4;

constexpr std::array kContenders{
    ContenderRow{"tf", "the SavedModel's portable signatures, by TensorFlow's C API", ModelInput::saved_model,
                 "", "", "venv", kFloat32, 4},
    ContenderRow{"tf-xla", "its compiled signatures; each length is compiled before it is timed",
                 ModelInput::saved_model, "compiled", "", "venv", kFloat32, 4},
    ContenderRow{"tf-xla-bf16",
                 "tf-xla with weights in bfloat16, which steps of one row multiply as they are",
                 ModelInput::bf16_saved_model, "compiled", "", "venv", kBf16, 2},
    ContenderRow{"transformers", "PyTorch eager: the fastest attention and experts that transformers has",
                 ModelInput::hf_folder, "eager", "bench_torch_worker.py", "venv", kFloat32, 4},
    ContenderRow{"torch-compile", "the same through torch.compile, with a static cache",
                 ModelInput::hf_folder, "compile", "bench_torch_worker.py", "venv", kFloat32, 4},
    ContenderRow{"keras-hub", "KerasHub's importer on TensorFlow, compiled as its generate() is",
                 ModelInput::hf_folder, "", "bench_keras_hub_worker.py", "venv-keras-hub", kFloat32, 4},
    ContenderRow{"onnxruntime", "the graph with a cache that optimum-onnx exports", ModelInput::onnx, "",
                 "bench_onnxruntime_worker.py", "venv-bench", kFloat32, 4},
    ContenderRow{"llama.cpp", "a gguf in float32, caches too", ModelInput::gguf, "f32",
                 "bench_llama_cpp_worker.py", "venv-bench", kFloat32, 4},
    ContenderRow{"llama.cpp-bf16", "weights in bfloat16", ModelInput::gguf, "bf16",
                 "bench_llama_cpp_worker.py", "venv-bench", kBf16, 2},
    // 32 int8 and a float16 scale
    ContenderRow{"llama.cpp-q8_0", "weights in int8, blocks of 32", ModelInput::gguf, "q8_0",
                 "bench_llama_cpp_worker.py", "venv-bench", kQ8, 34.0 / 32},
};

Result<std::string> path_of(const ContenderRow& row, const ModelPaths& paths) {
  if (row.input == ModelInput::saved_model) return paths.graph;
  if (row.input == ModelInput::hf_folder) return paths.folder;
  const std::string path = join(paths.prepared, prepared_name(row));
  if (paths.prepared.empty() || access(path.c_str(), F_OK) != 0)
    return missing("bench_c7", "{} reads {}, which is not there", row.name,
                   paths.prepared.empty() ? prepared_name(row) : path)
        .because("`tandem bench prepare MODEL FOLDER` makes it, then `bench infer MODEL --prepared FOLDER`");
  return path;
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

std::string prepared_name(const ContenderRow& row) {
  if (row.input == ModelInput::bf16_saved_model) return "bf16.savedmodel";
  if (row.input == ModelInput::onnx) return "onnx";
  return row.input == ModelInput::gguf ? fmt::format("{}.gguf", row.mode) : "";
}

Result<std::unique_ptr<Contender>> start_contender(const ContenderRow& row, const ModelPaths& paths,
                                                   int threads, bool trial, double timeout_s) {
  TANDEM_TRY(const std::string path, path_of(row, paths));
  TANDEM_TRY(const WorkerCommand command,
             row.script.empty() ? worker_command(EngineKind::tf) : python_command(row.python, row.script));
  TANDEM_TRY(auto process, WorkerProcess::start(command));
  const Words load{{"op", "load"},
                   {"path", path},
                   {"threads", std::to_string(threads)},
                   {"dtype", "float32"},
                   {"mode", std::string(row.mode)},
                   {"trial", trial ? "1" : ""},
                   {"compiled", row.mode == "compiled" ? "1" : ""}};
  TANDEM_TRY(Message reply, process->call({load, {}}, timeout_s));
  reply.words.erase("ok");
  return std::unique_ptr<Contender>(
      std::make_unique<WorkerContender>(std::move(process), std::move(reply.words), timeout_s));
}

}  // namespace tandem
