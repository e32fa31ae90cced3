#pragma once
// Inside of the safetensors reader: header bytes to checked tensor ranges. Users include safetensors.h.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/safetensors/safetensors.h"

namespace tandem::safetensors {

/// A tensor and the bytes [begin, end) of the data that it takes.
struct Entry {
  TensorInfo info;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  ///< as written; read_header sorts them by (begin, end)
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  ///< byte offset in the file
};

/// The JSON text alone. Each entry is checked by itself: its size is that of its dtype and shape.
/// Streams: no tree is built. Errors: S4 S5 S6 S8 S11 S13 S14 S15 S16 R3, and safetensors_c1 for an entry of
/// other fields.
Result<Header> parse_header(std::span<const char> json, const SafetensorsLimits& limits);

/// A file's header, checked against the size of the file: nothing is allocated that the file does not hold.
/// Errors: those of parse_header, S1 S2 S6 S8 S9 S10 C05 C06 P16.
Result<Header> read_header(const ReadableFile& file, const SafetensorsLimits& limits);

/// A name from a file as it may stand in a message: quoted, escaped, cut when long.
std::string shown(std::string_view name);

}  // namespace tandem::safetensors
