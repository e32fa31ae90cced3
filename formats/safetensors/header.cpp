// A file's header against the file: length, foreign formats, and tensors that cover the data without hole or
// overlap.

#include "formats/safetensors/header.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "formats/safetensors/sniff.h"

namespace tandem::safetensors {
namespace {

constexpr uint64_t kPrefix = sizeof(uint64_t);
constexpr const char* kCutOff = "the file is cut off; was its download interrupted?";

/// What a file is when it is not safetensors, or the plain complaint where that is not known.
Error not_safetensors(const ReadableFile& file, Error complaint) {
  std::vector<char> head(std::min<uint64_t>(file.size(), 512));
  if (Status read = file.read(0, std::as_writable_bytes(std::span(head))); !read.ok())
    return std::move(read).error();
  const Guess guess = sniff(head);
  if (guess.rule.empty()) return complaint;
  return corrupt(guess.rule, "this is not a safetensors file but {}", guess.what).because(guess.hint);
}

Error cut(const Entry& entry, uint64_t data_size, uint64_t data_end) {
  const uint64_t missing = data_end - data_size;
  return corrupt("S10",
                 "tensor {} is cut off: it takes the bytes [{}, {}) of the data, of which there are {}; {} "
                 "are missing",
                 shown(entry.info.name), entry.begin, entry.end, data_size, missing)
      .because(kCutOff);
}

/// Sorts the entries by place and checks that they cover [0, data_size).
Status check_cover(std::vector<Entry>& entries, uint64_t data_size) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t end = 0;
  const Entry* previous = nullptr;
  const Entry* first_cut = nullptr;
  for (const Entry& entry : entries) {
    if (entry.begin > end)
      return corrupt("S8", "{} bytes of data before tensor {} belong to no tensor ([{}, {}))",
                     entry.begin - end, shown(entry.info.name), end, entry.begin);
    if (entry.begin < end)
      return corrupt("S8", "tensors {} and {} overlap: [{}, {}) and [{}, {})", shown(previous->info.name),
                     shown(entry.info.name), previous->begin, previous->end, entry.begin, entry.end);
    end = entry.end;
    previous = &entry;
    if (end > data_size && !first_cut) first_cut = &entry;
  }
  if (first_cut) return cut(*first_cut, data_size, end);
  if (end < data_size)
    return corrupt("S9", "{} bytes after the last tensor belong to no tensor", data_size - end)
        .because("something was appended to the file");
  return {};
}

Status check_names(const std::vector<Entry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.info.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return corrupt("S6", "tensor {} stands twice in the header", shown(*twice));
  return {};
}

Result<Header> read_checked(const ReadableFile& file, const SafetensorsLimits& limits) {
  if (file.size() < kPrefix)
    return corrupt("S1", "the file has {} bytes, too few for a header length of 8", file.size());
  static_assert(std::endian::native == std::endian::little);
  uint64_t length = 0;
  TANDEM_CHECK(file.read(0, std::as_writable_bytes(std::span(&length, 1))));

  const uint64_t rest = file.size() - kPrefix;
  if (length > rest)
    return not_safetensors(
        file, corrupt("S2", "the header's length is {}, but only {} bytes follow; {} are missing", length,
                      rest, length - rest)
                  .because(kCutOff));
  if (length > limits.max_header_bytes)
    return not_safetensors(
        file, corrupt("C05", "the header has {} bytes, the limit is {}", length, limits.max_header_bytes)
                  .because("--max-header-bytes raises the limit, if the file is trusted"));

  std::vector<char> json(length);
  TANDEM_CHECK(file.read(kPrefix, std::as_writable_bytes(std::span(json))));
  auto header = parse_header(json, limits);
  if (!header.ok()) {
    if (json.empty() || json.front() != '{') return not_safetensors(file, std::move(header).error());
    return header;
  }
  header.value().data_start = kPrefix + length;
  TANDEM_CHECK(check_names(header.value().entries));
  TANDEM_CHECK(check_cover(header.value().entries, rest - length));
  return header;
}

}  // namespace

Result<Header> read_header(const ReadableFile& file, const SafetensorsLimits& limits) {
  auto header = read_checked(file, limits);
  if (!header.ok()) return std::move(header).error().at(file.path());
  return header;
}

}  // namespace tandem::safetensors
