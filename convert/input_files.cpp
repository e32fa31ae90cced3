// The files that a conversion reads, and whether they are still what they were.

#include <algorithm>

#include "convert/conversion.h"
#include "convert/match_report.h"
#include "convert/open_model.h"
#include "formats/hf_folder/names.h"

namespace tandem {
namespace {

/// How much of a file is hashed: everything, its safetensors header, or nothing of data alone.
enum class Hashed { header, whole, nothing };

Result<InputFile> look_at(const FileSystem& files, const std::string& path,
                          const std::function<Result<uint64_t>(const ReadableFile&)>& header_bytes) {
  TANDEM_TRY(const auto file, files.open(path));
  InputFile input{absolute_path(path), file->size(), file->modified_ns(), {}, 0};
  TANDEM_TRY(const uint64_t wanted, header_bytes(*file));
  input.header_bytes = std::min(wanted, file->size());
  if (input.header_bytes == 0) return input;
  std::vector<std::byte> header(input.header_bytes);
  TANDEM_CHECK(file->read(0, header));
  input.sha256 = sha256_hex(header);
  return input;
}

/// The header was read before, and fits the file.
Result<uint64_t> safetensors_header_bytes(const ReadableFile& file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return file.size();
  TANDEM_CHECK(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  return sizeof length + std::min(length, file.size() - sizeof length);
}

Status add(const FileSystem& files, const std::string& path, Hashed hashed, std::vector<InputFile>& found) {
  TANDEM_TRY(InputFile input, look_at(files, path, [&](const ReadableFile& file) -> Result<uint64_t> {
               if (hashed == Hashed::header) return safetensors_header_bytes(file);
               return hashed == Hashed::whole ? file.size() : 0;
             }));
  found.push_back(std::move(input));
  return {};
}

Status add_folder(const FileSystem& files, const OpenedModel& model, std::vector<InputFile>& found) {
  if (model.format == ModelFormat::safetensors) return add(files, model.path, Hashed::header, found);
  for (const std::string& shard : model.folder->shards())
    TANDEM_CHECK(add(files, join(model.path, shard), Hashed::header, found));
  if (model.folder->shards() != std::vector<std::string>{kSingleFile})
    TANDEM_CHECK(add(files, join(model.path, kIndexFile), Hashed::whole, found));
  for (const auto& [name, content] : model.side_files)
    TANDEM_CHECK(add(files, join(model.path, name), Hashed::whole, found));
  return {};
}

Status add_stages(const FileSystem& files, const OpenedModel& model, std::vector<InputFile>& found) {
  TANDEM_CHECK(add(files, join(model.path, kStagesFile), Hashed::whole, found));
  for (size_t stage = 0; stage < model.stages->stages.size(); ++stage)
    TANDEM_CHECK(add(files, join(join(model.path, model.stages->folder(stage)), "saved_model.pb"),
                     Hashed::whole, found));
  for (const auto& [name, content] : model.side_files)
    TANDEM_CHECK(add(files, join(model.path, name), Hashed::whole, found));
  return {};
}

Status add_bundle(const FileSystem& files, const OpenedModel& model, std::vector<InputFile>& found) {
  std::set<std::string> shards, indices;
  for (const BundleExtent& extent : model.bundle->extents()) shards.insert(extent.file);
  for (const std::string& shard : shards) {
    TANDEM_CHECK(add(files, shard, Hashed::nothing, found));
    indices.insert(shard.substr(0, shard.rfind(".data-")) + ".index");
  }
  for (const std::string& index : indices) TANDEM_CHECK(add(files, index, Hashed::whole, found));
  if (model.format == ModelFormat::staged) return add_stages(files, model, found);
  if (model.format != ModelFormat::saved_model) return {};
  TANDEM_CHECK(add(files, join(model.path, "saved_model.pb"), Hashed::whole, found));
  for (const auto& [name, content] : model.side_files)
    TANDEM_CHECK(add(files, join(join(model.path, "assets"), name), Hashed::whole, found));
  return {};
}

}  // namespace

Result<std::vector<InputFile>> input_files(const FileSystem& files,
                                           const std::vector<const OpenedModel*>& models,
                                           const std::string& map_file) {
  std::vector<InputFile> found;
  for (const OpenedModel* model : models)
    TANDEM_CHECK(model->folder ? add_folder(files, *model, found) : add_bundle(files, *model, found));
  if (!map_file.empty()) TANDEM_CHECK(add(files, map_file, Hashed::whole, found));
  return found;
}

Result<std::vector<InputFile>> look_again(const FileSystem& files, const std::vector<InputFile>& inputs) {
  std::vector<InputFile> found;
  for (const InputFile& input : inputs) {
    TANDEM_TRY(InputFile now, look_at(files, input.path, [&](const ReadableFile&) -> Result<uint64_t> {
                 return input.header_bytes;
               }));
    found.push_back(std::move(now));
  }
  return found;
}

Status same_inputs(const std::vector<InputFile>& before, const std::vector<InputFile>& now) {
  std::map<std::string, const InputFile*> present;
  for (const InputFile& file : now) present[file.path] = &file;
  std::vector<std::string> lines;
  for (const InputFile& file : before) {
    const auto found = present.find(file.path);
    if (found == present.end()) {
      lines.push_back(file.path + ": is not read any more");
      continue;
    }
    const InputFile& other = *found->second;
    if (other.bytes != file.bytes)
      lines.push_back(fmt::format("{}: had {} bytes, has {}", file.path, file.bytes, other.bytes));
    else if (other.sha256 != file.sha256)
      lines.push_back(file.path + ": its header or text is another");
    else if (other.modified_ns != file.modified_ns)
      lines.push_back(file.path + ": was written to");
    present.erase(found);
  }
  for (const auto& [path, file] : present) lines.push_back(path + ": was not there");
  if (lines.empty()) return {};
  return all_problems("convert_c8", "the source changed since the conversion was planned", lines)
      .because("plan again");
}

}  // namespace tandem
