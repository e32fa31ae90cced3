#pragma once
// For tests and fuzzers: safetensors files, good and broken, built from a few integers.

#include <fmt/ranges.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/safetensors.h"

namespace tandem::safetensors {

/// The eight bytes of a little-endian number.
inline std::string u64(uint64_t value) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

/// A file: the length of the JSON text, the text, the data.
inline std::string file_of(std::string_view json, std::string_view data = "") {
  return u64(json.size()).append(json).append(data);
}

/// "a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
inline std::string entry(std::string_view name, std::string_view dtype, const std::vector<uint64_t>& shape,
                         uint64_t begin, uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, dtype,
                     fmt::join(shape, ","), begin, end);
}

/// {entry, entry}
inline std::string header_of(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

/// The text with spaces behind it, so that the data behind it starts at a multiple of 8.
inline std::string padded(std::string json) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

/// Parses from a heap block of exactly the file's size, so that the sanitizer sees the first byte read too
/// far.
inline Result<std::unique_ptr<SafetensorsFile>> parse(std::string_view bytes) {
  std::vector<std::byte> block(bytes.size());
  if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
  return parse_safetensors(std::move(block), "t.safetensors");
}

}  // namespace tandem::safetensors
