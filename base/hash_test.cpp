#include "base/hash.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/hash_internal.h"

namespace tandem {
namespace {

TEST(Sha256, PublishedDigests) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesMakeTheSame) {
  Sha256 hash;
  hash.update(as_bytes("a"));
  hash.update({});
  hash.update(as_bytes("bc"));
  EXPECT_EQ(hash.hex(), sha256_hex(as_bytes("abc")));
}

// RFC 3720, B.4, and the check value of the Castagnoli polynomial.
TEST(Crc32c, PublishedValues) {
  EXPECT_EQ(crc32c(0, as_bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  EXPECT_EQ(crc32c(0, {}), 0u);
}

TEST(Crc32c, ContinuesFromWhatCameBefore) {
  EXPECT_EQ(crc32c(crc32c(0, as_bytes("1234")), as_bytes("56789")), crc32c(0, as_bytes("123456789")));
}

/// Every way that this processor has, the one that is taken among them.
std::vector<uint32_t (*)(uint32_t, std::span<const std::byte>)> ways() {
  if (!processor_has_crc32c()) return {crc32c};
  return {crc32c, crc32c_by_processor, crc32c_by_folding};
}

TEST(Crc32c, EveryWayAgreesWithTheTable) {
  std::vector<std::byte> bytes(1600);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 256 + 11);
  for (const size_t begin : {0, 1, 2, 3, 4, 5, 6, 7, 8, 63})
    for (size_t size = 0; size + begin <= bytes.size(); ++size) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
      for (const uint32_t crc : {0u, ~0u, 0x12345678u}) {
        const uint32_t expected = crc32c_by_table(crc, part);
        for (const auto way : ways()) ASSERT_EQ(way(crc, part), expected) << begin << " " << size;
      }
    }
}

TEST(Crc32c, PowersAddUp) {
  EXPECT_EQ(crc32c_power(0), 0x80000000u);
  EXPECT_EQ(crc32c_power(31), 1u);
  EXPECT_EQ(crc32c_power(32), 0x82f63b78u);  // the polynomial without its x^32
}

TEST(Crc32c, LongTextsInLanesAgreeTooAndTwoTextsCombine) {
  std::vector<std::byte> bytes(100'003);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 256);
  const std::span<const std::byte> all(bytes);
  for (const size_t size : {24'575, 24'576, 24'577, 49'152, 73'729, 100'003}) {
    const uint32_t expected = crc32c_by_table(7, all.first(size));
    for (const auto way : ways()) EXPECT_EQ(way(7, all.first(size)), expected) << size;
  }
  for (const size_t cut : {0, 1, 63, 24'576, 100'002, 100'003})
    EXPECT_EQ(crc32c_combine(crc32c(0, all.first(cut)), crc32c(0, all.subspan(cut)), bytes.size() - cut),
              crc32c(0, all))
        << cut;
}

TEST(Crc32c, MaskingIsUndone) {
  EXPECT_EQ(mask_crc(0), 0xa282ead8u);
  for (uint32_t crc : {0u, 1u, 0xe3069283u, ~0u}) EXPECT_EQ(unmask_crc(mask_crc(crc)), crc);
  EXPECT_NE(mask_crc(mask_crc(1)), 1u);
}

TEST(NameHash, IsFnv1a) {
  EXPECT_EQ(name_hash(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(name_hash("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(name_hash("foobar"), 0x85944171f73967e8ull);
}

}  // namespace
}  // namespace tandem
