#include "base/dsse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr size_t kEnough = 10'000;

std::string error_of(std::string_view text) {
  const auto envelope = envelope_from_text(text, kEnough);
  return envelope.ok() ? "accepted" : envelope.error().message();
}

// The worked example of the specification (protocol.md).
TEST(Dsse, TheEncodingOfTheSpecification) {
  EXPECT_EQ(pre_authentication_encoding("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(pre_authentication_encoding("", std::string("\0\xff", 2)), std::string("DSSEv1 0  2 \0\xff", 14));
}

TEST(Dsse, WhatIsWrittenIsReadBack) {
  const DsseEnvelope written{"text/plain", std::string("\0{}", 3), {{"k1", "s1"}, {"", "\xff"}}};
  const auto read = envelope_from_text(to_text(written), kEnough).value();
  EXPECT_EQ(read.payload_type, "text/plain");
  EXPECT_EQ(read.payload, written.payload);
  ASSERT_EQ(read.signatures.size(), 2u);
  EXPECT_EQ(read.signatures[0].keyid, "k1");
  EXPECT_EQ(read.signatures[1].signature, "\xff");
}

TEST(Dsse, ASignatureIsAddedOrReplacedAndTheRestStays) {
  const std::string text =
      R"({"payloadType":"t","extra":[1],"payload":"AA==","signatures":[{"keyid":"a","sig":"QQ==","cert":"c"}]})";
  const std::string two = with_signature(text, kEnough, {"b", "B"}).value();
  EXPECT_THAT(two, HasSubstr("\"cert\": \"c\""));
  EXPECT_THAT(two, HasSubstr("\"extra\""));
  EXPECT_EQ(envelope_from_text(two, kEnough).value().signatures.size(), 2u);
  const auto again = envelope_from_text(with_signature(two, kEnough, {"a", "new"}).value(), kEnough).value();
  ASSERT_EQ(again.signatures.size(), 2u);
  EXPECT_EQ(again.signatures[0].signature, "new");
  EXPECT_EQ(again.signatures[1].signature, "B");
}

TEST(Dsse, C1WhatIsNoEnvelopeIsSaid) {
  EXPECT_THAT(error_of("[]"), HasSubstr("dsse_c1: not a DSSE envelope"));
  EXPECT_THAT(error_of(R"({"payload":"","signatures":[]})"),
              HasSubstr("the envelope has no text \"payloadType\""));
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":7,"signatures":[]})"),
              HasSubstr("the envelope has no text \"payload\""));
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":""})"), HasSubstr("no list \"signatures\""));
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":"","signatures":[1]})"),
              HasSubstr("signature 0 is no object"));
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":"","signatures":[{"keyid":1,"sig":""}]})"),
              HasSubstr("signature 0 has no text \"keyid\""));
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":"","signatures":[{}]})"),
              HasSubstr("signature 0 has no text \"sig\""));
}

TEST(Dsse, BadBase64SaysWhereItStands) {
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":"A","signatures":[]})"),
              HasSubstr("base64_c1: 1 characters of base64, expected a multiple of 4 (in \"payload\" of the "
                        "envelope)"));
  EXPECT_THAT(error_of(R"({"payloadType":"t","payload":"","signatures":[{"sig":"&&&&"}]})"),
              HasSubstr("in \"sig\" of signature 0"));
}

TEST(Dsse, C2AtMost100Signatures) {
  Json json{{"payloadType", "t"}, {"payload", ""}, {"signatures", Json::array()}};
  for (int i = 0; i < 100; ++i) json["signatures"].push_back({{"keyid", std::to_string(i)}, {"sig", ""}});
  EXPECT_EQ(error_of(json.dump()), "accepted");
  EXPECT_FALSE(with_signature(json.dump(), kEnough, {"new", "s"}).ok());
  json["signatures"].push_back({{"sig", ""}});
  EXPECT_THAT(error_of(json.dump()), HasSubstr("dsse_c2: 101 signatures, at most 100 are read"));
}

TEST(Dsse, TooLongATextIsNotParsed) {
  EXPECT_THAT(error_of(std::string(kEnough + 1, ' ')), HasSubstr("json_c4"));
}

}  // namespace
}  // namespace tandem
