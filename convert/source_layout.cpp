#include "convert/source_layout.h"

#include <algorithm>

#include "convert/match_report.h"

namespace tandem {
namespace {

constexpr uint64_t kPiece = 4 << 20;

/// The name in the checkpoint that a plan's tensor has: its own, or that of the copy tied to it.
std::string name_of(const TensorPlan& plan, const TensorSource& checkpoint,
                    const std::map<std::string, std::string>& twins) {
  const auto twin = twins.find(plan.row->hf);
  return checkpoint.find(plan.hf.front()) || twin == twins.end() ? plan.hf.front() : twin->second;
}

/// Bytes [begin, end) of a file.
Status copy_range(const ReadableFile& from, uint64_t begin, uint64_t end, WritableFile& to) {
  std::vector<std::byte> buffer;
  for (; begin < end; begin += buffer.size()) {
    buffer.resize(std::min(kPiece, end - begin));
    TANDEM_CHECK(from.read(begin, buffer));
    TANDEM_CHECK(to.append(buffer));
  }
  return {};
}

}  // namespace

Result<RuleTable> in_source_layout(RuleTable rules, const TensorSource& checkpoint) {
  std::vector<std::string> lines;
  for (RuleRow& row : rules.rows) {
    std::erase_if(row.steps, [](const Step& step) {
      return std::holds_alternative<Transpose>(step) || std::holds_alternative<BlockDequantize>(step);
    });
    if (!row.steps.empty() && row.ignore.empty() && row.tied_to.empty())
      lines.push_back(row.hf + ": experts are stacked into one tensor");
    if (row.dtype == "keep") continue;
    for (const TensorPlan& plan : expand(RuleTable{rules.architecture, {row}}))
      if (const TensorInfo* info = checkpoint.find(plan.hf.front());
          info && info->dtype != dtype_named(row.dtype))
        lines.push_back(
            fmt::format("{}: is {}, and is stored as {}", plan.hf.front(), info->dtype, row.dtype));
  }
  for (const TensorInfo& info : checkpoint.tensors())
    if (is_float(info.dtype) && size_of(info.dtype) == 1)
      lines.push_back(fmt::format("{}: is {}", info.name, info.dtype));
  if (lines.empty()) return rules;
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  Error error = all_problems("convert_c10", "--layout source takes tensors as they are", lines);
  error.kind = ErrorKind::unsupported;
  return std::move(error).because("convert without --layout source");
}

Status source_shards(const FileSystem& files, const OpenedModel& source, const RuleTable& rules,
                     const std::vector<TensorPlan>& plans, const TensorSource& tensors,
                     const SafetensorsLimits& limits, std::vector<DataShard>& shards,
                     std::vector<SourceShard>& sources) {
  std::map<std::string, std::string> twins;
  for (const RuleRow& row : rules.rows)
    if (!row.tied_to.empty()) twins[row.tied_to] = row.hf;
  std::map<std::string, std::vector<std::pair<const TensorPlan*, std::string>>> by_file;
  for (const TensorPlan& plan : plans) {
    const std::string name = name_of(plan, *source.folder, twins);
    by_file[source.folder->weight_map().at(name)].emplace_back(&plan, name);
  }
  for (auto& [file, inside] : by_file) {
    SourceShard shard{
        source.format == ModelFormat::safetensors ? source.path : join(source.path, file), {}, {}};
    TANDEM_TRY(const auto opened, SafetensorsFile::open(files, shard.path, limits));
    std::sort(inside.begin(), inside.end(), [&](const auto& a, const auto& b) {
      return opened->data_offset(a.second) < opened->data_offset(b.second);
    });
    TANDEM_TRY(const auto readable, files.open(shard.path));
    DataShard data{{}, {}, readable->size()};
    for (const auto& [plan, name] : inside) {
      data.tensors.push_back(*tensors.find(plan->tf));
      shard.hf_names.push_back(name);
      shard.offsets.push_back(opened->data_offset(name));
    }
    shards.push_back(std::move(data));
    sources.push_back(std::move(shard));
  }
  return {};
}

Result<WrittenShard> write_source_shard(const FileSystem& files, const DataShard& shard,
                                        const SourceShard& source, const TensorSource& tensors,
                                        std::unique_ptr<WritableFile> file, const OnBytes& on_bytes) {
  TANDEM_TRY(const auto original, files.open(source.path));
  FileDigest digest;
  HashedFile hashed(std::move(file), digest);
  const WatchedSource watched(tensors, on_bytes);
  std::vector<std::byte> buffer;
  uint64_t at = 0;
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    const TensorInfo& info = shard.tensors[i];
    TANDEM_CHECK(copy_range(*original, at, source.offsets[i], hashed));  // the header, and what no plan reads
    TANDEM_TRY(const uint64_t bytes, byte_count(info.dtype, info.shape));
    for (uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
      buffer.resize(std::min(kPiece, bytes - offset));
      TANDEM_CHECK(watched.read(info.name, offset, buffer));
      TANDEM_CHECK(hashed.append(buffer));
    }
    at = source.offsets[i] + bytes;
  }
  TANDEM_CHECK(copy_range(*original, at, original->size(), hashed));
  TANDEM_CHECK(hashed.close());
  return written_shard(shard, digest, watched, [](const std::string&) { return CastCounts{}; });
}

}  // namespace tandem
