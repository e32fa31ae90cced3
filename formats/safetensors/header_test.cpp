// The hostile rows S1 to S18: each a file of a few bytes, its rule and its message.

#include "formats/safetensors/header.h"

#include <gtest/gtest.h>

#include <sstream>

#include "formats/safetensors/testing.h"

namespace tandem::safetensors {
namespace {

const std::string kTwoFloats = std::string(8, '\x11');

void expect_refused(std::string_view bytes, std::string_view rule, std::string_view text,
                    ErrorKind kind = ErrorKind::corrupt) {
  const auto file = parse(bytes);
  ASSERT_FALSE(file.ok()) << "expected " << rule << ": " << text;
  EXPECT_EQ(file.error().rule, rule);
  EXPECT_EQ(file.error().kind, kind);
  EXPECT_EQ(file.error().where, "t.safetensors");
  EXPECT_NE(file.error().text.find(text), std::string::npos) << file.error().message();
}

TEST(SafetensorsHeader, TheWorkedExampleOfTheDocs) {
  const auto text = read_text(real_files(), std::string(TANDEM_SOURCE_DIR) + "/docs/formats/safetensors.md");
  ASSERT_TRUE(text.ok());
  std::string bytes;
  std::istringstream lines(text.value().substr(text.value().find("\n00  38 00")));
  for (std::string line; std::getline(lines, line) && line != "```";) {
    std::istringstream words(line.substr(0, 52));
    uint32_t number = 0;
    for (words >> std::hex >> number; words >> number;) bytes += static_cast<char>(number);
  }
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(bytes.size(), 66u);
  EXPECT_EQ(file.value()->data_offset("a"), 64u);
  EXPECT_EQ(file.value()->tensors()[0].shape, Shape{2});
}

TEST(SafetensorsHeader, S1FileShorterThanItsLengthField) {
  expect_refused("", "S1", "the file has 0 bytes, too few for a header length of 8");
  for (size_t size = 1; size < 8; ++size)
    expect_refused(std::string(size, '\1'), "S1", fmt::format("the file has {} bytes", size));
}

TEST(SafetensorsHeader, S2LengthBeyondTheFile) {
  expect_refused(u64(UINT64_MAX) + "{}", "S2",
                 "the header's length is 18446744073709551615, but only 2 bytes follow");
  expect_refused(u64(11) + "{}", "S2", "the header's length is 11, but only 2 bytes follow; 9 are missing");
  expect_refused(u64(100'000'001) + "{}", "S2", "100000001, but only 2 bytes follow");
}

TEST(SafetensorsHeader, S4NotOneJsonObject) {
  expect_refused(file_of(""), "S4", "the header begins with nothing, expected {");
  expect_refused(file_of("[]"), "S4", R"(the header begins with "[")");
  expect_refused(file_of("{"), "S4", R"(the header ends with "{", expected } and spaces)");
  expect_refused(file_of("{} x"), "S4", R"(the header ends with "x")");
  expect_refused(file_of("{}{}"), "S4", "the header is not JSON here");
  expect_refused(file_of(" {}"), "S4", R"(the header begins with " ")");
  expect_refused(file_of("\xef\xbb\xbf{}"), "S4", "the header begins with");
  expect_refused(file_of("{}\n"), "S4", R"(the header ends with "\n")");
  expect_refused(file_of(std::string("{}\0 ", 4)), "S4", "NUL");
  expect_refused(file_of(R"({"a":)"
                         "\xff"
                         R"(})"),
                 "S4", "the header is not JSON here");
  expect_refused(file_of(R"({"__metadata__":{"a":"\ud800"}})"), "S4", "the header is not JSON here");
  EXPECT_TRUE(parse(file_of("{}     ")).ok());
}

TEST(SafetensorsHeader, S4TellsTheByte) {
  const auto file = parse(file_of(R"({"a" 1})"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().offset, 8u + 5u);
}

TEST(SafetensorsHeader, S5DeepNestingStopsAtTheFirstBracketTooMany) {
  const std::string deep(1'000'000, '[');
  expect_refused(file_of("{\"a\":" + deep + "}"), "S5",
                 R"(the value of "a" is an array, expected an object)");
  expect_refused(file_of("{\"__metadata__\":{\"a\":" + deep + "}}"), "S16", "is an array, expected a string");
  expect_refused(file_of(R"({"a":{"shape":)" + deep + "}}"), "S5",
                 R"(an array of tensor "a" holds an array, expected numbers)");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += R"("dtype":{)";
  expect_refused(file_of(objects + "}"), "S5", R"(dtype of tensor "dtype" is an object)");
}

TEST(SafetensorsHeader, S5OtherValuesOutOfPlace) {
  expect_refused(file_of(R"({"a":7})"), "S5", R"(the value of "a" is a number)");
  expect_refused(file_of(R"({"a":{"dtype":null}})"), "S5", R"(dtype of tensor "a" is null)");
  expect_refused(file_of(R"({"a":{"dtype":["F32"]}})"), "S5", R"(dtype of tensor "a" is an array)");
  expect_refused(file_of(R"({"a":{"shape":"[2]"}})"), "S5", R"(shape of tensor "a" is a string)");
  expect_refused(file_of(R"({"a":{"shape":["2"]}})"), "S5", "holds a string, expected numbers");
  expect_refused(file_of(R"({"a":{"data_offsets":[true,1]}})"), "S5", "holds a boolean, expected numbers");
}

TEST(SafetensorsHeader, C1FieldsOfAnEntry) {
  expect_refused(file_of(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", kTwoFloats), "safetensors_c1",
                 R"(tensor "a" lacks dtype)");
  expect_refused(file_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", kTwoFloats), "safetensors_c1",
                 "lacks shape");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2]}})", kTwoFloats), "safetensors_c1",
                 "lacks data_offsets");
  expect_refused(file_of(R"({"a":{"strides":[1]}})"), "safetensors_c1", R"(has the field "strides")");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", kTwoFloats),
                 "safetensors_c1", "has 1 numbers, expected [begin, end]");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", kTwoFloats),
                 "safetensors_c1", "has 3 numbers");
}

TEST(SafetensorsHeader, S6Duplicates) {
  const std::string a = entry("a", "F32", {2}, 0, 8);
  expect_refused(file_of(header_of({a, a}), kTwoFloats), "S6", R"(tensor "a" stands twice)");
  expect_refused(
      file_of(header_of({a, entry("b", "F32", {0}, 8, 8), entry("\\u0061", "F32", {0}, 8, 8)}), kTwoFloats),
      "S6", R"(tensor "a" stands twice)");
  expect_refused(file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "S6", R"(the key "k" stands twice)");
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "S6", "__metadata__ stands twice");
  expect_refused(file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "S6", R"(two fields "dtype")");
  expect_refused(file_of(R"({"a":{"shape":[1],"shape":[1]}})"), "S6", R"(two fields "shape")");
}

TEST(SafetensorsHeader, S8HolesOverlapsAndReversedRanges) {
  const std::string a = entry("a", "U8", {2}, 0, 2);
  expect_refused(file_of(header_of({a, entry("b", "U8", {2}, 3, 5)}), "12345"), "S8",
                 R"(1 bytes of data before tensor "b" belong to no tensor ([2, 3)))");
  expect_refused(file_of(header_of({entry("a", "U8", {2}, 1, 3)}), "123"), "S8",
                 R"(1 bytes of data before tensor "a")");
  expect_refused(file_of(header_of({a, entry("b", "U8", {2}, 1, 3)}), "123"), "S8",
                 R"(tensors "a" and "b" overlap: [0, 2) and [1, 3))");
  expect_refused(file_of(header_of({a, entry("b", "U8", {2}, 0, 2)}), "12"), "S8", "overlap");
  expect_refused(file_of(header_of({entry("a", "U8", {2}, 2, 0)}), "12"), "S8",
                 R"(tensor "a" begins at 2 and ends at 0)");
}

TEST(SafetensorsHeader, S8EntriesMayStandInAnyOrder) {
  const auto file =
      parse(file_of(header_of({entry("b", "U8", {2}, 2, 4), entry("a", "U8", {2}, 0, 2)}), "1234"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->tensors()[0].name, "a");
}

TEST(SafetensorsHeader, S9BytesAfterTheLastTensor) {
  const std::string json = header_of({entry("a", "F32", {2}, 0, 8)});
  expect_refused(file_of(json, kTwoFloats + "PK\x05\x06"), "S9",
                 "4 bytes after the last tensor belong to no tensor");
  expect_refused(file_of("{}", "<html>"), "S9", "6 bytes after the last tensor");
}

TEST(SafetensorsHeader, S10CutOff) {
  const std::string json = header_of({entry("a", "F32", {2}, 0, 8), entry("b", "F32", {2048}, 8, 8200)});
  const std::string whole = file_of(json, std::string(8200, 'x'));
  ASSERT_TRUE(parse(whole).ok());
  expect_refused(whole.substr(0, whole.size() - 1), "S10", R"(tensor "b" is cut off)");
  expect_refused(whole.substr(0, whole.size() - 1), "S10", "there are 8199; 1 are missing");
  expect_refused(whole.substr(0, whole.size() - 4096), "S10", "4096 are missing");
  expect_refused(whole.substr(0, whole.size() - 8196), "S10", R"(tensor "a" is cut off)");
  expect_refused(whole.substr(0, 8 + json.size() - 3), "S2", "3 are missing");
  EXPECT_EQ(parse(whole.substr(0, 20)).error().hint, "the file is cut off; was its download interrupted?");
}

TEST(SafetensorsHeader, C06CutTensorIsNamedWithItsMissingBytes) {
  const std::string whole = file_of(header_of({entry("w", "F32", {2}, 0, 8)}), kTwoFloats);
  expect_refused(
      whole.substr(0, whole.size() - 1), "S10",
      R"(tensor "w" is cut off: it takes the bytes [0, 8) of the data, of which there are 7; 1 are missing)");
}

TEST(SafetensorsHeader, S11SizeOverflows) {
  expect_refused(
      file_of(header_of({entry("a", "U8", {2, UINT64_MAX - 1}, 0, 0)})), "S11",
      R"(tensor "a" is U8[2, 18446744073709551614]: its sizes multiply to more than 2^63 - 1 bytes)");
  expect_refused(file_of(header_of({entry("a", "F64", {uint64_t{1} << 61}, 0, 0)})), "S11",
                 "more than 2^63 - 1 bytes");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})"),
                 "S11",
                 R"(shape of tensor "a" holds "18446744073709551616", expected an integer from 0 to 2^64-1)");
  expect_refused(file_of(R"({"a":{"shape":[-1]}})"), "S11", R"(holds "-1")");
  expect_refused(file_of(R"({"a":{"shape":[2.0]}})"), "S11", R"(holds "2.0")");
  expect_refused(file_of(R"({"a":{"data_offsets":[0,1e1]}})"), "S11",
                 R"(data_offsets of tensor "a" holds "1e1")");
}

TEST(SafetensorsHeader, S13SizeIsNotThatOfItsRange) {
  expect_refused(file_of(header_of({entry("a", "F32", {2}, 0, 7)}), "1234567"), "S13",
                 R"(tensor "a" is F32[2], 8 bytes, but its data_offsets [0, 7] span 7)");
  expect_refused(file_of(header_of({entry("a", "F32", {2}, 0, 9)}), "123456789"), "S13", "span 9");
  expect_refused(file_of(header_of({entry("a", "F32", {2}, 0, UINT64_MAX)}), "12345678"), "S13", "span");
}

TEST(SafetensorsHeader, S14ScalarsAndEmptyTensors) {
  const auto file =
      parse(file_of(header_of({entry("empty", "F32", {2, 0}, 0, 0), entry("scalar", "F32", {}, 0, 4),
                               entry("zero", "F32", {0}, 4, 4)}),
                    "1234"));
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file.value()->find("empty")->shape, (Shape{2, 0}));
  EXPECT_EQ(file.value()->find("scalar")->shape, Shape{});
  expect_refused(file_of(header_of({entry("a", "F32", {0, uint64_t{1} << 63, 2}, 0, 0)})), "S14",
                 "zeros left out, its sizes multiply to more than 2^63 - 1");
  expect_refused(file_of(header_of({entry("a", "F32", {0, uint64_t{1} << 63}, 0, 0)})), "S14",
                 "zeros left out, its sizes multiply to more than 2^63 - 1");
}

TEST(SafetensorsHeader, S15DtypeUnknown) {
  const std::string known =
      "known are F64, F32, BF16, F16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U64, U32, U16, U8, BOOL";
  for (const char* dtype : {"f32", "F4", "F8_E8M0", "C64", "", "FLOAT"}) {
    const std::string bytes = file_of(header_of({entry("a", dtype, {2}, 0, 8)}), kTwoFloats);
    expect_refused(bytes, "S15", fmt::format(R"(tensor "a" has the dtype "{}", {})", dtype, known),
                   ErrorKind::unsupported);
  }
}

TEST(SafetensorsHeader, S16Metadata) {
  for (const char* value : {"1", "null", "true", "-1", "0.5", "{}", "[]"})
    expect_refused(file_of(fmt::format(R"({{"__metadata__":{{"k":{}}}}})", value)), "S16",
                   R"(the value of "k" in __metadata__ is)");
  expect_refused(file_of(R"({"__metadata__":"pt"})"), "S5", R"(the value of "__metadata__" is a string)");

  const std::string large(50'000'000, 'm');
  const auto file = parse(file_of(R"({"__metadata__":{"k":")" + large + R"("}})"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->metadata().at("k").size(), large.size());
}

TEST(SafetensorsHeader, S18MisalignedDataIsAWarning) {
  const std::string a = entry("a", "F32", {2}, 0, 8);
  const std::string json = padded(header_of({a}));
  EXPECT_TRUE(parse(file_of(json, kTwoFloats)).value()->warnings().empty());
  const auto file = parse(file_of(json + " ", kTwoFloats));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->warnings(),
            std::vector<std::string>{fmt::format(
                "t.safetensors: data starts at byte {}, not a multiple of 8 (S18)", 8 + json.size() + 1)});
}

TEST(SafetensorsHeader, R3Limits) {
  expect_refused(file_of(header_of({entry(std::string(1025, 'n'), "U8", {0}, 0, 0)})), "R3",
                 "has 1025 bytes, the limit is 1024");
  expect_refused(file_of(header_of({entry("a", "U8", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 1)}), "x"), "R3",
                 R"(tensor "a" has more than 8 axes)");
  const std::string json = header_of({entry("a", "U8", {0}, 0, 0), entry("b", "U8", {0}, 0, 0)});
  SafetensorsLimits limits;
  limits.max_tensors = 1;
  const auto header = parse_header(json, limits);
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().message(),
            "R3: more than 1 tensors (--max-tensors raises the limit, if the file is trusted)");
}

TEST(SafetensorsHeader, NamesInMessagesAreEscapedAndCut) {
  expect_refused(file_of(R"({"\u001b[31m\n":7})"), "S5", R"(the value of "\x1b[31m\n" is)");
  expect_refused(file_of("{\"" + std::string(1000, 'n') + "\":7}"), "S5",
                 std::string(120, 'n') + "\"... is a number");
}

TEST(SafetensorsHeader, C06WhatAFailedDownloadLeaves) {
  expect_refused(
      "version https://git-lfs.github.com/spec/v1\n"
      "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4976698672\n",
      "C06", "this is not a safetensors file but a large-file pointer; the real file has 4976698672 bytes");
  expect_refused("<!DOCTYPE html><html><body>404</body></html>", "C06", "but an HTML page");
}

TEST(SafetensorsHeader, P16AnotherFormatUnderOurName) {
  expect_refused(std::string("\x80\x02}q\0X\5\0\0\0hello.", 16), "P16", "but a pickle");
  expect_refused(std::string("PK\3\4\0\0\x08\x08\0\0\0\0", 12), "P16", "but a zip archive");
  expect_refused(std::string("GGUF\3\0\0\0\1\0\0\0\0", 13), "P16", "but a GGUF file");
}

TEST(SafetensorsHeader, P16AMagicThatIsALengthIsALength) {
  // 0x0280 is the length of this header and the start of a pickle.
  const std::string json = "{" + std::string(0x27e, ' ') + "}";
  EXPECT_TRUE(parse(file_of(json)).ok());
}

// A file that says it is large and counts what is read of it.
class ClaimedFile : public ReadableFile {
 public:
  ClaimedFile(uint64_t size, uint64_t header_length) : size_(size), header_length_(header_length) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    bytes_read += out.size();
    const std::string start = u64(header_length_);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>(offset + i < start.size() ? start[offset + i] : '{');
    return {};
  }
  mutable uint64_t bytes_read = 0;

 private:
  std::string path_ = "claimed.safetensors";
  uint64_t size_, header_length_;
};

TEST(SafetensorsHeader, C05HeaderAboveTheLimitIsNotRead) {
  const ClaimedFile large(uint64_t{1} << 40, 112'500'001);
  const auto refused = read_header(large, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "claimed.safetensors: C05: the header has 112500001 bytes, the limit is 100000000 "
            "(--max-header-bytes raises the limit, if the file is trusted)");
  EXPECT_LE(large.bytes_read, 1024u);

  const ClaimedFile absurd(uint64_t{1} << 40, uint64_t{1} << 63);
  EXPECT_EQ(read_header(absurd, {}).error().rule, "S2");
  EXPECT_LE(absurd.bytes_read, 1024u);
}

TEST(SafetensorsHeader, C05RaisedLimitsReadAMillionAndAHalf) {
  constexpr size_t kTensors = 1'500'000;
  std::string json = "{";
  for (size_t i = 0; i < kTensors; ++i)
    json += fmt::format(R"("{}t{:018}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}},)",
                        i % 2 ? "a" : "b", i);
  json.back() = '}';
  ASSERT_GT(json.size(), 105'000'000u);
  SafetensorsLimits limits;
  limits.max_header_bytes = 200'000'000;
  limits.max_tensors = 2'000'000;
  const auto header = parse_header(json, limits);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header.value().entries.size(), kTensors);
}

}  // namespace
}  // namespace tandem::safetensors
