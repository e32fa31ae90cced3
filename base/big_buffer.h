#pragma once
// Memory for bytes that pass through.

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace tandem {

struct FreeMemory {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using BigBuffer = std::unique_ptr<std::byte[], FreeMemory>;

/// `size` bytes that are not set. From 2 MiB on they begin at a huge page and lie on huge pages where the
/// system has them to give: walks across rows miss the TLB less often, and there is one page fault where
/// there were 512. Takes up to 2 MiB more than `size`. Throws std::bad_alloc.
BigBuffer big_buffer(size_t size);

}  // namespace tandem
