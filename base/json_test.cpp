#include "base/json.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

Error error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = parse_json(text, limits);
  EXPECT_FALSE(parsed.ok()) << text.substr(0, 80);
  return parsed.ok() ? Error{} : parsed.error();
}

TEST(Json, KeepsOrderAndNumbersAsWritten) {
  const std::string text =
      R"({"b":1,"a":[-1,18446744073709551615,1.0,1e-6,10000.0],"c":{"z":null,"y":true},"d":"\u00e9\n"})";
  const auto parsed = parse_json(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().begin().key(), "b");
  EXPECT_TRUE(parsed.value()["a"][1].is_number_unsigned());
  EXPECT_TRUE(parsed.value()["a"][2].is_number_float());
  EXPECT_EQ(parsed.value()["a"][3].get<double>(), 1e-6);
  EXPECT_EQ(parsed.value().dump(),
            R"({"b":1,"a":[-1,18446744073709551615,1.0,1e-06,10000.0],"c":{"z":null,"y":true},"d":"é\n"})");
}

TEST(Json, AnyValueMayStandAlone) {
  EXPECT_EQ(parse_json(" 3 ").value(), Json(3));
  EXPECT_EQ(parse_json("\"x\"").value(), Json("x"));
  EXPECT_EQ(parse_json("[]").value(), Json::array());
}

TEST(Json, C1SyntaxWithOffset) {
  const Error error = error_of(R"({"a": tru})");
  EXPECT_EQ(error.rule, "json_c1");
  EXPECT_EQ(error.offset, 9u);
  EXPECT_EQ(error.kind, ErrorKind::corrupt);
  EXPECT_NE(error.text.find("invalid literal"), std::string::npos) << error.text;
  for (std::string_view bad :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "[01]", "[+1]", "[NaN]", "[Infinity]", "[1e999]", "'a'", "{a:1}",
        "[1 2]", "/*c*/[]", "[\"\x01\"]", "[\"\xff\"]", "[\"\\ud800\"]", "[\"\xed\xa0\x80\"]"})
    EXPECT_EQ(error_of(bad).rule, "json_c1") << bad;
}

TEST(Json, C1TextOfErrorIsShortAndPrintable) {
  const Error error = error_of("[\"" + std::string(10'000, 'x') + "\xff");
  EXPECT_LT(error.text.size(), 200u);
  for (char c : error.text) EXPECT_TRUE(c >= 0x20 && c <= 0x7e);
}

TEST(Json, LargeIntegersBecomeFloatsWhereThatIsAskedFor) {
  const auto json = parse_json(R"({"model_max_length": 1000000000000000019884624838656, "n": 7})",
                               {.large_integers = true});
  ASSERT_TRUE(json.ok()) << json.error().message();
  EXPECT_EQ(json.value()["model_max_length"], 1e30);
  EXPECT_TRUE(json.value()["n"].is_number_unsigned());
}

TEST(Json, C1IntegersBeyond64BitsAreNotRounded) {
  EXPECT_EQ(error_of("[18446744073709551616]").message(),
            "json_c1: integer 18446744073709551616 does not fit in 64 bits");
  EXPECT_EQ(error_of("[-9223372036854775809]").rule, "json_c1");
  EXPECT_EQ(parse_json("[18446744073709551616.0]").value()[0].get<double>(), 18446744073709551616.0);
}

// The parser below us takes a NUL for the end of its input; what follows must not be lost in silence.
TEST(Json, C1NulIsNotAnEnd) {
  const Error error = error_of(std::string_view("{}\0{}", 5));
  EXPECT_EQ(error.message(), "byte 2: json_c1: a NUL byte in JSON text");
}

TEST(Json, C2S5MillionBrackets) {
  EXPECT_EQ(error_of(std::string(1'000'000, '[')).message(), "json_c2: nested deeper than 32");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(error_of(objects).rule, "json_c2");
}

TEST(Json, C2DepthIsExact) {
  JsonLimits limits;
  limits.max_depth = 2;
  EXPECT_TRUE(parse_json("[[1],[2],{\"a\":3}]", limits).ok());
  EXPECT_EQ(error_of("[[1],[[]]]", limits).rule, "json_c2");
}

TEST(Json, C3S6DuplicateKeys) {
  EXPECT_EQ(error_of(R"({"a":1,"b":2,"a":1})").message(), "json_c3: key \"a\" stands twice in one object");
  EXPECT_EQ(error_of(R"({"x":{"a":1,"\u0061":2}})").rule, "json_c3");
  EXPECT_TRUE(parse_json(R"({"a":{"a":1},"b":{"a":1}})").ok());
}

TEST(Json, C3ManyKeysAreFast) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("\"key{}\":{},", i, i);
  EXPECT_EQ(parse_json(text + "\"last\":0}").value().size(), 200'001u);
  EXPECT_EQ(error_of(text + "\"key7\":0}").rule, "json_c3");
}

TEST(Json, C4TooLong) {
  JsonLimits limits;
  limits.max_bytes = 4;
  EXPECT_TRUE(parse_json("[12]", limits).ok());
  EXPECT_EQ(error_of("[123]", limits).message(), "json_c4: 5 bytes of JSON, the limit is 4");
}

TEST(Json, C5BytesAround) {
  EXPECT_EQ(error_of("\xef\xbb\xbf{}").message(), "json_c5: a byte order mark before the JSON text");
  for (std::string_view bad : {"{} x", "{}{}", "1 2", "[],", "\"a\"\"b\"", "{}\xff"})
    EXPECT_EQ(error_of(bad).rule, "json_c5") << bad;
  EXPECT_EQ(error_of("{}  x").offset, 4u);
  EXPECT_TRUE(parse_json(" \n\t{} \r\n ").ok());
}

}  // namespace
}  // namespace tandem
