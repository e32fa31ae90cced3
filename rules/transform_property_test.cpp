// Random tables, shapes, dtypes, byte ranges and memory bounds: what the steps make is what a plain loop
// makes, and the way back gives the same bytes.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "rules/transform.h"

namespace tandem {
namespace {

using Bytes = std::vector<std::byte>;

struct Case {
  RuleTable table;
  MemorySource checkpoint;
};

Bytes random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

uint64_t pick(uint64_t begin, uint64_t end) { return *rc::gen::inRange<uint64_t>(begin, end); }

RuleRow random_row(size_t rank, uint64_t largest) {
  RuleRow row;
  row.hf = "w.{expert}";
  for (size_t i = 0; i < rank; i++) row.sizes.push_back(pick(1, largest));
  row.shape.resize(rank);
  row.holes = {{"expert", {0, pick(1, 6)}}};
  std::vector<uint64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  for (size_t i = rank; i > 1; i--) std::swap(axes[i - 1], axes[pick(0, i)]);
  row.steps = {Transpose{axes}};
  if (*rc::gen::arbitrary<bool>()) row.steps.push_back(Stack{"expert", pick(1, 6)});
  row.tf = row.steps.size() == 2 ? "k" : "k/{expert}";
  return row;
}

Case random_case() {
  const size_t rank = pick(1, 5);
  const RuleRow row = random_row(rank, rank <= 2 ? 600 : 12);
  const DType dtype = *rc::gen::element(DType::f64, DType::f32, DType::bf16, DType::f16);
  Case made{{"test", {row}}, {}};
  for (uint64_t expert = 0; expert < row.holes.at("expert").end; expert++)
    made.checkpoint.add({"w." + std::to_string(expert), dtype, row.sizes},
                        random_bytes(byte_count(dtype, row.sizes).value(), pick(0, 1 << 30)));
  return made;
}

Case random_fp8_case() {
  RuleRow row = random_row(2, 150);
  const uint64_t block_rows = pick(1, 70), block_columns = pick(1, 70);
  row.steps.insert(row.steps.begin(), BlockDequantize{block_rows, block_columns, "_scale_inv"});
  Case made{{"test", {row}}, {}};
  const Shape grid = {(row.sizes[0] + block_rows - 1) / block_rows,
                      (row.sizes[1] + block_columns - 1) / block_columns};
  for (uint64_t expert = 0; expert < row.holes.at("expert").end; expert++) {
    const std::string name = "w." + std::to_string(expert);
    std::mt19937_64 random(pick(0, 1 << 30));
    Bytes scales;
    for (uint64_t i = 0; i < grid[0] * grid[1]; i++) {
      const float scale = std::exp2(std::uniform_real_distribution<float>(-20, 4)(random));
      const auto bytes = std::as_bytes(std::span(&scale, 1));
      scales.insert(scales.end(), bytes.begin(), bytes.end());
    }
    made.checkpoint.add({name, DType::f8_e4m3, row.sizes},
                        random_bytes(row.sizes[0] * row.sizes[1], random()));
    made.checkpoint.add({name + "_scale_inv", DType::f32, grid}, scales);
  }
  return made;
}

/// The whole tensor, by reads of random sizes in random order of ranges.
Bytes read_in_pieces(const TensorSource& source, const TensorInfo& tensor) {
  Bytes bytes(byte_count(tensor.dtype, tensor.shape).value());
  const uint64_t piece = pick(1, 2 * bytes.size() + 2);
  std::vector<uint64_t> offsets;
  // Few pieces of a large tensor, or every byte of a small one by itself.
  for (uint64_t offset = 0; offset < bytes.size(); offset += std::max<uint64_t>(piece, bytes.size() / 50 + 1))
    offsets.push_back(offset);
  if (*rc::gen::arbitrary<bool>()) std::reverse(offsets.begin(), offsets.end());
  for (uint64_t offset : offsets) {
    const uint64_t size =
        std::min<uint64_t>(std::max<uint64_t>(piece, bytes.size() / 50 + 1), bytes.size() - offset);
    RC_ASSERT(source.read(tensor.name, offset, std::span(bytes).subspan(offset, size)).ok());
  }
  return bytes;
}

MemorySource in_memory(const TensorSource& source) {
  MemorySource copy;
  for (const TensorInfo& tensor : source.tensors()) copy.add(tensor, read_in_pieces(source, tensor));
  return copy;
}

Bytes data_of(const TensorSource& source, const TensorInfo& tensor) {
  Bytes bytes(byte_count(tensor.dtype, tensor.shape).value());
  RC_ASSERT(source.read(tensor.name, 0, bytes).ok());
  return bytes;
}

void expect_equal(const TensorSource& a, const TensorSource& b) {
  RC_ASSERT(a.tensors().size() == b.tensors().size());
  for (const TensorInfo& tensor : a.tensors()) {
    const TensorInfo* other = b.find(tensor.name);
    RC_ASSERT(other != nullptr);
    RC_ASSERT(other->dtype == tensor.dtype);
    RC_ASSERT(other->shape == tensor.shape);
    RC_ASSERT(data_of(a, tensor) == data_of(b, *other));
  }
}

uint64_t random_memory() { return uint64_t{1} << pick(0, 20); }

MemorySource there(const Case& made, std::optional<DType> dtype) {
  TransformOptions options;
  options.dtype = dtype;
  options.memory = random_memory();
  const auto source = ToTensorFlow::make(made.table, made.checkpoint, options);
  RC_ASSERT(source.ok());
  return in_memory(*source.value());
}

MemorySource back(const Case& made, const MemorySource& tensorflow, const TensorSource* like) {
  BackOptions options;
  options.like = like;
  options.memory = random_memory();
  const auto source = ToHuggingFace::make(made.table, tensorflow, options);
  RC_ASSERT(source.ok());
  MemorySource copy = in_memory(*source.value());
  RC_ASSERT(source.value()->remade_scales().empty());
  for (const TensorInfo& tensor : copy.tensors())
    RC_ASSERT(source.value()->counts(tensor.name).rounded == 0u);
  return copy;
}

/// One source tensor with its axes permuted, element by element.
Bytes transposed(const Bytes& data, const Shape& shape, const std::vector<uint64_t>& axes, size_t element) {
  Bytes result;
  Shape out_shape, at(shape.size(), 0);
  for (uint64_t axis : axes) out_shape.push_back(shape[axis]);
  for (size_t i = 0; i < data.size() / element; i++) {
    uint64_t rest = i, flat = 0;
    for (size_t k = axes.size(); k-- > 0; rest /= out_shape[k]) at[axes[k]] = rest % out_shape[k];
    for (size_t k = 0; k < shape.size(); k++) flat = flat * shape[k] + at[k];
    result.insert(result.end(), data.begin() + flat * element, data.begin() + (flat + 1) * element);
  }
  return result;
}

RC_GTEST_PROP(Transform, MakesWhatAPlainLoopMakes, ()) {
  const Case made = random_case();
  const MemorySource tensorflow = there(made, std::nullopt);
  const auto& axes = std::get<Transpose>(made.table.rows[0].steps[0]).axes;
  for (const TensorPlan& plan : expand(made.table)) {
    Bytes expected;
    for (const std::string& name : plan.hf) {
      const TensorInfo& tensor = *made.checkpoint.find(name);
      const Bytes slot =
          transposed(data_of(made.checkpoint, tensor), tensor.shape, axes, size_of(tensor.dtype));
      expected.insert(expected.end(), slot.begin(), slot.end());
    }
    RC_ASSERT(data_of(tensorflow, *tensorflow.find(plan.tf)) == expected);
  }
}

RC_GTEST_PROP(Transform, ACastOfATransposedTensorIsThatOfItsElements, ()) {
  const Case made = random_case();
  const DType storage = *rc::gen::element(DType::f64, DType::f32, DType::bf16, DType::f16);
  TransformOptions options;
  options.dtype = storage;
  options.memory = random_memory();
  const auto source = ToTensorFlow::make(made.table, made.checkpoint, options).value();
  const auto& axes = std::get<Transpose>(made.table.rows[0].steps[0]).axes;
  for (const TensorPlan& plan : expand(made.table)) {
    Bytes expected;
    CastCounts counts;
    for (const std::string& name : plan.hf) {
      const TensorInfo& tensor = *made.checkpoint.find(name);
      const Bytes slot =
          transposed(data_of(made.checkpoint, tensor), tensor.shape, axes, size_of(tensor.dtype));
      Bytes stored(slot.size() / size_of(tensor.dtype) * size_of(storage));
      counts += cast(tensor.dtype, slot, storage, stored).value();
      expected.insert(expected.end(), stored.begin(), stored.end());
    }
    RC_ASSERT(data_of(*source, *source->find(plan.tf)) == expected);
    RC_ASSERT(source->counts(plan.tf).rounded == counts.rounded);
    RC_ASSERT(source->counts(plan.tf).overflowed == counts.overflowed);
    RC_ASSERT(source->counts(plan.tf).flushed == counts.flushed);
  }
}

RC_GTEST_PROP(Transform, ThereAndBackGivesTheSameBytes, ()) {
  const Case made = random_case();
  expect_equal(made.checkpoint, back(made, there(made, std::nullopt), nullptr));
}

// NaN codes and negative zero included.
RC_GTEST_PROP(Transform, Fp8ThereAndBackWithTheOriginalGivesTheSameBytes, ()) {
  const Case made = random_fp8_case();
  const DType storage = *rc::gen::element(DType::bf16, DType::f32, DType::f64);
  expect_equal(made.checkpoint, back(made, there(made, storage), &made.checkpoint));
}

}  // namespace
}  // namespace tandem
