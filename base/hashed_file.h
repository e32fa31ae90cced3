#pragma once
// Files that know what was written into them, and files that keep nothing.

#include "base/background_hash.h"
#include "base/file.h"
#include "base/hash.h"

namespace tandem {

/// Of bytes that were appended to a file.
struct FileDigest {
  uint64_t bytes = 0;
  BackgroundSha256 sha256;
  uint32_t crc32c = 0;
  /// Of all bytes; to be called when the last are there.
  std::string hex() {
    sha256.end("file");
    return sha256.hex("file");
  }
};

/// Passes everything on, and adds it to `digest`, which must outlive it.
class HashedFile : public WritableFile {
 public:
  HashedFile(std::unique_ptr<WritableFile> inner, FileDigest& digest)
      : inner_(std::move(inner)), digest_(digest) {}
  Status append(std::span<const std::byte> bytes) override {
    digest_.bytes += bytes.size();
    digest_.sha256.update(bytes);
    digest_.crc32c = crc32c(digest_.crc32c, bytes);
    return inner_->append(bytes);
  }
  Status close() override { return inner_->close(); }

 private:
  std::unique_ptr<WritableFile> inner_;
  FileDigest& digest_;
};

/// A file that nothing is kept of.
class NullFile : public WritableFile {
 public:
  Status append(std::span<const std::byte>) override { return {}; }
  Status close() override { return {}; }
};

}  // namespace tandem
