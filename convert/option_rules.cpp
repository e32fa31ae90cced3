#include "convert/option_rules.h"

#include <algorithm>

namespace tandem {
namespace {

/// A product with a kernel [out, in] that is stored as bf16.
bool reads_bf16_kernel(const Contract& contract, const Node& node, const std::string& at) {
  if (node.op != "linear" || string_attribute(node, "layout") != "out_in") return false;
  const WeightEntry* kernel = find_weight(contract, full_name(at, node.inputs[1].name));
  return kernel && kernel->storage == DType::bf16;
}

bool has_bf16_product(const Contract& contract) {
  return std::ranges::any_of(find_entry(contract, "logits")->nodes, [&](const Node& node) {
    if (node.op != "call") return reads_bf16_kernel(contract, node, "");
    return std::ranges::any_of(
        find_block(contract, string_attribute(node, "block"))->nodes,
        [&](const Node& inner) { return reads_bf16_kernel(contract, inner, string_attribute(node, "at")); });
  });
}

/// What deletes the source must be able to keep all that was in it.
Status may_delete(const OpenedModel& source, const ConvertOptions& options) {
  if (!options.delete_source) return {};
  if (std::ranges::count(source.folder->tensors(), DType::f8_e4m3, &TensorInfo::dtype) > 0)
    return unsupported(
               "convert_c11",
               "--delete-source-as-done: fp8 weights become another type, and could not be made again")
        .at(source.path);
  if (options.layout == WeightLayout::source)
    return usage("convert_c4",
                 "--delete-source-as-done and --layout source: the output is the source's files");
  if (!options.sha256)
    return usage("convert_c4",
                 "--delete-source-as-done reads files back by their SHA-256: leave out --no-sha256");
  if (options.dtype || !options.write)
    return usage("convert_c4",
                 "--delete-source-as-done: the source could not be made again with --dtype or --sink null");
  return {};
}

Status no_odd_mtp(const ConvertOptions& options) {
  if (!options.with_mtp) return {};
  if (options.stages)
    return usage("convert_c4",
                 "--with-mtp and --stages do not go together: a loop with drafts needs the whole");
  if (!options.map_file.empty())
    return usage("convert_c4",
                 "--with-mtp and --map do not go together: the map itself says what is in the graph");
  return {};
}

Status no_odd_stages(const ConvertOptions& options) {
  if (!options.stages) return {};
  if (options.to.value_or(ConvertTarget::saved_model) != ConvertTarget::saved_model)
    return usage("convert_c4", "--stages makes SavedModels: leave out --to");
  if (options.layout == WeightLayout::source)
    return usage("convert_c4",
                 "--stages and --layout source do not go together: the files of SRC hold layers of several "
                 "stages");
  if (options.inlined)
    return usage("convert_c4",
                 "--stages and --inline do not go together: a stage is called by its signatures");
  if (options.matmul_precision != DType::f32)
    return usage("convert_c4",
                 "--stages and --matmul-precision do not go together: stages have no decode_xla");
  return {};
}

}  // namespace

Status options_go_together(const OpenedModel& source, const ConvertOptions& options) {
  TANDEM_CHECK(no_odd_stages(options));
  TANDEM_CHECK(no_odd_mtp(options));
  return may_delete(source, options);
}

Result<std::string> may_reduce(const Contract& contract, const ConvertOptions& options) {
  if (options.matmul_precision == DType::f32) return std::string();
  if (options.layout != WeightLayout::source || options.compute != DType::f32 || !has_bf16_product(contract))
    return usage(
               "convert_c4",
               "--matmul-precision bfloat16 would change nothing: it is for a graph that computes in float32 "
               "with kernels stored in bfloat16, [out, in]")
        .because("--layout source keeps those of a bfloat16 checkpoint so");
  return std::string(
      "--matmul-precision bfloat16: decode_xla rounds what a kernel is multiplied with to bfloat16 and sums "
      "in float32; it is made for one row at a time");
}

}  // namespace tandem
