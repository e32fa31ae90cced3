#include "base/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto bytes = from_base64(text);
  return bytes.ok() ? "accepted" : bytes.error().message();
}

TEST(Base64, TheVectorsOfTheRfc) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(as_bytes(bytes)), text);
    EXPECT_EQ(from_base64(text).value(), bytes);
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (size_t length = 250; length <= all.size(); ++length)
    EXPECT_EQ(from_base64(to_base64(as_bytes(all.substr(0, length)))).value(), all.substr(0, length));
}

TEST(Base64, EitherAlphabetIsRead) {
  EXPECT_EQ(from_base64("+/+/").value(), from_base64("-_-_").value());
  EXPECT_EQ(from_base64("++8=").value(), "\xfb\xef");
}

TEST(Base64, C1WhatIsNoBase64IsNamed) {
  EXPECT_THAT(error_of("Zg="), HasSubstr("base64_c1: 3 characters of base64, expected a multiple of 4"));
  EXPECT_THAT(error_of("Zg\n="), HasSubstr("character 2 of the text is 0x0a"));
  EXPECT_THAT(error_of("Zg==Zg=="), HasSubstr("character 2 of the text is 0x3d"));
  EXPECT_THAT(error_of("===="), HasSubstr("character 0 of the text is 0x3d"));
  EXPECT_THAT(error_of("Zh=="), HasSubstr("bits beyond the last byte"));
  EXPECT_THAT(error_of("Zm9="), HasSubstr("bits beyond the last byte"));
}

TEST(Base64, C1OneDigitIsNoByte) { EXPECT_THAT(error_of("A==="), HasSubstr("character 1 of the text")); }

}  // namespace
}  // namespace tandem
