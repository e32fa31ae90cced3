#include "base/fault_files.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 10> kActions{"open", "create",         "read",   "write",  "close",
                                                    "list", "make directory", "rename", "remove", "sync"};

/// Loading counts as reading.
class FaultyWindow : public FileWindow {
 public:
  FaultyWindow(const FaultyFiles& files, std::string path, std::unique_ptr<FileWindow> inner)
      : files_(files), path_(std::move(path)), inner_(std::move(inner)) {}
  const std::byte* bytes() const override { return inner_->bytes(); }
  Status load(uint64_t first, uint64_t count) override {
    TANDEM_CHECK(files_.step(FileCall::read, path_));
    return inner_->load(first, count);
  }
  Status intact() const override { return inner_->intact(); }

 private:
  const FaultyFiles& files_;
  std::string path_;
  std::unique_ptr<FileWindow> inner_;
};

class FaultyReadable : public ReadableFile {
 public:
  FaultyReadable(const FaultyFiles& files, std::unique_ptr<ReadableFile> inner)
      : files_(files), inner_(std::move(inner)) {}
  const std::string& path() const override { return inner_->path(); }
  uint64_t size() const override { return inner_->size(); }
  bool has_other_names() const override { return inner_->has_other_names(); }
  int64_t modified_ns() const override { return inner_->modified_ns(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    TANDEM_CHECK(files_.step(FileCall::read, path()));
    return inner_->read(offset, out);
  }
  std::unique_ptr<FileWindow> window(uint64_t offset, uint64_t size) const override {
    auto inner = inner_->window(offset, size);
    if (!inner) return nullptr;
    return std::make_unique<FaultyWindow>(files_, path(), std::move(inner));
  }

 private:
  const FaultyFiles& files_;
  std::unique_ptr<ReadableFile> inner_;
};

class FaultyWritable : public WritableFile {
 public:
  FaultyWritable(const FaultyFiles& files, std::string path, std::unique_ptr<WritableFile> inner)
      : files_(files), path_(std::move(path)), inner_(std::move(inner)) {}
  Status append(std::span<const std::byte> bytes) override {
    if (Status failed = files_.step(FileCall::write, path_); !failed) {
      TANDEM_CHECK(inner_->append(bytes.first(bytes.size() / 2)));
      TANDEM_CHECK(inner_->close());  // so that the half is really there
      return failed;
    }
    return inner_->append(bytes);
  }
  Status close() override {
    TANDEM_CHECK(files_.step(FileCall::close, path_));
    return files_.boundary([&] { return inner_->close(); });
  }

 private:
  const FaultyFiles& files_;
  std::string path_;
  std::unique_ptr<WritableFile> inner_;
};

}  // namespace

void FaultyFiles::fail(FileCall call, uint64_t k, int errno_value, bool stays) {
  failing_ = call;
  at_ = k;
  errno_value_ = errno_value;
  stays_ = stays;
  for (auto& count : counts_) count = 0;
}

Status FaultyFiles::step(FileCall call, const std::string& path) const {
  const uint64_t number = ++counts_[static_cast<size_t>(call)];
  if (call != failing_ || at_ == 0 || number < at_ || (number > at_ && !stays_)) return {};
  return file_error(kActions[static_cast<size_t>(call)], path, errno_value_);
}

Result<std::unique_ptr<ReadableFile>> FaultyFiles::open(const std::string& path, bool follow_links) const {
  TANDEM_CHECK(step(FileCall::open, path));
  TANDEM_TRY(auto file, inner_.open(path, follow_links));
  return std::unique_ptr<ReadableFile>(std::make_unique<FaultyReadable>(*this, std::move(file)));
}

Result<std::unique_ptr<WritableFile>> FaultyFiles::create(const std::string& path) const {
  TANDEM_CHECK(step(FileCall::create, path));
  TANDEM_TRY(auto file, inner_.create(path));
  return std::unique_ptr<WritableFile>(std::make_unique<FaultyWritable>(*this, path, std::move(file)));
}

Result<std::vector<std::string>> FaultyFiles::list(const std::string& path) const {
  TANDEM_CHECK(step(FileCall::list, path));
  return inner_.list(path);
}

Status FaultyFiles::make_directories(const std::string& path) const {
  TANDEM_CHECK(step(FileCall::make_directories, path));
  return inner_.make_directories(path);
}

Status FaultyFiles::rename(const std::string& from, const std::string& to) const {
  TANDEM_CHECK(step(FileCall::rename, to));
  return boundary([&] { return inner_.rename(from, to); });
}

Status FaultyFiles::remove_all(const std::string& path) const {
  TANDEM_CHECK(step(FileCall::remove, path));
  return inner_.remove_all(path);
}

Status FaultyFiles::sync_directory(const std::string& path) const {
  TANDEM_CHECK(step(FileCall::sync, path));
  return boundary([&] { return inner_.sync_directory(path); });
}

}  // namespace tandem
