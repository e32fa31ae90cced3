// Writing, and reading what was written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "formats/safetensors/testing.h"

namespace tandem {
namespace {

using safetensors::entry;
using safetensors::file_of;
using safetensors::header_of;
using safetensors::parse;

std::string scratch(const std::string& name) {
  const std::string folder = std::string(TANDEM_BINARY_DIR) + "/scratch/safetensors";
  std::filesystem::create_directories(folder);
  return join(folder, name);
}

std::vector<std::byte> bytes_of(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(byte_count(tensor.dtype, tensor.shape).value());
  const Status read = source.read(tensor.name, 0, bytes);
  EXPECT_TRUE(read.ok()) << read.error().message();
  return bytes;
}

void add(MemorySource& source, const std::string& name, DType dtype, const Shape& shape,
         std::string_view data) {
  std::vector<std::byte> bytes(data.size());
  std::transform(data.begin(), data.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  source.add({name, dtype, shape}, std::move(bytes));
}

std::string written(const TensorSource& source, const std::vector<TensorInfo>& tensors,
                    const std::string& name) {
  const Status status = write_safetensors(real_files(), scratch(name), source, tensors);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return read_text(real_files(), scratch(name)).value();
}

TEST(WriteSafetensors, WholeFile) {
  MemorySource source;
  add(source, "b", DType::u8, {2}, "xy");
  add(source, "a", DType::bf16, {1, 1}, "pq");
  const std::vector<TensorInfo> order{{"b", DType::u8, {2}}, {"a", DType::bf16, {1, 1}}};
  const std::string json = R"({"__metadata__":{"format":"pt"},)" + entry("b", "U8", {2}, 0, 2) + "," +
                           entry("a", "BF16", {1, 1}, 2, 4) + "}";
  const std::string padding((8 - json.size() % 8) % 8, ' ');
  EXPECT_EQ(written(source, order, "whole.safetensors"), file_of(json + padding, "xypq"));
}

TEST(WriteSafetensors, C13FormatIsWrittenAndNotNeeded) {
  MemorySource source;
  add(source, "a", DType::u8, {2}, "xy");
  const auto ours = parse(written(source, source.tensors(), "c13.safetensors"));
  EXPECT_EQ(ours.value()->metadata().at("format"), "pt");
  const auto theirs = parse(file_of(header_of({entry("a", "U8", {2}, 0, 2)}), "xy"));
  ASSERT_TRUE(theirs.ok());
  EXPECT_EQ(bytes_of(*theirs.value(), theirs.value()->tensors()[0]), bytes_of(source, source.tensors()[0]));
}

TEST(WriteSafetensors, C08ScalarsAndEmptyTensorsKeepTheirShape) {
  MemorySource source;
  add(source, "empty", DType::f32, {0}, "");
  add(source, "empty3", DType::f32, {3, 0, 2}, "");
  add(source, "one", DType::f32, {1}, "1111");
  add(source, "scalar", DType::f32, {}, "ssss");
  const auto back = parse(written(source, source.tensors(), "c08.safetensors"));
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back.value()->tensors().size(), 4u);
  EXPECT_EQ(back.value()->find("empty")->shape, Shape{0});
  EXPECT_EQ(back.value()->find("empty3")->shape, (Shape{3, 0, 2}));
  EXPECT_EQ(back.value()->find("one")->shape, Shape{1});
  EXPECT_EQ(back.value()->find("scalar")->shape, Shape{});
}

TEST(WriteSafetensors, S19EveryBitOfTheStrangestFloatsSurvives) {
  // quiet and signalling NaN, infinity, the smallest denormal, -0.0
  const std::vector<uint32_t> bits{0x7fc00001, 0x7f800001, 0xff800000, 0x00000001, 0x80000000};
  const std::string data(reinterpret_cast<const char*>(bits.data()), bits.size() * 4);
  MemorySource source;
  add(source, "a", DType::f32, {5}, data);
  const std::string file = written(source, source.tensors(), "s19.safetensors");
  EXPECT_EQ(file.substr(file.size() - data.size()), data);
  EXPECT_EQ(bytes_of(*parse(file).value(), {"a", DType::f32, {5}}), bytes_of(source, {"a", DType::f32, {5}}));
}

TEST(WriteSafetensors, N16OutputOrderIsCanonicalWhateverTheInputs) {
  std::vector<std::string> entries, shuffled;
  for (int i = 0; i < 12; ++i)
    entries.push_back(entry(fmt::format("layers.{}.w", i), "U8", {1}, uint64_t(i), uint64_t(i) + 1));
  shuffled = entries;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(7));
  std::string first;
  for (const auto& order : {entries, shuffled}) {
    const auto file = parse(file_of(header_of(order), "abcdefghijkl"));
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file.value()->tensors()[2].name, "layers.2.w");
    EXPECT_EQ(file.value()->tensors()[10].name, "layers.10.w");
    const std::string out = written(*file.value(), file.value()->tensors(), "n16.safetensors");
    EXPECT_THAT(out, testing::EndsWith("abcdefghijkl"));
    if (first.empty()) first = out;
    EXPECT_EQ(out, first);
  }
}

TEST(WriteSafetensors, RefusesWhatCannotBeWritten) {
  const TensorInfo a{"a", DType::u8, {1}};
  EXPECT_EQ(safetensors_header({a, a}, {}).error().rule, "safetensors_c3");
  EXPECT_EQ(safetensors_header({{"__metadata__", DType::u8, {1}}}, {}).error().rule, "safetensors_c3");
  EXPECT_EQ(safetensors_header({{"\xff", DType::u8, {1}}}, {}).error().message(),
            R"(safetensors_c2: "\xff" is not UTF-8)");
  EXPECT_EQ(safetensors_header({a}, {{"k", "\xc3"}}).error().rule, "safetensors_c2");
  const TensorInfo huge{"h", DType::u8, {UINT64_MAX}};
  EXPECT_EQ(safetensors_header({huge, a}, {}).error().rule, "safetensors_c4");
  EXPECT_FALSE(safetensors_header({{"h", DType::f32, {UINT64_MAX}}}, {}).ok());
}

TEST(WriteSafetensors, AFailingSourceOrProgressEndsTheWrite) {
  MemorySource source;
  add(source, "a", DType::u8, {2}, "xy");
  const std::string path = scratch("failing.safetensors");
  EXPECT_EQ(write_safetensors(real_files(), path, source, {{"b", DType::u8, {2}}}).error().kind,
            ErrorKind::missing);
  uint64_t seen = 0;
  const auto stop = [&](uint64_t bytes) -> Status {
    seen = bytes;
    return invalid("stop", "stopped");
  };
  EXPECT_EQ(write_safetensors(real_files(), path, source, source.tensors(), {}, stop).error().rule, "stop");
  EXPECT_EQ(seen, safetensors_header(source.tensors(), {{"format", "pt"}}).value().size() + 2);
}

TEST(SafetensorsFile, ReadsPiecesAndTellsPlaces) {
  const std::string json = header_of({entry("a", "U8", {4}, 0, 4), entry("b", "U8", {4}, 4, 8)});
  std::ofstream(scratch("pieces.safetensors"), std::ios::binary) << file_of(json, "abcdefgh");
  const auto file = SafetensorsFile::open(real_files(), scratch("pieces.safetensors"));
  ASSERT_TRUE(file.ok()) << file.error().message();
  std::vector<std::byte> two(2);
  ASSERT_TRUE(file.value()->read("b", 1, two).ok());
  EXPECT_EQ(two, (std::vector<std::byte>{std::byte{'f'}, std::byte{'g'}}));
  const uint64_t start = 8 + json.size();
  EXPECT_EQ(file.value()->data_offset("b"), start + 4);
  EXPECT_EQ(file.value()->location("b"),
            fmt::format("{}, bytes {} to {}", scratch("pieces.safetensors"), start + 4, start + 8));
  EXPECT_EQ(file.value()->read("c", 0, two).error().text, R"(there is no tensor "c")");
  EXPECT_EQ(file.value()->read("b", 3, two).error().text,
            R"(read of 2 bytes at 3 of tensor "b", which has 4)");
  EXPECT_EQ(file.value()->read("b", UINT64_MAX, two).error().kind, ErrorKind::bug);
}

TEST(SafetensorsFile, OpenSaysWhatIsMissing) {
  const auto file = SafetensorsFile::open(real_files(), scratch("absent.safetensors"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::missing);
}

TEST(FileLayout, IsTheReferenceLibrarys) {
  // Order and alignment as safetensors 0.8 writes one tensor of each dtype.
  const std::vector<std::string> expected{"U64", "I64", "F64",     "F32",     "U32", "I32", "BF16", "F16",
                                          "U16", "I16", "F8_E4M3", "F8_E5M2", "I8",  "U8",  "BOOL"};
  std::vector<TensorInfo> tensors;
  for (const DTypeRow& dtype : kDTypes) tensors.push_back({"t", dtype.dtype, {1}});
  std::vector<std::string> found;
  for (const TensorInfo& tensor : file_layout(tensors)) found.emplace_back(row(tensor.dtype).safetensors);
  EXPECT_EQ(found, expected);
  const auto names = file_layout({{"a.10", DType::u8, {}}, {"a.9", DType::u8, {}}, {"a.1", DType::u8, {}}});
  EXPECT_EQ(names[1].name, "a.10");
}

TEST(FileLayout, TheExampleComesBackByteForByte) {
  const std::string path = std::string(TANDEM_SOURCE_DIR) + "/examples/tiny-deepseek-v3/model.safetensors";
  const auto file = SafetensorsFile::open(real_files(), path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file.value()->tensors().size(), 377u);
  const std::string back =
      written(*file.value(), file_layout(file.value()->tensors()), "example.safetensors");
  EXPECT_TRUE(back == read_text(real_files(), path).value());
}

RC_GTEST_PROP(WriteSafetensors, WhatIsWrittenIsRead, ()) {
  const auto count = *rc::gen::inRange<size_t>(0, 12);
  const auto names = *rc::gen::unique<std::vector<std::string>>(
      count, rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '\x7f')));
  MemorySource source;
  std::vector<TensorInfo> order;
  for (const std::string& name : names) {
    const auto dtype = kDTypes[*rc::gen::inRange<size_t>(0, kDTypes.size())].dtype;
    const auto rank = *rc::gen::inRange<size_t>(0, 5);
    const auto shape = *rc::gen::container<Shape>(rank, rc::gen::inRange<uint64_t>(0, 5));
    std::vector<std::byte> data(byte_count(dtype, shape).value());
    for (std::byte& byte : data) byte = static_cast<std::byte>(*rc::gen::arbitrary<uint8_t>());
    order.push_back({name, dtype, shape});
    source.add(order.back(), data);
  }
  RC_ASSERT(write_safetensors(real_files(), scratch("property.safetensors"), source, order).ok());
  const auto back = SafetensorsFile::open(real_files(), scratch("property.safetensors"));
  RC_ASSERT(back.ok());
  RC_ASSERT(back.value()->tensors().size() == order.size());
  uint64_t end = 0;
  for (const TensorInfo& tensor : order) {
    const TensorInfo* found = back.value()->find(tensor.name);
    RC_ASSERT(found != nullptr);
    RC_ASSERT(found->dtype == tensor.dtype);
    RC_ASSERT(found->shape == tensor.shape);
    RC_ASSERT(bytes_of(*back.value(), tensor) == bytes_of(source, tensor));
    RC_ASSERT(back.value()->data_offset(tensor.name) >= end);  // in the order given
    end = back.value()->data_offset(tensor.name);
  }
}

}  // namespace
}  // namespace tandem
