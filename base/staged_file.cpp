#include "base/staged_file.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

namespace tandem {

Result<StagedFile> StagedFile::make(const FileSystem& files, const std::string& output) {
  const std::filesystem::path path(output);
  const std::string name = path.filename().string();
  if (name.empty() || name == "." || name == "..")
    return invalid("staging_c1", "the output needs the name of a file").at(output);
  TANDEM_TRY(const PathKind kind, files.kind(output));
  if (kind != PathKind::absent && kind != PathKind::file)
    return exists({}, "the output is there, and is no regular file").at(output);
  StagedFile staged(files, output,
                    (path.parent_path() / fmt::format(".{}.tandem-{}", name, getpid())).string());
  Status made = write_text(files, staged.staged_, "");
  if (!made.ok()) return cannot_create(std::move(made).error()).at(output);
  return staged;
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : files_(other.files_),
      output_(std::move(other.output_)),
      staged_(std::exchange(other.staged_, std::string())) {}

StagedFile::~StagedFile() {
  if (!staged_.empty()) (void)files_->remove_all(staged_);
}

Status StagedFile::commit(std::string_view text) {
  TANDEM_CHECK(write_text(*files_, staged_, text));
  TANDEM_CHECK(files_->rename(staged_, output_));
  staged_.clear();
  return {};
}

}  // namespace tandem
