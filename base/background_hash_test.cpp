#include "base/background_hash.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace tandem {
namespace {

TEST(BackgroundSha256, HashesAsTheOtherOne) {
  std::vector<std::byte> bytes(20'000'001);  // more than may wait
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  BackgroundSha256 hash;
  hash.update(std::span(bytes).first(9));
  hash.begin();  // forgets them
  hash.update(std::span(bytes).first(5'000'000));
  hash.update(std::span(bytes).subspan(5'000'000));
  hash.end("all");
  hash.end("nothing");
  hash.update(std::span(bytes).first(3));
  hash.end("three");
  EXPECT_EQ(hash.hex("three"), sha256_hex(std::span(bytes).first(3)));
  EXPECT_EQ(hash.hex("all"), sha256_hex(bytes));
  EXPECT_EQ(hash.hex("nothing"), sha256_hex({}));
  EXPECT_EQ(hash.hex("another"), "");
}

TEST(BackgroundSha256, MayBeLeftAlone) {
  const BackgroundSha256 unused;
  BackgroundSha256 unfinished;
  unfinished.update(std::vector<std::byte>(3'000'000));
}

}  // namespace
}  // namespace tandem
