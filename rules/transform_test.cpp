#include "rules/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
std::vector<std::byte> bytes(const std::vector<T>& values) {
  const auto view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

std::vector<std::byte> read_all(const TensorSource& source, std::string_view name) {
  const TensorInfo* tensor = source.find(name);
  if (!tensor) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<std::byte> data(byte_count(tensor->dtype, tensor->shape).value());
  const Status status = source.read(name, 0, data);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
  return data;
}

std::vector<float> read_floats(const TensorSource& source, std::string_view name) {
  const std::vector<std::byte> data = read_all(source, name);
  std::vector<float> values(data.size() / sizeof(float));
  if (!data.empty()) std::memcpy(values.data(), data.data(), data.size());
  return values;
}

MemorySource in_memory(const TensorSource& source) {
  MemorySource copy;
  for (const TensorInfo& tensor : source.tensors()) copy.add(tensor, read_all(source, tensor.name));
  return copy;
}

std::vector<std::string> names(const TensorSource& source) {
  std::vector<std::string> result;
  for (const TensorInfo& tensor : source.tensors()) result.push_back(tensor.name);
  return result;
}

RuleRow row(const std::string& hf, const std::string& tf, const Shape& sizes, std::vector<Step> steps = {}) {
  RuleRow result;
  result.hf = hf;
  result.tf = tf;
  result.sizes = sizes;
  for (uint64_t size : sizes) result.shape.push_back(std::to_string(size));
  result.steps = std::move(steps);
  return result;
}

/// The weight of D05: [130, 129], every code 1.0, scales [[1, 2], [4, 8]] on blocks of 128 x 128.
RuleTable fp8_table(std::vector<Step> more = {}) {
  std::vector<Step> steps = {BlockDequantize{128, 128, "_scale_inv"}};
  steps.insert(steps.end(), more.begin(), more.end());
  return {"test", {row("w", "kernel", {130, 129}, steps)}};
}
MemorySource fp8_weight(std::vector<float> scales = {1, 2, 4, 8}) {
  MemorySource source;
  source.add({"w", DType::f8_e4m3, {130, 129}}, std::vector<std::byte>(130 * 129, std::byte{0x38}));
  source.add({"w_scale_inv", DType::f32, {2, 2}}, bytes(scales));
  return source;
}
TransformOptions stored_as(DType dtype) {
  TransformOptions options;
  options.dtype = dtype;
  return options;
}

TEST(ToTensorFlow, D05_ScalesAreMultipliedInAndLeaveTheOutput) {
  const MemorySource source = fp8_weight();
  const RuleTable table = fp8_table();
  const auto made = ToTensorFlow::make(table, source, stored_as(DType::f32)).value();
  EXPECT_THAT(names(*made), ElementsAre("kernel"));
  const auto values = read_floats(*made, "kernel");
  for (size_t r = 0; r < 130; r++)
    for (size_t c = 0; c < 129; c++)
      ASSERT_EQ(values[r * 129 + c], (r < 128 ? 1 : 4) * (c < 128 ? 1 : 2)) << r << ", " << c;
}

TEST(ToTensorFlow, D05_TransposedBlocksKeepTheirScales) {
  const MemorySource source = fp8_weight();
  const RuleTable table = fp8_table({Transpose{{1, 0}}});
  const auto made = ToTensorFlow::make(table, source, stored_as(DType::f32)).value();
  const auto values = read_floats(*made, "kernel");
  for (size_t r = 0; r < 130; r++)
    for (size_t c = 0; c < 129; c++)
      ASSERT_EQ(values[c * 130 + r], (r < 128 ? 1 : 4) * (c < 128 ? 1 : 2)) << r << ", " << c;
}

TEST(ToTensorFlow, D05_AMissingScaleIsAnErrorThatNamesIt) {
  MemorySource source;
  source.add({"w", DType::f8_e4m3, {130, 129}}, std::vector<std::byte>(130 * 129));
  const RuleTable table = fp8_table();
  const Error error = ToTensorFlow::make(table, source, {}).error();
  EXPECT_EQ(exit_code(error.kind), 65);
  EXPECT_EQ(error.text, "w: an f8_e4m3 weight without its scales w_scale_inv");
}

TEST(ToTensorFlow, X8_AScaleThatIsNotPositiveAndFiniteIsNamed) {
  const RuleTable table = fp8_table();
  for (float bad : {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const MemorySource source = fp8_weight({1, 2, bad, 8});
    const Error error = ToTensorFlow::make(table, source, {}).error();
    EXPECT_EQ(exit_code(error.kind), 65);
    EXPECT_EQ(error.rule, "scale_c1");
    EXPECT_THAT(error.text, HasSubstr("w_scale_inv: scale [1, 0] is")) << bad;
  }
}

// (1 + 7/8) * (1 + 2^-8 + 2^-23) is no bf16; rounding the scale first would give another number.
TEST(ToTensorFlow, Fp8IsRoundedOnce) {
  MemorySource source;
  const float scale = 1.0f + 0x1p-8f + 0x1p-23f;
  source.add({"w", DType::f8_e4m3, {1, 1}}, {std::byte{0x3f}});
  source.add({"w_scale_inv", DType::f32, {1, 1}}, bytes(std::vector<float>{scale}));
  const RuleTable table{"test", {row("w", "kernel", {1, 1}, {BlockDequantize{128, 128, "_scale_inv"}})}};
  const auto made = ToTensorFlow::make(table, source, {}).value();
  EXPECT_EQ(made->tensors()[0].dtype, DType::bf16);
  EXPECT_EQ(read_all(*made, "kernel"), bytes(std::vector<uint16_t>{f32_to_bf16(1.875f * scale)}));
}

TEST(ToTensorFlow, N18_SlotTenIsExpertTen) {
  MemorySource source;
  for (uint8_t expert = 0; expert < 12; expert++)
    source.add({"experts." + std::to_string(expert) + ".bias", DType::f32, {1}},
               bytes(std::vector<float>{static_cast<float>(expert)}));
  RuleRow stacked = row("experts.{expert}.bias", "experts/bias", {1}, {Stack{"expert", 12}});
  stacked.holes = {{"expert", {0, 12}}};
  const RuleTable table{"test", {stacked}};
  const auto made = ToTensorFlow::make(table, source, {}).value();
  EXPECT_THAT(read_floats(*made, "experts/bias"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(ToTensorFlow, OneStackHasOneDtype) {
  MemorySource source;
  source.add({"e.0", DType::f32, {1}}, bytes(std::vector<float>{0}));
  source.add({"e.1", DType::bf16, {1}}, bytes(std::vector<uint16_t>{0}));
  RuleRow stacked = row("e.{expert}", "e", {1}, {Stack{"expert", 2}});
  stacked.holes = {{"expert", {0, 2}}};
  const RuleTable table{"test", {stacked}};
  EXPECT_EQ(ToTensorFlow::make(table, source, {}).error().text,
            "e: e.0 is f32, e.1 is bf16; one stack has one dtype (name it with --dtype)");
  EXPECT_TRUE(ToTensorFlow::make(table, source, stored_as(DType::f32)).ok());
}

TEST(ToTensorFlow, D08_AFixedDtypeIsChangedByNoFlag) {
  MemorySource source;
  source.add({"bias", DType::f32, {2}}, bytes(std::vector<float>{1.0f, 1.001f}));
  RuleRow bias = row("bias", "bias", {2});
  bias.dtype = "f32";
  const RuleTable table{"test", {bias}};
  const auto made = ToTensorFlow::make(table, source, stored_as(DType::bf16)).value();
  EXPECT_THAT(read_floats(*made, "bias"), ElementsAre(1.0f, 1.001f));
  BackOptions back;
  back.dtype = DType::bf16;
  const MemorySource stored = in_memory(*made);
  EXPECT_THAT(read_floats(*ToHuggingFace::make(table, stored, back).value(), "bias"),
              ElementsAre(1.0f, 1.001f));
}

TEST(ToTensorFlow, CountsWhatACastLost) {
  MemorySource source;
  source.add({"w", DType::f32, {4}}, bytes(std::vector<float>{1, 1e6f, 1e-9f, 1.0001f}));
  const RuleTable table{"test", {row("w", "w", {4})}};
  const auto made = ToTensorFlow::make(table, source, stored_as(DType::f16)).value();
  read_all(*made, "w");
  const CastCounts counts = made->counts("w");
  EXPECT_EQ(counts.overflowed, 1u);
  EXPECT_EQ(counts.flushed, 1u);
  EXPECT_EQ(counts.rounded, 3u);
}

TEST(ToTensorFlow, ReportsAllThatIsWrongAtOnce) {
  MemorySource source;
  source.add({"extra", DType::f32, {1}}, std::vector<std::byte>(4));
  source.add({"b", DType::f32, {1}}, std::vector<std::byte>(4));
  const RuleTable table{"test", {row("a", "a", {1}), row("b", "b", {2})}};
  EXPECT_EQ(ToTensorFlow::make(table, source, {}).error().text,
            "a: missing from the checkpoint\nextra: no rule reads it\nb: shape [1], expected [2]");
}

TEST(ToTensorFlow, ARangeBeyondTheTensorIsRefused) {
  MemorySource source;
  source.add({"w", DType::f32, {2}}, std::vector<std::byte>(8));
  const RuleTable table{"test", {row("w", "w", {2})}};
  const auto made = ToTensorFlow::make(table, source, {}).value();
  std::array<std::byte, 4> out;
  EXPECT_FALSE(made->read("w", 5, out).ok());
  EXPECT_FALSE(made->read("w", ~0ull, out).ok());
  EXPECT_EQ(made->read("v", 0, out).error().kind, ErrorKind::missing);
}

RuleTable tied_table() {
  RuleRow head = row("lm_head.weight", "", {2});
  head.tied_to = "embed.weight";
  head.optional = true;
  return {"test", {row("embed.weight", "embed", {2}), head}};
}

TEST(Transform, N20_EitherTiedNameMakesOneTensorAndComesBackAsOne) {
  const RuleTable table = tied_table();
  for (const char* name : {"embed.weight", "lm_head.weight"}) {
    MemorySource source;
    source.add({name, DType::f32, {2}}, bytes(std::vector<float>{3, 4}));
    const MemorySource made = in_memory(*ToTensorFlow::make(table, source, {}).value());
    EXPECT_THAT(names(made), ElementsAre("embed"));
    EXPECT_THAT(read_floats(made, "embed"), ElementsAre(3, 4));
    EXPECT_THAT(names(*ToHuggingFace::make(table, made, {}).value()), ElementsAre("embed.weight"));
    BackOptions back;
    back.like = &source;
    EXPECT_THAT(names(*ToHuggingFace::make(table, made, back).value()), ElementsAre(name));
  }
}

TEST(Transform, N20_BothTiedNamesComeBackIfTheOriginalHasBoth) {
  const RuleTable table = tied_table();
  MemorySource source;
  for (const char* name : {"embed.weight", "lm_head.weight"})
    source.add({name, DType::f32, {2}}, bytes(std::vector<float>{3, 4}));
  const MemorySource made = in_memory(*ToTensorFlow::make(table, source, {}).value());
  BackOptions back;
  back.like = &source;
  const auto returned = ToHuggingFace::make(table, made, back).value();
  EXPECT_THAT(names(*returned), ElementsAre("embed.weight", "lm_head.weight"));
  EXPECT_THAT(read_floats(*returned, "lm_head.weight"), ElementsAre(3, 4));
}

TEST(ToHuggingFace, DerivedBuffersAreCopiedFromTheOriginal) {
  RuleRow buffer = row("inv_freq", "", {1});
  buffer.ignore = "derived buffer";
  const RuleTable table{"test", {row("w", "w", {1}), buffer}};
  MemorySource source;
  source.add({"w", DType::f32, {1}}, bytes(std::vector<float>{1}));
  source.add({"inv_freq", DType::f32, {1}}, bytes(std::vector<float>{2}));
  const MemorySource made = in_memory(*ToTensorFlow::make(table, source, {}).value());
  BackOptions back;
  back.like = &source;
  const auto returned = ToHuggingFace::make(table, made, back).value();
  EXPECT_THAT(returned->copied(), ElementsAre("inv_freq"));
  EXPECT_THAT(read_floats(*returned, "inv_freq"), ElementsAre(2));
  EXPECT_THAT(ToHuggingFace::make(table, made, {}).value()->copied(), IsEmpty());
}

TEST(ToHuggingFace, ReportsAllThatIsWrongAtOnceAndWhatNobodyUses) {
  const RuleTable table{"test", {row("a", "a", {1}), row("b", "b", {2})}};
  MemorySource made;
  made.add({"b", DType::i32, {1}}, std::vector<std::byte>(4));
  EXPECT_EQ(ToHuggingFace::make(table, made, {}).error().text,
            "a: missing from the TensorFlow side\nb: shape [1], expected [2]\n"
            "b: dtype i32, expected bf16, f16, f32 or f64");
  MemorySource more;
  for (const char* name : {"a", "b", "step"})
    more.add({name, DType::f32, {name[0] == 'b' ? 2u : 1u}}, std::vector<std::byte>(name[0] == 'b' ? 8 : 4));
  EXPECT_THAT(ToHuggingFace::make(table, more, {}).value()->unused(), ElementsAre("step"));
}

// The kernel after training: one value of the last block has outgrown 448 * 8.
TEST(ToHuggingFace, ABlockThatOutgrewItsScaleGetsANewOneAndIsNamed) {
  const MemorySource original = fp8_weight();
  const RuleTable table = fp8_table({Transpose{{1, 0}}});
  std::vector<float> values =
      read_floats(*ToTensorFlow::make(table, original, stored_as(DType::f32)).value(), "kernel");
  values[128 * 130 + 129] = -8960;  // row 129, column 128
  MemorySource trained;
  trained.add({"kernel", DType::f32, {129, 130}}, bytes(values));
  BackOptions back;
  back.like = &original;
  const auto returned = ToHuggingFace::make(table, trained, back).value();
  EXPECT_THAT(read_floats(*returned, "w_scale_inv"), ElementsAre(1, 2, 4, 20));
  EXPECT_THAT(returned->remade_scales(), ElementsAre("w"));
  const auto codes = read_all(*returned, "w");
  EXPECT_EQ(codes.back(), std::byte{0xfe});            // -448 * 20
  EXPECT_EQ(codes[128 * 129 + 128], std::byte{0x2d});  // 8 / 20 = 0.4, nearest 0.40625
  EXPECT_EQ(codes[0], std::byte{0x38});
  EXPECT_EQ(returned->counts("w").rounded, 1u);
}

}  // namespace
}  // namespace tandem
