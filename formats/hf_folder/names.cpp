#include "formats/hf_folder/names.h"

#include <algorithm>
#include <array>

#include "formats/safetensors/header.h"

namespace tandem {

using safetensors::shown;

bool is_safetensors_name(std::string_view name) { return name.ends_with(".safetensors"); }

bool is_weight_name(std::string_view name) {
  constexpr std::array kEndings{".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view end) { return name.ends_with(end); });
}

Status check_shard_name(std::string_view name) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
                     name.find_first_of(std::string_view("/\\:\0", 4)) == name.npos;
  if (!plain) return unsafe("X1", "the shard name {} is not a plain file name", shown(name));
  if (!is_safetensors_name(name))
    return corrupt("P16", "the shard name {} does not end in .safetensors", shown(name));
  return {};
}

std::string shard_name(size_t number, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, count);
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + shown(names[i]);
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

}  // namespace tandem
