#pragma once
// The safetensors format, read and written.
//
//   file   = u64 LE header length N, N bytes of JSON, data
//   header = { "__metadata__": {text: text}, NAME: ENTRY, ... }
//   ENTRY  = { "dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end] }
//
// Offsets are relative to the data's start. Tensors cover the data without hole or overlap; spaces may follow
// the JSON. docs/formats/safetensors.md has the grammar, a worked example and every rule.
// Source: https://github.com/huggingface/safetensors, README.md "Format".

#include <functional>
#include <map>
#include <memory>

#include "base/piece_file.h"
#include "base/tensor_source.h"

namespace tandem {

struct SafetensorsLimits {
  uint64_t max_header_bytes = 100'000'000;
  uint64_t max_tensors = 1'000'000;
  size_t max_rank = 8;
  size_t max_name_bytes = 1024;
};

/// One file, its header read and checked whole; data is read on demand.
class SafetensorsFile : public TensorSource {
 public:
  /// Errors: one rule a row S1-S19 of the hostile cases (the row is the label; S10 names the tensor that is
  /// cut), R3 (limits), C05 (header above its limit), C06 (pointer file, HTML page), P16 (another format),
  /// safetensors_c1 (fields of an entry).
  static Result<std::unique_ptr<SafetensorsFile>> open(const FileSystem& files, const std::string& path,
                                                       const SafetensorsLimits& limits = {});
  virtual const std::map<std::string, std::string>& metadata() const = 0;
  /// Things that are legal but worth a word ("data starts at byte 1003, not a multiple of 8").
  virtual const std::vector<std::string>& warnings() const = 0;
  /// Byte offset in the file of a tensor's data.
  virtual uint64_t data_offset(std::string_view tensor) const = 0;
  /// Gives the file back to the system; what is known of it stays. Not while it is read, nor while a window
  /// on it is used; reads afterwards are errors (missing).
  virtual void close() = 0;
};

/// The tensors in the order in which the reference library lays them out: wide dtypes first, so that each
/// tensor begins at a multiple of its element size, then by name. A file written so is byte for byte the
/// reference library's.
std::vector<TensorInfo> file_layout(std::vector<TensorInfo> tensors);

/// The header bytes (length prefix included, padded with spaces to a multiple of 8) for tensors laid back to
/// back in the order given. Errors: safetensors_c2 a text is not UTF-8, c3 a name twice or "__metadata__", c4
/// sizes beyond 64 bits, shape_c1.
Result<std::string> safetensors_header(const std::vector<TensorInfo>& tensors,
                                       const std::map<std::string, std::string>& metadata);

/// Writes tensors of a source, in the order given, streaming; the metadata always has "format": "pt".
/// `progress` (may be empty) is told the bytes written so far.
Status write_safetensors(const FileSystem& files, const std::string& path, const TensorSource& source,
                         const std::vector<TensorInfo>& tensors,
                         const std::map<std::string, std::string>& metadata = {},
                         const std::function<Status(uint64_t)>& progress = {});
/// The same into a file that is open, new and empty; it is not closed. The header is its first part, and each
/// tensor one.
Status write_safetensors(PieceFile& file, const TensorSource& source, const std::vector<TensorInfo>& tensors,
                         const std::map<std::string, std::string>& metadata = {},
                         const std::function<Status(uint64_t)>& progress = {});

/// A whole file in memory, as engines exchange them. Errors as open.
Result<std::unique_ptr<SafetensorsFile>> parse_safetensors(std::vector<std::byte> bytes, std::string label);

}  // namespace tandem
