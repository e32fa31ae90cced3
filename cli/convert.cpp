// tandem convert: from one side to the other.

#include "convert/convert.h"

#include "cli/convert_flags.h"
#include "cli/progress.h"

namespace tandem {
namespace {

struct Flags {
  ConvertFlags convert;
  bool verbose = false;
  std::string sink;
};

constexpr const char* kFooter =
    "The direction follows from SRC: a Hugging Face folder becomes a SavedModel, a TensorFlow model becomes "
    "a\n"
    "Hugging Face folder. DST appears whole or not at all.\n"
    "\n"
    "Weights go to files of at most --max-shard-size, one after the other. A conversion that was stopped "
    "(Ctrl-C, a kill,\n"
    "a full disk) goes on with the same command: files that were finished are kept in .DST.tandem-work. For "
    "several\n"
    "processes or machines at once: tandem plan, run-task and finalize.\n"
    "\n"
    "On a disk without room for two copies, --delete-source-as-done deletes each file of SRC once all that "
    "is in "
    "it is written,\n"
    "synced and read back. Kill it, and the same command goes on with what is left.\n"
    "\n"
    "Examples:\n"
    "  tandem convert ./deepseek-llm-7b ./llm.savedmodel\n"
    "  tandem convert ./deepseek-v3 ./v3.savedmodel --dtype bfloat16\n"
    "  tandem convert ./deepseek-llm-7b ./ckpt --to checkpoint\n"
    "  tandem convert ./deepseek-v3 --sink null --memory 128MiB        read, convert and hash, write "
    "nothing\n"
    "  tandem convert ./deepseek-llm-7b ./llm.savedmodel --layout source   no copy: its data are SRC's "
    "files\n"
    "  tandem convert ./deepseek-llm-7b ./llm.savedmodel --layout source --matmul-precision bfloat16\n"
    "                                                                  decode_xla reads half the bytes\n"
    "  tandem convert ./deepseek-llm-7b ./llm.savedmodel --inline      for tools that cannot see into "
    "functions\n"
    "  tandem convert ./deepseek-v3 ./v3.stages --stages 16            16 SavedModels that hand hidden "
    "states "
    "on\n"
    "  tandem convert ./deepseek-v3 ./v3.savedmodel --with-mtp         its prediction layer drafts tokens\n"
    "  tandem convert ./llm.savedmodel ./back\n"
    "  tandem convert ./v3.savedmodel ./back --like ./deepseek-v3      fp8 codes and scales remade\n"
    "  tandem convert ./trained/ckpt-7 ./back --like ./llm.savedmodel  a checkpoint saved by a training "
    "loop\n";

std::string line_of(const ConvertedTensor& tensor) {
  std::string from = tensor.from.empty() ? "-" : tensor.from.front();
  if (tensor.from.size() > 1) from += " .. " + tensor.from.back();
  std::string line = fmt::format("{} {} {} <- {} {}", tensor.name, row(tensor.dtype).long_name,
                                 to_string(tensor.shape), from, row(tensor.from_dtype).long_name);
  for (const std::string& step : tensor.steps) line += ", " + step;
  if (tensor.counts.rounded) line += fmt::format(", {} values rounded", with_commas(tensor.counts.rounded));
  return line + fmt::format("  crc32c {:08x}", tensor.crc32c);
}

void print(const ConvertReport& report, const Flags& flags) {
  if (flags.verbose)
    for (const ConvertedTensor& tensor : report.tensors) fmt::print("{}\n", for_terminal(line_of(tensor)));
  for (const std::string& remark : report.remarks) fmt::print("remark: {}\n", for_terminal(remark));
  fmt::print(
      "{}: {} -> {}: {} tensors, {}, {}\n", report.architecture, report.from, report.to,
      with_commas(report.tensors.size()), human_bytes(report.bytes),
      flags.sink.empty() ? "written to " + for_terminal(flags.convert.destination) : "nothing written");
}

Result<int> convert_command(const Flags& flags, bool json) {
  TANDEM_TRY(ConvertOptions options, options_of(flags.convert));
  if (!flags.sink.empty() && flags.sink != "null") return usage("", "--sink {}: expected null", flags.sink);
  options.write = flags.sink.empty();
  if (options.write == flags.convert.destination.empty())
    return usage("", "expected SRC and DST, or SRC and --sink null").because("see tandem convert --help");
  if (options.delete_source)
    fmt::print(stderr, "deleting the files of weights of {} one by one, as each is converted\n",
               for_terminal(flags.convert.source));
  std::optional<Progress> progress("converting");
  options.progress = [&progress](uint64_t done, uint64_t total) -> Status {
    progress->show(done, total);
    return {};
  };
  const Result<ConvertReport> report =
      convert(real_files(), flags.convert.source, flags.convert.destination, options);
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
  add_convert_flags(*command, flags->convert, false);
  add_threads(*command, flags->convert.options.threads);
  command->add_option("--sink", flags->sink, "null: read, convert and hash everything, and write nothing");
  command->add_flag("-v,--verbose", flags->verbose, "List every tensor");
  command->callback([flags, &session] { session.outcome = convert_command(*flags, session.json); });
}

}  // namespace tandem
