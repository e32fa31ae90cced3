#include "cli/convert_flags.h"

#include <algorithm>

namespace tandem {
namespace {

Result<DType> storage_named(const std::string& flag, const std::string& name,
                            std::initializer_list<DType> allowed) {
  const std::optional<DType> dtype = dtype_named(name);
  if (dtype && std::find(allowed.begin(), allowed.end(), *dtype) != allowed.end()) return *dtype;
  std::string known;
  for (const DType each : allowed) known += fmt::format(" {}", row(each).long_name);
  return usage("", "{} {}: expected one of{}", flag, name, known);
}

}  // namespace

Result<ConvertOptions> options_of(const ConvertFlags& flags) {
  ConvertOptions options = flags.options;
  if (!flags.to.empty()) {
    TANDEM_TRY(options.to, target_named(flags.to));
  }
  if (flags.dtype != "keep") {
    TANDEM_TRY(options.dtype, storage_named("--dtype", flags.dtype, {DType::f32, DType::bf16, DType::f16}));
  }
  TANDEM_TRY(options.compute, storage_named("--compute", flags.compute, {DType::f32, DType::bf16}));
  TANDEM_TRY(options.matmul_precision,
             storage_named("--matmul-precision", flags.matmul_precision, {DType::f32, DType::bf16}));
  if (flags.layout != "tensorflow" && flags.layout != "source")
    return usage("", "--layout {}: expected tensorflow or source", flags.layout);
  options.layout = flags.layout == "source" ? WeightLayout::source : WeightLayout::tensorflow;
  const std::optional<Place> place = place_named(flags.place);
  if (!place) return usage("", "--place {}: expected hard-link, reflink or copy", flags.place);
  options.place = *place;
  if (!flags.max_shard_size.empty()) {
    TANDEM_TRY(options.max_shard_bytes, bytes_named("--max-shard-size", flags.max_shard_size));
  }
  if (!flags.memory.empty()) {
    TANDEM_TRY(options.memory, bytes_named("--memory", flags.memory));
  }
  options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  return options;
}

void add_threads(CLI::App& command, unsigned& threads) {
  command
      .add_option("--threads", threads,
                  "That read, convert, write and hash (default: the processors, at most 4)")
      ->check(CLI::Range(1u, 64u));
}

void add_convert_flags(CLI::App& command, ConvertFlags& flags, bool needs_destination) {
  ConvertOptions& options = flags.options;
  command.add_option("SRC", flags.source, "Hugging Face folder, SavedModel, or checkpoint prefix")
      ->required();
  command.add_option("DST", flags.destination, "The folder to make")->required(needs_destination);
  command.add_option("--to", flags.to, "saved_model (default), checkpoint or safetensors");
  command.add_option("--dtype", flags.dtype, "Storage: keep (default), float32, bfloat16 or float16");
  command.add_option("--compute", flags.compute,
                     "Arithmetic of the SavedModel: float32 (default) or bfloat16");
  command.add_option(
      "--matmul-precision", flags.matmul_precision,
      "With --layout source: float32 (default), or bfloat16, in which decode_xla then multiplies "
      "kernels that are stored so; sums are float32");
  command.add_flag("--inline", options.inlined,
                   "Write serving_default as one graph, for tools that cannot see into functions");
  command.add_option(
      "--like", options.like,
      "Going back: the original, for dtypes, fp8 scales and tensors that the graph does not use");
  command.add_option("--map", options.map_file, "An edited structure map (tandem map --out)");
  command.add_option(
      "--max-shard-size", flags.max_shard_size,
      "Most bytes of one file of weights, as 2GB (default 5GB; going back, the original's split)");
  command.add_option("--layout", flags.layout,
                     "tensorflow (default), or source: no copy, the safetensors files are the model's data");
  command.add_option("--place", flags.place,
                     "With --layout source: hard-link (default), reflink or copy the files");
  command.add_option("--stages", options.stages,
                     "Make so many SavedModels of consecutive layers, each for a machine of its own");
  command.add_option(
      "--memory", flags.memory,
      "What the process may take, besides three times the headers (default 256MiB, at least 56MiB)");
  command.add_flag(
      "!--no-sha256", options.sha256,
      "Leave the SHA-256 of each file out of its manifest: CRC-32C alone, for disks faster than 3 GB/s");
  command.add_flag("--delete-source-as-done", options.delete_source,
                   "Delete each file of SRC once all that is in it is written, synced and read back");
  command.add_flag("--force", options.force, "Replace DST if it is a model");
  command.add_flag("--allow-tied-head", options.allow_tied_head,
                   "Tie a head that is missing though the config says untied");
  command.add_flag("--with-mtp", options.with_mtp,
                   "Run the layer of multi-token prediction: generate_greedy_speculative drafts with it");
  command.add_flag("--without-mtp", options.without_mtp,
                   "Going back: leave out carried tensors that are not there");
  command.add_flag("--strict", options.strict, "Warnings about the source are errors");
  add_accepted_keys(command, flags.accepted_keys);
  add_limits(command, options.limits);
}

}  // namespace tandem
