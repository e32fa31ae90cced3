#include "base/sha256_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

std::vector<std::byte> numbered(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 256 + i / 65536);
  return bytes;
}

/// In pieces of `piece` bytes.
Sha256Tree tree(std::span<const std::byte> bytes, size_t piece) {
  Sha256TreeHash hash;
  for (size_t at = 0; at < bytes.size(); at += piece)
    hash.update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  return hash.finish();
}

/// SHA-256 of the digests of the parts, of `most` bytes each.
Sha256Digest by_definition(std::span<const std::byte> bytes, size_t most, std::vector<Sha256Digest>* parts,
                           Sha256Digest (*digest)(std::span<const std::byte>)) {
  std::vector<Sha256Digest> digests;
  for (size_t at = 0; at < bytes.size(); at += most)
    digests.push_back(digest(bytes.subspan(at, std::min(most, bytes.size() - at))));
  if (parts) *parts = digests;
  return sha256(std::as_bytes(std::span(digests)));
}

Sha256Digest block(std::span<const std::byte> bytes) {
  return by_definition(bytes, Sha256Tree::kChunk, nullptr, sha256);
}

TEST(Sha256Tree, IsWhatItsDefinitionSays) {
  for (const size_t size : std::vector<size_t>{0, 1, 55, 56, 64, Sha256Tree::kChunk - 1, Sha256Tree::kChunk,
                                               Sha256Tree::kChunk + 1, 5 * Sha256Tree::kChunk + 77, kSumBlock,
                                               kSumBlock + 1, 2 * kSumBlock + 12345}) {
    const std::vector<std::byte> bytes = numbered(size);
    Sha256Tree expected;
    expected.root = by_definition(bytes, kSumBlock, &expected.blocks, block);
    EXPECT_EQ(tree(bytes, std::max<size_t>(1, size)), expected) << size;
  }
}

TEST(Sha256Tree, PiecesMakeTheSame) {
  const std::vector<std::byte> bytes = numbered(kSumBlock + 3 * Sha256Tree::kChunk + 77);
  const Sha256Tree whole = tree(bytes, bytes.size());
  for (const size_t piece : std::vector<size_t>{777, Sha256Tree::kChunk - 1, Sha256Tree::kChunk,
                                                Sha256Tree::kChunk + 1, 1'000'003})
    EXPECT_EQ(tree(bytes, piece), whole) << piece;
}

// By Python: hashlib.sha256 of the same, of 100,000 bytes `i % 251`.
TEST(Sha256Tree, StaysAsItIs) {
  std::vector<std::byte> bytes(100'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  EXPECT_EQ(hex(tree(bytes, bytes.size()).root),
            "65dea89009ec9acb16272afbd035556ca2b77f68fb011319474cc59d97d54d66");
}

}  // namespace
}  // namespace tandem
