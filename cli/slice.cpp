// tandem slice: a few layers of a checkpoint as a checkpoint.

#include "convert/slice.h"

#include "cli/command.h"
#include "cli/progress.h"

namespace tandem {
namespace {

struct Flags {
  std::string source, destination, layers, max_shard_size;
  std::vector<std::string> accepted_keys;
  SliceOptions options;
};

constexpr const char* kFooter =
    "DST is a Hugging Face folder whose layers are those of SRC, byte for byte, numbered from 0. Embedding, "
    "last norm,\n"
    "head, tokenizer and config go along; num_hidden_layers and first_k_dense_replace are changed to fit. "
    "Layers of\n"
    "multi-token prediction are left out, and named; --with-mtp keeps them. Only what is written is read.\n"
    "\n"
    "Examples:\n"
    "  tandem slice ./deepseek-v3 ./v3-4 --layers 0:4             layers 0 to 3: three dense, one mixture\n"
    "  tandem slice ./deepseek-v3 ./v3-moe --layers 58:           the last three\n"
    "  tandem slice ./deepseek-v3 ./v3-4 --layers :4 --max-shard-size 2GB\n"
    "  tandem convert ./v3-4 ./v3-4.savedmodel && tandem verify hf:./v3-4 tf:./v3-4.savedmodel\n";

void print(const SliceReport& report, const std::string& destination) {
  for (const std::string& remark : report.remarks) fmt::print("remark: {}\n", for_terminal(remark));
  for (const std::string& module : report.mtp)
    fmt::print("multi-token prediction, {}: {}\n", report.kept_mtp ? "kept" : "left out",
               for_terminal(module));
  for (const auto& [key, value] : report.config)
    fmt::print("config.json: {} is now {}\n", for_terminal(key), for_terminal(value.dump()));
  fmt::print("{}: layers {} to {} of {}: {} tensors, {}, {} {}, written to {}\n", report.architecture,
             report.begin, report.end - 1, report.of, with_commas(report.tensors), human_bytes(report.bytes),
             report.shards.size(), report.shards.size() == 1 ? "shard" : "shards", for_terminal(destination));
}

Result<int> slice_command(Flags& flags, bool json) {
  TANDEM_TRY(flags.options.layers, layer_range(flags.layers));
  if (!flags.max_shard_size.empty()) {
    TANDEM_TRY(flags.options.max_shard_bytes, bytes_named("--max-shard-size", flags.max_shard_size));
  }
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  std::optional<Progress> progress("copying");
  flags.options.progress = [&progress](uint64_t done, uint64_t total) -> Status {
    progress->show(done, total);
    return {};
  };
  const Result<SliceReport> report =
      slice_model(real_files(), flags.source, flags.destination, flags.options);
  progress.reset();
  if (!report.ok()) return report.error();
  if (json)
    print_json(to_json(report.value()));
  else
    print(report.value(), flags.destination);
  return 0;
}

}  // namespace

void add_slice(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(app, session, "slice", "A few layers of a checkpoint, as a smaller checkpoint", kFooter);
  command->add_option("SRC", flags->source, "Hugging Face folder")->required();
  command->add_option("DST", flags->destination, "The folder to make")->required();
  command->add_option("--layers", flags->layers, "FIRST:END, as 0:4; either may be left out")->required();
  command->add_flag("--with-mtp", flags->options.with_mtp, "Keep the layers of multi-token prediction");
  command->add_option("--max-shard-size", flags->max_shard_size,
                      "Split anew, as 5GB or 2GiB (default: as SRC is split)");
  command->add_flag("--force", flags->options.force, "Replace DST if it is a model");
  add_accepted_keys(*command, flags->accepted_keys);
  add_limits(*command, flags->options.limits);
  command->callback([flags, &session] { session.outcome = slice_command(*flags, session.json); });
}

}  // namespace tandem
