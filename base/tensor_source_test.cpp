#include "base/tensor_source.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

// u8 elements that count up from 0, and a count of the reads.
class CountingSource : public MemorySource {
 public:
  explicit CountingSource(const Shape& shape) {
    std::vector<std::byte> data(byte_count(DType::u8, shape).value());
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
    add({"t", DType::u8, shape}, std::move(data));
  }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    ++reads;
    return MemorySource::read(tensor, byte_offset, out);
  }
  mutable int reads = 0;
};

std::vector<int> read(const CountingSource& source, const Box& box) {
  std::vector<std::byte> out(element_count(box));
  source.reads = 0;
  EXPECT_TRUE(read_box(source, source.tensors()[0], box, out).ok());
  std::vector<int> numbers;
  for (std::byte byte : out) numbers.push_back(std::to_integer<int>(byte));
  return numbers;
}

TEST(ReadBox, InTheFewestRuns) {
  const CountingSource source({3, 4, 2});
  EXPECT_EQ(read(source, whole({3, 4, 2})).size(), 24u);
  EXPECT_EQ(source.reads, 1);
  EXPECT_EQ(read(source, {{1, 1, 0}, {1, 2, 2}}), (std::vector<int>{10, 11, 12, 13}));
  EXPECT_EQ(source.reads, 1);
  EXPECT_EQ(read(source, {{0, 1, 0}, {2, 2, 2}}), (std::vector<int>{2, 3, 4, 5, 10, 11, 12, 13}));
  EXPECT_EQ(source.reads, 2);
  EXPECT_EQ(read(source, {{1, 2, 1}, {2, 2, 1}}), (std::vector<int>{13, 15, 21, 23}));
  EXPECT_EQ(source.reads, 4);
}

TEST(ReadBox, ScalarsAndEmptyBoxes) {
  EXPECT_EQ(read(CountingSource(Shape{}), whole({})), (std::vector<int>{0}));
  const CountingSource source({3, 4});
  EXPECT_EQ(read(source, {{1, 1}, {0, 2}}), std::vector<int>{});
  EXPECT_EQ(source.reads, 0);
}

TEST(ReadBox, RefusesABoxOutside) {
  const CountingSource source({3, 4});
  std::vector<std::byte> out(4);
  const auto done = read_box(source, source.tensors()[0], {{3, 0}, {1, 4}}, out);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message(), "box_c1: box [3, 0] + [1, 4] does not lie in t of shape [3, 4]");
  EXPECT_EQ(read_box(source, source.tensors()[0], {{2, 0}, {1, 3}}, out).error().rule, "box_c2");
}

TEST(MemorySource, FindsAndRefuses) {
  MemorySource source;
  source.add({"layers.10.w", DType::u8, {1}}, {std::byte{10}});
  source.add({"layers.2.w", DType::u8, {1}}, {std::byte{2}});
  EXPECT_EQ(source.tensors()[0].name, "layers.2.w");
  EXPECT_EQ(source.find("layers.10.w"), &source.tensors()[1]);
  EXPECT_EQ(source.find("layers.3.w"), nullptr);
  std::vector<std::byte> out(1);
  EXPECT_EQ(source.read("nobody", 0, out).error().message(), "no tensor \"nobody\" in memory");
  EXPECT_EQ(source.read("layers.2.w", ~uint64_t{0}, out).error().kind, ErrorKind::corrupt);
}

TEST(NaturalLess, OrdersNumbersByValue) {
  const std::vector<std::string> sorted{
      "",   "a",    "a.1",   "a.01", "a.2", "a.2.b", "a.10", "a.10", "a.99999999999999999999999",
      "ab", "b1c2", "b1c10", "z"};
  for (size_t i = 0; i < sorted.size(); ++i)
    for (size_t j = 0; j < sorted.size(); ++j)
      if (sorted[i] != sorted[j]) {
        // "a.01" and "a.1" are the same number: plain order decides, so that the order is total.
        const bool tie = sorted[i].starts_with("a.0") + sorted[j].starts_with("a.0") == 1 &&
                         (sorted[i] == "a.1" || sorted[j] == "a.1");
        EXPECT_EQ(natural_less(sorted[i], sorted[j]), tie ? sorted[i] < sorted[j] : i < j)
            << sorted[i] << " " << sorted[j];
      }
}

}  // namespace
}  // namespace tandem
