#include <cstdlib>

#include "formats/safetensors/testing.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {

using safetensors::entry;
using safetensors::file_of;
using safetensors::header_of;

void fuzz_one(std::span<const std::byte> bytes) {
  const auto file = parse_safetensors({bytes.begin(), bytes.end()}, "fuzz");
  if (!file.ok()) return;
  for (const TensorInfo& tensor : file.value()->tensors()) {
    std::vector<std::byte> data(byte_count(tensor.dtype, tensor.shape).value());
    if (!file.value()->read(tensor.name, 0, data).ok()) std::abort();  // accepted, so it must be there
  }
}

std::vector<std::string> seeds() {
  const std::string a = entry("a", "F32", {2}, 0, 8);
  return {
      file_of("{}"),
      file_of(header_of({a}), "12345678"),
      file_of(
          header_of({R"("__metadata__":{"format":"pt","k":"\u00e9"})", a, entry("b", "BF16", {1, 3}, 8, 14),
                     entry("empty", "I64", {3, 0}, 14, 14), entry("scalar", "U8", {}, 14, 15)}) +
              "   ",
          "123456789012345"),
      file_of(header_of({entry("a", "U8", {2, UINT64_MAX - 1}, 0, 0)})),
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 49\n",
      std::string("PK\3\4\0\0\x08\x08\0\0\0\0", 12),
  };
}

}  // namespace tandem::fuzz
