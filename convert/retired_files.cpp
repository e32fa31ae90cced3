#include "convert/retired_files.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"

namespace tandem {
namespace {

constexpr int kVersion = 1;

class RetiredReadable : public ReadableFile {
 public:
  RetiredReadable(std::string path, const RetiredFile& file) : path_(std::move(path)), file_(file) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return file_.bytes; }
  int64_t modified_ns() const override { return file_.modified_ns; }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > file_.header.size() || out.size() > file_.header.size() - offset)
      return missing("retired_c2", "deleted after it was converted, as --delete-source-as-done asks")
          .at(path_);
    std::memcpy(out.data(), file_.header.data() + offset, out.size());
    return {};
  }

 private:
  std::string path_;
  const RetiredFile& file_;
};

/// The path as the map has it: absolute, without "." and doubled or trailing slashes.
std::string key_of(const std::string& path) {
  std::string key;
  for (const char c : absolute_path(path))
    if (c != '/' || key.empty() || key.back() != '/') key.push_back(c);
  for (size_t at = key.find("/./"); at != key.npos; at = key.find("/./")) key.erase(at, 2);
  while (key.size() > 1 && key.ends_with('/')) key.pop_back();
  return key;
}

std::string parent_of(const std::string& key) { return key.substr(0, key.rfind('/')); }

}  // namespace

std::string to_text(const RetiredFile& file) {
  return Json{{"tandem_retired", kVersion},
              {"path", file.path},
              {"bytes", file.bytes},
              {"modified_ns", file.modified_ns}}
             .dump() +
         "\n" + file.header;
}

Result<RetiredFile> retired_from_text(std::string_view text) {
  const auto wrong = [] { return corrupt("retired_c1", "not what is kept of a file of the source"); };
  const size_t end = text.find('\n');
  if (end == text.npos) return wrong();
  TANDEM_TRY(const Json json, parse_json(text.substr(0, end)));
  if (!json.is_object() || json.value("tandem_retired", Json()) != kVersion || !json.contains("path") ||
      !json["path"].is_string() || !json.contains("bytes") || !json["bytes"].is_number_unsigned() ||
      !json.contains("modified_ns") || !json["modified_ns"].is_number_integer())
    return wrong();
  RetiredFile file{json["path"].get<std::string>(), json["bytes"].get<uint64_t>(),
                   json["modified_ns"].get<int64_t>(), std::string(text.substr(end + 1))};
  if (file.header.size() > file.bytes) return wrong();
  return file;
}

WithRetired::WithRetired(const FileSystem& inner, std::vector<RetiredFile> files) : inner_(inner) {
  for (RetiredFile& file : files) {
    std::string key = key_of(file.path);
    retired_.emplace(std::move(key), std::move(file));
  }
}

Result<const RetiredFile*> WithRetired::gone(const std::string& path) const {
  const auto found = retired_.find(key_of(path));
  if (found == retired_.end()) return nullptr;
  TANDEM_TRY(const PathKind there, inner_.kind(path));
  return there == PathKind::absent ? &found->second : nullptr;
}

Result<std::unique_ptr<ReadableFile>> WithRetired::open(const std::string& path, bool follow_links) const {
  TANDEM_TRY(const RetiredFile* file, gone(path));
  if (!file) return inner_.open(path, follow_links);
  return std::unique_ptr<ReadableFile>(std::make_unique<RetiredReadable>(path, *file));
}

Result<PathKind> WithRetired::kind(const std::string& path) const {
  TANDEM_TRY(const RetiredFile* file, gone(path));
  return file ? PathKind::file : inner_.kind(path);
}

Result<std::string> WithRetired::resolve(const std::string& path) const {
  TANDEM_TRY(const RetiredFile* file, gone(path));
  if (!file) return inner_.resolve(path);
  const std::string key = key_of(path);
  TANDEM_TRY(const std::string folder, inner_.resolve(parent_of(key)));
  return join(folder, key.substr(key.rfind('/') + 1));
}

Result<std::vector<std::string>> WithRetired::list(const std::string& path) const {
  TANDEM_TRY(std::vector<std::string> names, inner_.list(path));
  const std::string folder = key_of(path);
  for (const auto& [key, file] : retired_)
    if (parent_of(key) == folder) names.push_back(key.substr(key.rfind('/') + 1));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tandem
