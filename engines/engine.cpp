#include "engines/engine.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "engines/dump_engine.h"
#include "engines/last_token.h"
#include "engines/worker_process.h"

namespace tandem {
namespace {

/// One row a framework: the one list of them.
struct EngineRow {
  EngineKind kind;
  std::string_view name;
  std::string_view worker;     ///< file beside our own executable
  std::string_view framework;  ///< as people know it
  std::string_view target;     ///< of make, that installs it
};
constexpr EngineRow kEngines[] = {
    {EngineKind::tf, "tf", "tandem-worker-tf", "TensorFlow", "venv"},
    {EngineKind::torch, "torch", "tandem-worker-torch", "PyTorch", "venv"},
    {EngineKind::hf, "hf", "hf_worker.py", "transformers", "venv"},
    {EngineKind::keras_hub, "keras_hub", "keras_hub_worker.py", "KerasHub", "venv-keras-hub"},
    {EngineKind::dump, "dump", "", "a recorded file", ""},
};

const EngineRow& row(EngineKind kind) {
  return *std::find_if(std::begin(kEngines), std::end(kEngines),
                       [&](const EngineRow& entry) { return entry.kind == kind; });
}

std::string environment_word(const char* variable) {
  const char* value = getenv(variable);
  return value == nullptr ? std::string() : value;
}

/// The folder of the running program.
std::string program_folder() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return path.substr(0, path.rfind('/'));
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

/// One row a Python environment: the one list of them.
struct PythonRow {
  std::string_view target;     ///< of make, that makes it: .TARGET in the source tree that we were built in
  std::string_view variable;   ///< of ours that names another interpreter
  std::string_view otherwise;  ///< where neither is there; "": nothing will do
};
constexpr PythonRow kPythons[] = {
    {"venv", "TANDEM_PYTHON", "python3"},
    {"venv-keras-hub", "TANDEM_KERAS_HUB_PYTHON", ""},
    {"venv-bench", "TANDEM_BENCH_PYTHON", ""},
};

/// Our program lies in BUILD/bin. "": it is not there.
std::string find_python(std::string_view target) {
  const PythonRow& python = *std::find_if(std::begin(kPythons), std::end(kPythons),
                                          [&](const PythonRow& entry) { return entry.target == target; });
  if (const std::string chosen = environment_word(python.variable.data()); !chosen.empty()) return chosen;
  const std::string venv = join(program_folder(), fmt::format("../../.{}/bin/python3", target));
  return exists(venv) ? venv : std::string(python.otherwise);
}

/// The folder of the tensorflow package: $TANDEM_TENSORFLOW, else in the packages of our Python; "" if it is
/// not there.
std::string find_tensorflow() {
  if (const std::string chosen = environment_word("TANDEM_TENSORFLOW"); !chosen.empty()) return chosen;
  const std::string python = find_python("venv");
  const size_t bin = python.rfind("/bin/");
  if (bin == python.npos) return {};
  const std::string lib = python.substr(0, bin) + "/lib";
  const auto versions = real_files().list(lib);
  if (!versions.ok()) return {};
  for (const std::string& version : versions.value()) {
    const std::string package = fmt::format("{}/{}/site-packages/tensorflow", lib, version);
    if (version.starts_with("python3") && exists(package + "/libtensorflow_cc.so.2")) return package;
  }
  return {};
}

std::string install_hint(const EngineRow& engine) {
  if (engine.kind == EngineKind::torch) return "`make venv` installs PyTorch, `make` then builds its worker";
  return fmt::format("`make {}` installs {}", engine.target, engine.framework);
}

Error not_installed(const EngineRow& engine) {
  return unavailable("engine_c1", "{} is not installed, and the engine '{}' needs it", engine.framework,
                     engine.name)
      .because(install_hint(engine));
}

WorkerCommand script_command(const std::string& python, std::string_view script, std::string hint) {
  return {{python, join(program_folder(), std::string(script))}, std::move(hint), false, false};
}

Result<WorkerCommand> command_of(const EngineRow& engine) {
  if (engine.worker.ends_with(".py")) {
    const std::string python = find_python(engine.target);
    if (python.empty()) return not_installed(engine);
    return script_command(python, engine.worker, install_hint(engine));
  }
  const std::string worker = join(program_folder(), engine.worker);
  if (!exists(worker)) return not_installed(engine);
  if (engine.kind != EngineKind::tf) return WorkerCommand{{worker}, install_hint(engine), false, false};
  const std::string tensorflow = find_tensorflow();
  if (tensorflow.empty()) return not_installed(engine);
  return WorkerCommand{{worker, tensorflow}, install_hint(engine), false, false};
}

/// The ids of a reply to op=encode.
Result<std::vector<int32_t>> ids_in(const Message& reply) {
  const auto found = reply.tensors.find("ids");
  if (found == reply.tensors.end() || found->second.dtype != DType::i32 || found->second.shape.size() != 1 ||
      found->second.data.size() != found->second.shape[0] * sizeof(int32_t))
    return corrupt("engine_c4", "the worker's answer has no ids of {} and one axis", DType::i32);
  std::vector<int32_t> values(found->second.shape[0]);
  if (!values.empty()) std::memcpy(values.data(), found->second.data.data(), found->second.data.size());
  return values;
}

class WorkerEngine : public Engine {
 public:
  WorkerEngine(std::unique_ptr<WorkerProcess> process, EngineInfo info, const EngineOptions& options)
      : process_(std::move(process)),
        info_(std::move(info)),
        timeout_s_(options.timeout_s),
        compiled_(options.compiled) {}
  const EngineInfo& info() const override { return info_; }
  Result<std::vector<int32_t>> encode(std::string_view text) override {
    const auto bytes = std::as_bytes(std::span(text));
    const HostTensor tensor{DType::u8, {bytes.size()}, {bytes.begin(), bytes.end()}};
    TANDEM_TRY(const Message reply, process_->call({{{"op", "encode"}}, {{"text", tensor}}}, timeout_s_));
    return ids_in(reply);
  }
  Result<HostTensors> last_logits(const HostTensors& inputs) override {
    const Words words{{"op", "run"}, {"entry", "logits"}, {"outputs", "logits"}, {"tokens", "last"}};
    TANDEM_TRY(Message reply, process_->call({words, inputs}, timeout_s_));
    return std::move(reply.tensors);
  }
  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>& outputs) override {
    TANDEM_TRY(Message reply,
               process_->call({{{"op", "run"}, {"entry", entry}, {"outputs", join_names(outputs)}}, inputs},
                              timeout_s_));
    for (const std::string& output : outputs)
      if (!reply.tensors.contains(output))
        return corrupt("engine_c4", "the worker's answer lacks '{}', which was asked for", output);
    return std::move(reply.tensors);
  }
  Result<HostTensors> values(const std::string& entry, Scope scope, const HostTensors& given,
                             const std::vector<std::string>& outputs) override {
    TANDEM_TRY(Message reply, process_->call({{{"op", "values"},
                                               {"entry", entry},
                                               {"scope", scope == Scope::block ? "block" : "entry"},
                                               {"outputs", join_names(outputs)}},
                                              given},
                                             timeout_s_));
    for (const std::string& output : outputs)
      if (!reply.tensors.contains(output))
        return corrupt("engine_c4", "the worker's answer lacks '{}', which was asked for", output);
    return std::move(reply.tensors);
  }
  Status edit(const std::string& contract, const HostTensors& weights) override {
    TANDEM_TRY(const Message reply,
               process_->call({{{"op", "edit"}, {"contract", contract}}, weights}, timeout_s_));
    return {};
  }
  Result<uint64_t> compilations() override {
    if (!compiled_) return 0;
    TANDEM_TRY(const Message reply, process_->call({{{"op", "compilations"}}, {}}, timeout_s_));
    const std::string text = word(reply.words, "compilations");
    uint64_t count = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size())
      return corrupt("engine_c4", "the worker counts '{}' compilations", text);
    return count;
  }

 private:
  std::unique_ptr<WorkerProcess> process_;
  EngineInfo info_;
  double timeout_s_;
  bool compiled_;
};

}  // namespace

Result<HostTensors> Engine::values(const std::string& entry, Scope, const HostTensors&,
                                   const std::vector<std::string>&) {
  return unsupported("engine_c9", "this engine cannot look inside '{}'", entry);
}

Status Engine::edit(const std::string&, const HostTensors&) {
  return unsupported("engine_c9", "this engine cannot run an edited contract");
}

Result<uint64_t> Engine::compilations() { return 0; }

Result<std::vector<int32_t>> Engine::encode(std::string_view) {
  return unsupported("engine_c10", "this engine has no tokenizer");
}

Result<HostTensors> Engine::last_logits(const HostTensors& inputs) {
  TANDEM_TRY(HostTensors outputs, run("logits", inputs, {"logits"}));
  TANDEM_CHECK(keep_last_logits(outputs));
  return outputs;
}

Result<EngineKind> engine_named(std::string_view wanted) {
  std::vector<std::string_view> names;
  for (const EngineRow& engine : kEngines) {
    if (engine.name == wanted) return engine.kind;
    names.push_back(engine.name);
  }
  return usage("engine_c5", "no engine '{}'; there are {}", wanted, fmt::join(names, ", "));
}

std::string_view name(EngineKind kind) { return row(kind).name; }

Result<WorkerCommand> worker_command(EngineKind kind) { return command_of(row(kind)); }

Result<WorkerCommand> python_command(std::string_view target, std::string_view script) {
  const std::string python = find_python(target), hint = fmt::format("`make {}` installs it", target);
  if (python.empty()) return unavailable("engine_c1", "no .{} is there for {}", target, script).because(hint);
  return script_command(python, script, hint);
}

Result<std::unique_ptr<Engine>> Engine::start(EngineKind kind, const std::string& path,
                                              const EngineOptions& options) {
  const EngineRow& engine = row(kind);
  if (options.compiled && kind != EngineKind::tf)
    return usage("engine_c12", "the engine '{}' compiles nothing; tf does", engine.name);
  if (kind == EngineKind::dump) {
    TANDEM_TRY(std::shared_ptr<const DumpFile> dump, DumpFile::open(real_files(), path));
    return dump_engine(std::move(dump));
  }
  TANDEM_TRY(const PathKind what, real_files().kind(path));
  if (what != PathKind::directory) return missing("engine_c6", "{} is not a folder with a model", path);
  TANDEM_TRY(WorkerCommand command, command_of(engine));
  command.shielded = options.shielded;
  command.beside_others = options.beside_others;
  TANDEM_TRY(auto process, WorkerProcess::start(command));
  Words load{{"op", "load"},
             {"path", path},
             {"threads", std::to_string(options.threads)},
             {"dtype", options.dtype},
             {"accepted_keys", join_names({options.accepted_keys.begin(), options.accepted_keys.end()})}};
  if (options.stream) load["stream"] = "1";
  if (options.compiled) load["compiled"] = "1";
  auto reply = process->call({load, {}}, options.timeout_s);
  if (!reply.ok()) {
    Error error = std::move(reply).error();
    if (error.rule == "engine_c2" && error.hint.empty()) error.hint = command.install_hint;
    return std::move(error).at(path);
  }
  EngineInfo info = std::move(reply.value().words);
  info.erase("ok");
  info["path"] = path;
  if (options.stream) info["stream"] = "1";
  return std::unique_ptr<Engine>(
      std::make_unique<WorkerEngine>(std::move(process), std::move(info), options));
}

}  // namespace tandem
