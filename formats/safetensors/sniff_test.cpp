#include "formats/safetensors/sniff.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tandem::safetensors {
namespace {

using namespace std::string_view_literals;

TEST(Sniff, ALengthThatFitsAndABrace) {
  EXPECT_TRUE(looks_like_safetensors("\2\0\0\0\0\0\0\0{}"sv, 10));
  EXPECT_FALSE(looks_like_safetensors("\2\0\0\0\0\0\0\0[]"sv, 10)) << "no object";
  EXPECT_FALSE(looks_like_safetensors("\3\0\0\0\0\0\0\0{}"sv, 10)) << "longer than the file";
  EXPECT_FALSE(looks_like_safetensors("\2\0\0\0\0\0\0\0"sv, 10)) << "nothing behind the length";
  EXPECT_FALSE(looks_like_safetensors("\xff\xff\xff\xff\xff\xff\xff\xff{"sv, 7))
      << "a file that is no header";
}

TEST(Sniff, NothingIsKnownOfOtherBytes) {
  EXPECT_EQ(sniff("{\"a\": 1}"sv).what, "");
  EXPECT_EQ(sniff(""sv).what, "");
}

}  // namespace
}  // namespace tandem::safetensors
