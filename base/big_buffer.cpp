#include "base/big_buffer.h"

#include <sys/mman.h>

#include <new>

namespace tandem {

constexpr size_t kHugePage = 2 << 20;

BigBuffer big_buffer(size_t size) {
  const bool huge = size >= kHugePage;
  const size_t rounded = huge ? (size + kHugePage - 1) / kHugePage * kHugePage : size;
  BigBuffer buffer(static_cast<std::byte*>(huge ? std::aligned_alloc(kHugePage, rounded)
                                                : std::malloc(rounded > 0 ? rounded : 1)));
  if (!buffer) throw std::bad_alloc();
  if (huge) madvise(buffer.get(), rounded, MADV_HUGEPAGE);  // advice: small pages work too
  return buffer;
}

}  // namespace tandem
