// tandem convert: from one side to the other.

#include "convert/convert.h"

#include "base/signals.h"
#include "cli/command.h"
#include "cli/progress.h"

namespace tandem {
namespace {

struct Flags {
  std::string source;
  std::string destination;
  std::string to;
  std::string dtype = "keep";
  std::string compute = "float32";
  std::vector<std::string> accepted_keys;
  bool verbose = false;
  ConvertOptions options;
};

constexpr const char* kFooter =
    "The direction follows from SRC: a Hugging Face folder becomes a SavedModel, a TensorFlow model becomes "
    "a\n"
    "Hugging Face folder. DST appears whole or not at all.\n"
    "\n"
    "Examples:\n"
    "  tandem convert ./deepseek-llm-7b ./llm.savedmodel\n"
    "  tandem convert ./deepseek-v3 ./v3.savedmodel --dtype bfloat16\n"
    "  tandem convert ./deepseek-llm-7b ./ckpt --to checkpoint\n"
    "  tandem convert ./llm.savedmodel ./back\n"
    "  tandem convert ./v3.savedmodel ./back --like ./deepseek-v3      fp8 codes and scales remade\n"
    "  tandem convert ./trained/ckpt-7 ./back --like ./llm.savedmodel  a checkpoint saved by a training "
    "loop\n";

Result<DType> storage_named(const std::string& flag, const std::string& name,
                            std::initializer_list<DType> allowed) {
  const std::optional<DType> dtype = dtype_named(name);
  if (dtype && std::find(allowed.begin(), allowed.end(), *dtype) != allowed.end()) return *dtype;
  std::string known;
  for (const DType each : allowed) known += fmt::format(" {}", row(each).long_name);
  return usage("", "{} {}: expected one of{}", flag, name, known);
}

Result<ConvertOptions> options_of(const Flags& flags) {
  ConvertOptions options = flags.options;
  if (!flags.to.empty()) {
    TANDEM_TRY(options.to, target_named(flags.to));
  }
  if (flags.dtype != "keep") {
    TANDEM_TRY(options.dtype, storage_named("--dtype", flags.dtype, {DType::f32, DType::bf16, DType::f16}));
  }
  TANDEM_TRY(options.compute, storage_named("--compute", flags.compute, {DType::f32, DType::bf16}));
  options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  return options;
}

std::string line_of(const ConvertedTensor& tensor) {
  std::string from = tensor.from.empty() ? "-" : tensor.from.front();
  if (tensor.from.size() > 1) from += " .. " + tensor.from.back();
  std::string line = fmt::format("{} {} {} <- {} {}", tensor.name, row(tensor.dtype).long_name,
                                 to_string(tensor.shape), from, row(tensor.from_dtype).long_name);
  for (const std::string& step : tensor.steps) line += ", " + step;
  if (tensor.counts.rounded) line += fmt::format(", {} values rounded", with_commas(tensor.counts.rounded));
  return line + "  sha256 " + tensor.sha256;
}

void print(const ConvertReport& report, const Flags& flags) {
  if (flags.verbose)
    for (const ConvertedTensor& tensor : report.tensors) fmt::print("{}\n", for_terminal(line_of(tensor)));
  for (const std::string& remark : report.remarks) fmt::print("remark: {}\n", for_terminal(remark));
  fmt::print("{}: {} -> {}: {} tensors, {}, written to {}\n", report.architecture, report.from, report.to,
             with_commas(report.tensors.size()), human_bytes(report.bytes), for_terminal(flags.destination));
}

Result<int> convert_command(const Flags& flags, bool json) {
  TANDEM_TRY(ConvertOptions options, options_of(flags));
  std::optional<Progress> progress("converting");
  options.progress = [&progress](uint64_t done, uint64_t total) -> Status {
    progress->show(done, total);
    return {};
  };
  const Result<ConvertReport> report = convert(real_files(), flags.source, flags.destination, options);
  progress.reset();
  if (!report.ok()) return report.error();
  if (json)
    print_json(to_json(report.value()));
  else
    print(report.value(), flags);
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(app, session, "convert", "Carry a checkpoint to the other side, or back", kFooter);
  ConvertOptions& options = flags->options;
  command->add_option("SRC", flags->source, "Hugging Face folder, SavedModel, or checkpoint prefix")
      ->required();
  command->add_option("DST", flags->destination, "The folder to make")->required();
  command->add_option("--to", flags->to, "saved_model (default), checkpoint or safetensors");
  command->add_option("--dtype", flags->dtype, "Storage: keep (default), float32, bfloat16 or float16");
  command->add_option("--compute", flags->compute,
                      "Arithmetic of the SavedModel: float32 (default) or bfloat16");
  command->add_option(
      "--like", options.like,
      "Going back: the original, for dtypes, fp8 scales and tensors that the graph does not use");
  command->add_option("--map", options.map_file, "An edited structure map (tandem map --out)");
  command->add_flag("--force", options.force, "Replace DST if it is a model");
  command->add_flag("--allow-tied-head", options.allow_tied_head,
                    "Tie a head that is missing though the config says untied");
  command->add_flag("--without-mtp", options.without_mtp,
                    "Going back: leave out carried tensors that are not there");
  command->add_flag("--strict", options.strict, "Warnings about the source are errors");
  add_accepted_keys(*command, flags->accepted_keys);
  add_limits(*command, options.limits);
  command->add_flag("-v,--verbose", flags->verbose, "List every tensor");
  command->callback([flags, &session] { session.outcome = convert_command(*flags, session.json); });
}

}  // namespace tandem
