#include "convert/source_layout.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/hash.h"
#include "convert/match_report.h"

namespace tandem {
namespace {

/// The name in the checkpoint that a plan's tensor has: its own, or that of the copy tied to it.
std::string name_of(const TensorPlan& plan, const TensorSource& checkpoint,
                    const std::map<std::string, std::string>& twins) {
  const auto twin = twins.find(plan.row->hf);
  return checkpoint.find(plan.hf.front()) || twin == twins.end() ? plan.hf.front() : twin->second;
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

namespace {

/// Where CRCs of their own begin and end: tensors, and blocks of the file.
std::vector<uint64_t> ends_of(const DataShard& shard, const SourceShard& source) {
  std::set<uint64_t> ends{shard.bytes};
  for (uint64_t block = kSumBlock; block < shard.bytes; block += kSumBlock) ends.insert(block);
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    const TensorInfo& info = shard.tensors[i];
    ends.insert({source.offsets[i], source.offsets[i] + byte_count(info.dtype, info.shape).value()});
  }
  return {ends.begin(), ends.end()};
}

/// The CRC-32C of bytes [begin, end) from those of the stretches that they are.
uint32_t crc_of(uint64_t begin, uint64_t end, std::span<const uint64_t> ends,
                std::span<const uint32_t> crcs) {
  uint32_t crc = 0;
  for (auto i = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
       begin < end; ++i) {
    crc = crc32c_combine(crc, crcs[i], ends[i] - begin);
    begin = ends[i];
  }
  return crc;
}

/// Copies the file, stretch by stretch.
Result<std::vector<uint32_t>> copied(const ReadableFile& from, std::span<const uint64_t> ends,
                                     std::unique_ptr<WritableFile> to, unsigned threads,
                                     const OnBytes& on_bytes) {
  PieceFile copy(std::move(to), {.sha256 = false, .threads = threads});
  std::mutex mutex;
  for (const uint64_t end : ends) {
    const uint64_t begin = copy.bytes();
    TANDEM_CHECK(copy.append(end - begin, [&](uint64_t offset, std::span<std::byte> out) -> Status {
      TANDEM_CHECK(from.read(begin + offset, out));
      const std::lock_guard lock(mutex);
      return on_bytes(out.size());
    }));
  }
  TANDEM_CHECK(copy.close());
  return copy.crcs();
}

}  // namespace

Result<WrittenShard> write_source_shard(const FileSystem& files, const DataShard& shard,
                                        const SourceShard& source, unsigned threads,
                                        std::unique_ptr<WritableFile> file, const OnBytes& on_bytes) {
  TANDEM_TRY(const auto original, files.open(source.path));
  const std::vector<uint64_t> ends = ends_of(shard, source);
  TANDEM_TRY(const std::vector<uint32_t> crcs,
             file ? copied(*original, ends, std::move(file), threads, on_bytes)
                  : crcs_of(*original, ends, threads, on_bytes));
  FileSums sums{shard.bytes, crc_of(0, shard.bytes, ends, crcs), {}, {}};
  for (uint64_t block = 0; block < shard.bytes; block += kSumBlock)
    sums.blocks.push_back(crc_of(block, std::min(block + kSumBlock, shard.bytes), ends, crcs));
  std::vector<uint32_t> of_tensors;
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    const TensorInfo& info = shard.tensors[i];
    const uint64_t begin = source.offsets[i];
    of_tensors.push_back(crc_of(begin, begin + byte_count(info.dtype, info.shape).value(), ends, crcs));
  }
  return written_shard(shard, std::move(sums), of_tensors, [](const std::string&) { return CastCounts{}; });
}

}  // namespace tandem
