#include "convert/retire_source.h"

#include <algorithm>
#include <filesystem>

#include "convert/read_back.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxKeptBytes = 1ull << 30;

std::string parent_of(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }

}  // namespace

Result<WithRetired> with_retired(const FileSystem& files, const std::string& output) {
  TANDEM_TRY(const std::vector<std::string> kept, WorkFolder::kept(files, output));
  std::vector<RetiredFile> retired;
  for (const std::string& path : kept) {
    TANDEM_TRY(const std::string text, read_text(files, path, kMaxKeptBytes));
    auto file = retired_from_text(text);
    if (!file.ok()) return std::move(file).error().at(path);
    retired.push_back(std::move(file).value());
  }
  return WithRetired(files, std::move(retired));
}

uint64_t disk_beside_source(const Conversion& conversion, const std::vector<bool>& done) {
  std::map<std::string, uint64_t> bytes_of;
  for (const InputFile& input : conversion.inputs()) bytes_of[input.path] = input.bytes;
  auto files = conversion.consumed_files();
  // What is done and its source is as good as written and deleted.
  std::erase_if(files, [&](const auto& entry) {
    return std::ranges::all_of(entry.second, [&](size_t task) { return done[task]; });
  });
  int64_t now = 0, most = 0;
  for (size_t task = 0; task < done.size(); ++task) {
    if (done[task]) continue;
    now += static_cast<int64_t>(conversion.shards()[task].bytes);
    most = std::max(most, now);
    for (const auto& [path, tasks] : files) {
      const auto last = std::ranges::max(tasks);
      if (last == task) now -= static_cast<int64_t>(bytes_of[path]);
    }
  }
  return static_cast<uint64_t>(most);
}

Status SourceRetirement::done(size_t task, const WrittenShard& written) {
  written_[task] = written;
  for (const auto& [path, tasks] : conversion_.consumed_files()) {
    if (std::ranges::count(tasks, task) == 0) continue;
    const bool all = std::ranges::all_of(tasks, [&](size_t each) { return written_.contains(each); });
    TANDEM_TRY(const PathKind there, files_.kind(path));
    if (all && there == PathKind::file) TANDEM_CHECK(retire(path, tasks));
  }
  return {};
}

Status SourceRetirement::retire(const std::string& path, const std::vector<size_t>& tasks) {
  for (const size_t task : tasks) {
    const WrittenShard& written = written_.at(task);
    for (const WrittenTensor& tensor : written.tensors)
      if (tensor.counts.overflowed > 0)
        return invalid("convert_c2", "{}: {} values overflow", tensor.name, tensor.counts.overflowed)
            .at(path)
            .because("the file stays");
    if (read_back_.contains(task)) continue;
    TANDEM_CHECK(is_as_written(files_, join(work_.out(), conversion_.shards()[task].file), written.sums));
    read_back_.insert(task);
  }
  const auto input = std::ranges::find(conversion_.inputs(), path, &InputFile::path);
  TANDEM_TRY(const auto file, source_.open(path));
  if (file->size() != input->bytes || file->modified_ns() != input->modified_ns)
    return invalid("convert_c8", "the source changed since the conversion was planned").at(path);
  RetiredFile kept{path, input->bytes, input->modified_ns, std::string(input->header_bytes, '\0')};
  TANDEM_CHECK(file->read(0, std::as_writable_bytes(std::span(kept.header))));
  TANDEM_CHECK(work_.keep(std::filesystem::path(path).filename().string(), to_text(kept)));
  TANDEM_CHECK(work_.sync());  // files are synced, but new folders are not yet
  conversion_.close_input(path);
  TANDEM_CHECK(files_.remove_all(path));
  return files_.sync_directory(parent_of(path));
}

}  // namespace tandem
