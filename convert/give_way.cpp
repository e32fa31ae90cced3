#include "convert/give_way.h"

#include <optional>

#include "convert/open_model.h"

namespace tandem {
namespace {

/// The real path of an input; of a checkpoint's prefix, that of its folder. Nothing if neither is there.
std::optional<std::string> real_path(const FileSystem& files, const std::string& path) {
  if (auto resolved = files.resolve(path); resolved.ok()) return std::move(resolved).value();
  const size_t slash = path.rfind('/');
  auto folder = files.resolve(slash == path.npos ? "." : path.substr(0, slash + 1));
  return folder.ok() ? std::optional(std::move(folder).value()) : std::nullopt;
}

}  // namespace

Status may_give_way(const FileSystem& files, const std::string& destination,
                    std::span<const std::string> inputs, bool force) {
  TANDEM_TRY(const PathKind kind, files.kind(destination));
  const auto output = files.resolve(destination);
  if (kind == PathKind::absent || !output.ok()) return {};
  for (const std::string& input : inputs) {
    const auto real = input.empty() ? std::nullopt : real_path(files, input);
    if (real && (*real == output.value() || real->starts_with(output.value() + "/")))
      return usage("convert_c4", "the output holds {}, which is read", input)
          .at(destination)
          .because("name another output");
  }
  if (!force) return {};
  if (kind == PathKind::directory) {
    TANDEM_TRY(const auto names, files.list(destination));
    const auto found = detect(files, destination);
    if (names.empty() || found.ok() || found.error().rule == "T7") return {};
  }
  return exists("convert_c7", "the output exists and is no model: --force replaces models only")
      .at(destination)
      .because("remove it, or name another output");
}

}  // namespace tandem
