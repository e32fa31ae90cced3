#include "formats/safetensors/sniff.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tandem::safetensors {
namespace {

struct Magic {
  std::string_view start, rule, what, hint;
};
constexpr std::string_view kNotHere = "give the file its right name, or convert it to safetensors first";
constexpr std::string_view kFailedDownload = "download the file again";
constexpr std::array<Magic, 10> kMagics{{
    {"PK\x03\x04", "P16", "a zip archive, as PyTorch's .bin and .pt files are", kNotHere},
    {"\x80\x02", "P16", "a pickle, as old PyTorch files are", kNotHere},
    {"\x80\x03", "P16", "a pickle", kNotHere},
    {"\x80\x04", "P16", "a pickle", kNotHere},
    {"\x80\x05", "P16", "a pickle", kNotHere},
    {"GGUF", "P16", "a GGUF file", kNotHere},
    {"\x89HDF\r\n\x1a\n", "P16", "an HDF5 file", kNotHere},
    {"<!", "C06", "an HTML page", kFailedDownload},
    {"<html", "C06", "an HTML page", kFailedDownload},
    {"<?xml", "C06", "an XML page", kFailedDownload},
}};

/// The value of a "key value" line of a large-file pointer, or nothing.
std::string_view line_value(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == text.npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, text.find('\n'));
}

}  // namespace

Guess sniff(std::span<const char> head) {
  const std::string_view text(head.data(), head.size());
  if (text.starts_with("version https://git-lfs"))
    return {"C06",
            fmt::format("a large-file pointer; the real file has {:.20} bytes", line_value(text, "\nsize ")),
            "fetch the real file with `git lfs pull`"};
  for (const Magic& magic : kMagics)
    if (text.starts_with(magic.start))
      return {std::string(magic.rule), std::string(magic.what), std::string(magic.hint)};
  return {};
}

bool looks_like_safetensors(std::span<const char> head, uint64_t file_size) {
  uint64_t length = 0;
  if (head.size() <= sizeof length || file_size < sizeof length) return false;
  std::memcpy(&length, head.data(), sizeof length);
  return length <= file_size - sizeof length && head[sizeof length] == '{';
}

}  // namespace tandem::safetensors
