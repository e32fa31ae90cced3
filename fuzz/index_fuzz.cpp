#include <cstdlib>

#include "base/memory_files.h"
#include "formats/hf_folder/hf_folder.h"
#include "formats/safetensors/testing.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

using safetensors::entry;
using safetensors::file_of;
using safetensors::header_of;

void put(const MemoryFiles& files, const std::string& name, std::string_view bytes) {
  if (!write_text(files, join("/m", name), bytes).ok()) std::abort();
}

/// A folder with two shards, and another that no index should name.
const MemoryFiles& folder() {
  static const MemoryFiles files;
  static const bool made = [] {
    if (!files.make_directories("/m/d").ok()) std::abort();
    put(files, "A.safetensors", file_of(header_of({entry("a.0", "U8", {2}, 0, 2)}), "12"));
    put(files, "B.safetensors", file_of(header_of({entry("a.2", "U8", {2}, 0, 2)}), "xy"));
    put(files, "d/C.safetensors", file_of(header_of({entry("a.3", "U8", {1}, 0, 1)}), "z"));
    return true;
  }();
  static_cast<void>(made);
  return files;
}

}  // namespace

/// model.safetensors.index.json beside its shards.
void fuzz_one(std::span<const std::byte> bytes) {
  put(folder(), "model.safetensors.index.json", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto opened = HfFolder::open(folder(), "/m", {});
  if (!opened.ok()) return;
  if (opened.value()->weight_map().size() != opened.value()->tensors().size()) std::abort();
  for (const TensorInfo& tensor : opened.value()->tensors()) {
    std::vector<std::byte> data(byte_count(tensor.dtype, tensor.shape).value());
    if (!opened.value()->read(tensor.name, 0, data).ok()) std::abort();  // accepted, so it must be there
  }
}

std::vector<std::string> seeds() {
  return {
      R"({"metadata":{"total_size":4},"weight_map":{"a.0":"A.safetensors","a.2":"B.safetensors"}})",
      R"({"weight_map":{"a.0":"A.safetensors"}})",
      R"({"weight_map":{"a.0":"A.safetensors","a.1":"B.safetensors","a.2":"A.safetensors","a.3":"C.safetensors"}})",
      R"({"weight_map":{"a.3":"d/C.safetensors"}})",
      R"({"metadata":{"total_size":"4"},"weight_map":{"a.0":"..\/A.safetensors"}})",
      R"({"weight_map":{}})",
  };
}

}  // namespace tandem::fuzz
