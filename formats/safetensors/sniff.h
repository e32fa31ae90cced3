#pragma once
// What the first bytes of a weight file say it is, for messages about files that are not what their name
// says.

#include <span>
#include <string>

namespace tandem::safetensors {

struct Guess {
  std::string
      rule;  ///< C06 for what a failed download leaves, P16 for another weight format; empty if unknown
  std::string what;  ///< "a zip archive, as PyTorch's .bin and .pt files are"
  std::string hint;
};

/// Looks at the first bytes (512 are enough) of a file.
Guess sniff(std::span<const char> head);

/// True if the bytes can be the start of a safetensors file of that size.
bool looks_like_safetensors(std::span<const char> head, uint64_t file_size);

}  // namespace tandem::safetensors
