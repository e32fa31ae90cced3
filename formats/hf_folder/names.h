#pragma once
// File names of a checkpoint folder.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

bool is_safetensors_name(std::string_view name);
/// True for a name that weights may have, in whatever format.
bool is_weight_name(std::string_view name);

/// Errors: unsafe (X1) unless the name is one plain file name; corrupt (P16) if it does not end in
/// .safetensors.
Status check_shard_name(std::string_view name);

/// Shard `number` (from 1) of `count`: "model-00002-of-00003.safetensors".
std::string shard_name(size_t number, size_t count);

/// The first few of many names, for a message.
std::string some_of(const std::vector<std::string>& names);

}  // namespace tandem
