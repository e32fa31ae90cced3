#include "formats/tensor_bundle/bundle_prefix.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace tandem {
namespace {

constexpr std::string_view kIndexSuffix = ".index";
constexpr std::string_view kStateFile = "checkpoint";

Result<bool> is_file(const FileSystem& files, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  return kind == PathKind::file;
}

/// PREFIX of "PREFIX.data-00000-of-00001", or nothing.
std::optional<std::string> data_file_prefix(const std::string& path) {
  constexpr std::string_view kPattern = ".data-NNNNN-of-NNNNN";  // N: a digit
  if (path.size() <= kPattern.size()) return std::nullopt;
  const size_t begin = path.size() - kPattern.size();
  const bool fits =
      std::equal(kPattern.begin(), kPattern.end(), path.begin() + static_cast<ptrdiff_t>(begin),
                 [](char want, char c) { return want == 'N' ? c >= '0' && c <= '9' : want == c; });
  return fits ? std::optional(path.substr(0, begin)) : std::nullopt;
}

/// The text of a quoted string in protobuf's text form.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
    } else if (const char c = text[++i]; c >= '0' && c <= '7') {
      int value = 0;
      for (size_t digits = 0; digits < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7';
           ++digits, ++i)
        value = value * 8 + (text[i] - '0');
      --i;
      out.push_back(static_cast<char>(value));
    } else {
      out.push_back(c);  // \" \' \\ stand for themselves
    }
  }
  return out;
}

/// The model_checkpoint_path of a state file, whose other lines list older checkpoints.
Result<std::string> latest_checkpoint(const FileSystem& files, const std::string& state_path) {
  constexpr std::string_view kField = "model_checkpoint_path:";
  TANDEM_TRY(const std::string text, read_text(files, state_path, 1 << 20));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const size_t first = line.find('"'), last = line.rfind('"');
    if (line.starts_with(kField) && first < last) return unescape(line.substr(first + 1, last - first - 1));
    begin = end + 1;
  }
  return corrupt("C24", "no line of this state file begins with {}", kField).at(state_path);
}

Result<std::string> prefix_in_folder(const FileSystem& files, const std::string& folder) {
  const std::string state_path = join(folder, kStateFile);
  TANDEM_TRY(const bool has_state, is_file(files, state_path));
  if (has_state) {
    TANDEM_TRY(std::string name, latest_checkpoint(files, state_path));
    // An absolute path is where the checkpoint was written; the bundle itself lies beside its state file.
    name = name.starts_with("/") ? std::filesystem::path(name).filename().string() : name;
    TANDEM_TRY(const std::string index, path_inside(files, folder, name + std::string(kIndexSuffix)));
    return index.substr(0, index.size() - kIndexSuffix.size());
  }
  TANDEM_TRY(const std::vector<std::string> names, files.list(folder));
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (name.ends_with(kIndexSuffix)) found.push_back(name.substr(0, name.size() - kIndexSuffix.size()));
  if (found.empty())
    return missing("C24", "no checkpoint in this folder (no file ends in .index)").at(folder);
  if (found.size() > 1)
    return invalid("C24", "{} checkpoints in this folder and no file `checkpoint` that chooses: {}",
                   found.size(), fmt::join(found, ", "))
        .at(folder)
        .because("name one of them, for example " + join(folder, found.front()));
  return join(folder, found.front());
}

}  // namespace

Result<std::string> bundle_prefix(const FileSystem& files, const std::string& path) {
  std::string prefix = path;
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::directory) {
    TANDEM_TRY(prefix, prefix_in_folder(files, path));
  } else if (path.ends_with(kIndexSuffix)) {
    prefix = path.substr(0, path.size() - kIndexSuffix.size());
  } else if (auto stem = data_file_prefix(path)) {
    prefix = *stem;
  }
  const std::string index = prefix + std::string(kIndexSuffix);
  TANDEM_TRY(const bool has_index, is_file(files, index));
  if (has_index) return prefix;
  if (kind == PathKind::file)
    return corrupt("C26", "{} does not exist, without it the data files cannot be read", index).at(path);
  return missing("C26", "this file does not exist")
      .at(index)
      .because("a checkpoint is a prefix: PREFIX.index and PREFIX.data-*");
}

}  // namespace tandem
