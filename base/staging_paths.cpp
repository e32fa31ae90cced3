#include "base/staging_paths.h"

#include <algorithm>
#include <filesystem>

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOld = "-old";

// "PID" or "PID-old".
bool is_ours(std::string_view suffix) {
  if (suffix.ends_with(kOld)) suffix.remove_suffix(kOld.size());
  return !suffix.empty() &&
         std::all_of(suffix.begin(), suffix.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<std::string> output_path(const std::string& output) {
  // ".." is left to the system: behind a link it does not lead back.
  std::string_view trimmed = output;
  while (trimmed.size() > 1 && (trimmed.ends_with('/') || trimmed.ends_with("/."))) trimmed.remove_suffix(1);
  fs::path path = trimmed;
  const std::string name = path.filename().string();
  if (name.empty() || name == "." || name == "..")
    return invalid("staging_c1", "the output \"{}\" has no name of its own", output);
  if (!path.has_parent_path()) path = "." / path;
  return path.string();
}

std::string beside(const std::string& output, std::string_view suffix) {
  const fs::path path(output);
  return (path.parent_path() / fmt::format(".{}.tandem-{}", path.filename().string(), suffix)).string();
}

Error already_there(const std::string& output) {
  return exists({}, "the output exists already").at(output).because("--force replaces it");
}

Status sync_tree(const FileSystem& files, const std::string& root) {
  std::vector<std::string> open{root};
  while (!open.empty()) {
    const std::string folder = std::move(open.back());
    open.pop_back();
    TANDEM_CHECK(files.sync_directory(folder));
    TANDEM_TRY(const auto names, files.list(folder));
    for (const std::string& name : names) {
      TANDEM_TRY(const PathKind kind, files.kind(join(folder, name)));
      if (kind == PathKind::directory) open.push_back(join(folder, name));
    }
  }
  return {};
}

Status clean_up_after_the_dead(const FileSystem& files, const std::string& output) {
  const std::string parent = fs::path(output).parent_path().string();
  const std::string prefix = fs::path(beside(output, "")).filename().string();
  TANDEM_TRY(const auto names, files.list(parent));
  for (const std::string& name : names) {
    if (!name.starts_with(prefix) || !is_ours(std::string_view(name).substr(prefix.size()))) continue;
    TANDEM_TRY(const PathKind kind, files.kind(output));
    if (name.ends_with(kOld) && kind == PathKind::absent) {
      TANDEM_CHECK(files.rename(join(parent, name), output));
    } else {
      TANDEM_CHECK(files.remove_all(join(parent, name)));
    }
  }
  return {};
}

Status put_in_place(const FileSystem& files, const std::string& staged, const std::string& output,
                    const std::string& old, bool force) {
  TANDEM_TRY(const PathKind kind, files.kind(output));
  if (kind == PathKind::absent) return files.rename(staged, output);
  if (!force) return already_there(output);
  Status moved = files.rename(output, old);
  if (moved) moved = files.rename(staged, output);
  if (moved) return moved;
  // Also a rename that was done but not synced comes here: look, rather than guess.
  TANDEM_TRY(const PathKind now, files.kind(output));
  if (now == PathKind::absent && !files.rename(old, output))
    return std::move(moved).error().because(fmt::format("the old output is kept in {}", old));
  return moved;
}

}  // namespace tandem
