#include "verify/record_side.h"

#include <algorithm>

#include "base/hash.h"
#include "base/signals.h"
#include "base/staging.h"
#include "convert/tensor_view.h"
#include "verify/layer_stack.h"
#include "verify/side_contract.h"
#include "verify/text_prompts.h"

namespace tandem {
namespace {

/// Tensors in memory as a source, without a copy.
class HostSource : public TensorSource {
 public:
  HostSource(size_t probe, const HostTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      infos_.push_back({dump_tensor(probe, name), tensor.dtype, tensor.shape});
      data_[infos_.back().name] = &tensor;
    }
  }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    const auto found = data_.find(tensor);
    if (found == data_.end()) return missing("", "no tensor {}", tensor);
    const std::vector<std::byte>& bytes = found->second->data;
    if (byte_offset > bytes.size() || out.size() > bytes.size() - byte_offset)
      return bug("", "tensor {} has {} bytes, {} were asked for from {}", tensor, bytes.size(), out.size(),
                 byte_offset);
    std::copy_n(bytes.begin() + static_cast<int64_t>(byte_offset), out.size(), out.begin());
    return {};
  }
  std::string location(std::string_view tensor) const override { return std::string(tensor); }

 private:
  std::vector<TensorInfo> infos_;
  std::map<std::string, const HostTensor*, std::less<>> data_;
};

/// One SHA-256 over the files that hold the weights: of each its name, a newline, and its bytes.
Result<std::string> hash_of_weights(const FileSystem& files, const std::string& folder) {
  const std::string variables = join(folder, "variables");
  TANDEM_TRY(const PathKind kind, files.kind(variables));
  const std::string& place = kind == PathKind::directory ? variables : folder;
  TANDEM_TRY(const std::vector<std::string> names, files.list(place));
  Sha256 hash;
  std::vector<std::byte> buffer;
  for (const std::string& name : names) {
    if (kind != PathKind::directory && !name.ends_with(".safetensors")) continue;
    TANDEM_TRY(const auto file, files.open(join(place, name)));
    hash.update(as_bytes(name + "\n"));
    for (uint64_t at = 0; at < file->size(); at += buffer.size()) {
      buffer.resize(std::min<uint64_t>(8 << 20, file->size() - at));
      TANDEM_CHECK(file->read(at, buffer));
      hash.update(buffer);
      if (interrupted()) return unavailable("", "stopped by a signal");
    }
  }
  return hash.hex();
}

/// What is asked of a probe beside its logits.
struct Taps {
  bool any = false;
  std::vector<std::string> names;  ///< empty: all
};

class Recording {
 public:
  Recording(const FileSystem& files, const Side& side, const RecordOptions& options)
      : files_(files), side_(side), options_(options) {}

  Result<RecordReport> run(const std::string& out) {
    TANDEM_TRY(const EngineKind kind, engine_of(side_));
    kind_ = kind;
    TANDEM_TRY(const Model model, model_of(side_.opened, {options_.accepted_keys}));
    TANDEM_TRY(StagedFolder staged, StagedFolder::make(files_, out, options_.force));
    TANDEM_TRY(engine_, start_engine(side_, options_.engine));
    report_.out = out;
    report_.engine = engine_->info();
    TANDEM_CHECK(make_probes(model));
    TANDEM_CHECK(name_module_taps());
    TANDEM_TRY(const auto metadata, metadata_of());
    const InnerProbes inner = inner_probes(probes_);
    const auto is_in = [](const std::vector<Probe>& list, const Probe& probe) {
      return std::any_of(list.begin(), list.end(), [&](const Probe& p) { return p.name == probe.name; });
    };
    for (const Probe& probe : probes_) {
      if (interrupted()) return unavailable("", "stopped by a signal");
      Taps taps;
      taps.any = options_.layer && is_in(inner.layer, probe);
      if (!taps.any && options_.module && is_in(inner.module, probe)) taps = {true, module_taps_};
      TANDEM_CHECK(record(probe, taps, model.moe_layers > 0, staged.path()));
      if (options_.progress) options_.progress(report_.probes.size(), probes_.size());
    }
    TANDEM_CHECK(write(staged, metadata));
    return std::move(report_);
  }

 private:
  Status make_probes(const Model& model) {
    if (!options_.tokens_file.empty()) {
      TANDEM_TRY(probes_, probes_from_file(files_, options_.tokens_file, model.vocab_size));
      return {};
    }
    probes_ = default_probes(model);
    add_text_probe(text_of(side_.opened), model.vocab_size, probes_, report_.notes);
    return {};
  }

  /// Where the contract is no stack of layers, every tap is taken.
  Status name_module_taps() {
    const auto contract = SideContract::open(side_, {options_.accepted_keys});
    if (!contract.ok() && contract.error().kind == ErrorKind::unsupported) return {};
    if (!contract.ok()) return contract.error();
    const auto stack = layer_stack_of(contract.value()->contract());
    if (!stack.ok()) return stack.error().kind == ErrorKind::unsupported ? Status() : stack.error();
    module_taps_.push_back(stack.value().embedding.tap);
    for (const LayerPlace& layer : stack.value().layers) {
      module_taps_.push_back(layer.taps.back().tap);
      if (layer.route && !layer.route_tap.empty()) module_taps_.push_back(layer.route_tap);
    }
    module_taps_.push_back(stack.value().norm.tap);
    return {};
  }

  Result<std::map<std::string, std::string>> metadata_of() {
    std::map<std::string, std::string> words;
    for (const auto& [key, value] : engine_->info())
      if (key != "engine" && key != "path") words[key] = value;
    if (const auto framework = engine_->info().find("engine"); framework != engine_->info().end())
      words["framework"] = framework->second;
    words.emplace("dtype", "float32");
    words["tandem_dump"] = kDumpVersion;
    words["engine"] = name(kind_);
    const bool wanted[] = {options_.layer, options_.module, options_.model};
    for (size_t i = 0; i < std::size(kDumpLevels); ++i)
      if (wanted[i]) report_.levels.emplace_back(kDumpLevels[i]);
    words["levels"] = fmt::format("{}", fmt::join(report_.levels, ","));
    Json prompts = Json::array();
    for (const Probe& probe : probes_) prompts.push_back(probe.name);
    words["prompts"] = prompts.dump();
    if (options_.tokens_file.empty()) {
      words["seed"] = std::to_string(kProbeSeed);
      words["generator"] = kProbeGenerator;
    }
    if (const auto config = side_.opened.side_files.find("config.json");
        config != side_.opened.side_files.end())
      words["config"] = config->second;
    else
      words["config"] = side_.opened.config.dump();
    const auto type = side_.opened.config.find("model_type");
    if (type != side_.opened.config.end() && type->is_string())
      words["model_type"] = type->get<std::string>();
    TANDEM_TRY(words["weights_sha256"], hash_of_weights(files_, side_.opened.path));
    return words;
  }

  /// One probe's tensors as a file of its own; then they leave memory.
  Status record(const Probe& probe, const Taps& taps, bool has_routing, const std::string& folder) {
    const size_t number = report_.probes.size();
    report_.probes.push_back(probe.name);
    TANDEM_CHECK(keep(number, "inputs", probe.inputs(), folder));
    if (taps.any) {
      TANDEM_TRY(HostTensors found, engine_->run("taps", probe.inputs(), taps.names));
      for (const std::string_view result : kDumpResults) found.erase(std::string(result));
      for (const auto& [name, tensor] : found) tap_names_.insert(name);
      TANDEM_CHECK(keep(number, "taps", found, folder));
    }
    if (!options_.model) return {};
    std::vector<std::string> wanted{"logits"};
    if (has_routing && kind_ == EngineKind::hf) wanted.insert(wanted.end(), {"experts", "router_margin"});
    TANDEM_TRY(const HostTensors results, engine_->run("logits", probe.inputs(), wanted));
    return keep(number, "results", results, folder);
  }

  Status keep(size_t number, std::string_view what, const HostTensors& tensors, const std::string& folder) {
    const HostSource source(number, tensors);
    const std::string path = join(folder, fmt::format("probe-{}-{}.safetensors", number, what));
    TANDEM_CHECK(write_safetensors(files_, path, source, file_layout(source.tensors())));
    TANDEM_TRY(auto part, SafetensorsFile::open(files_, path));
    all_.add_all(*part);
    parts_.push_back(std::move(part));
    return {};
  }

  Status write(const StagedFolder& staged, const std::map<std::string, std::string>& metadata) {
    const std::string whole = join(staged.path(), "dump.safetensors");
    TANDEM_CHECK(
        write_safetensors(files_, whole, all_, file_layout(all_.tensors()), metadata, [](uint64_t) -> Status {
          if (interrupted()) return unavailable("", "stopped by a signal");
          return {};
        }));
    {  // what we write, we can read
      TANDEM_TRY(const auto dump, DumpFile::open(files_, whole));
      TANDEM_TRY(report_.bytes, total_bytes(all_));
    }
    report_.tensors = all_.tensors().size();
    report_.taps = tap_names_.size();
    return files_.rename(whole, staged.output());
  }

  const FileSystem& files_;
  const Side& side_;
  const RecordOptions& options_;
  EngineKind kind_ = EngineKind::hf;
  std::unique_ptr<Engine> engine_;
  std::vector<Probe> probes_;
  std::vector<std::string> module_taps_;
  std::set<std::string> tap_names_;
  std::vector<std::unique_ptr<SafetensorsFile>> parts_;
  TensorView all_;
  RecordReport report_;
};

}  // namespace

Json to_json(const RecordReport& report) {
  return Json{{"out", report.out},       {"engine", report.engine}, {"probes", report.probes},
              {"levels", report.levels}, {"taps", report.taps},     {"tensors", report.tensors},
              {"bytes", report.bytes},   {"notes", report.notes}};
}

Result<RecordReport> record_side(const FileSystem& files, const SideSpec& spec, const std::string& out,
                                 const RecordOptions& options) {
  if (spec.engine == EngineKind::dump) return usage("", "a dump is recorded already");
  if (!options.layer && !options.module && !options.model)
    return usage("", "there is no level to record for");
  TANDEM_TRY(const auto side, open_side(files, spec, {options.accepted_keys}, options.limits));
  return Recording(files, *side, options).run(out);
}

}  // namespace tandem
