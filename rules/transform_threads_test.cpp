// Several threads read one computed tensor: they load its blocks together, in bounded memory.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>

#include "rules/transform.h"

namespace tandem {
namespace {

constexpr uint64_t kRows = 1500, kColumns = 2100;  // of the source; 6.3 MB

RuleTable transposed_table() {
  RuleRow row;
  row.hf = "w";
  row.tf = "kernel";
  row.sizes = {kRows, kColumns};
  row.shape = {std::to_string(kRows), std::to_string(kColumns)};
  row.steps = {Transpose{{1, 0}}};
  return {"test", {row}};
}

/// The bits of element [i, j] are the number i * kColumns + j. May fail every so many reads.
class Numbered : public TensorSource {
 public:
  explicit Numbered(unsigned fails_every = 0) : fails_every_(fails_every) {}
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Status read(std::string_view, uint64_t byte_offset, std::span<std::byte> out) const override {
    if (fails_every_ > 0 && ++reads_ % fails_every_ == 0) return io_error("read", "w", EIO);
    bytes_read_ += out.size();
    std::vector<uint32_t> values(out.size() / 4);
    std::iota(values.begin(), values.end(), static_cast<uint32_t>(byte_offset / 4));
    std::memcpy(out.data(), values.data(), out.size());
    return {};
  }
  std::unique_ptr<FileWindow> window(std::string_view tensor, uint64_t offset, uint64_t size) const override;
  std::string location(std::string_view) const override { return "here"; }
  /// From now on there are windows; one use of the bytes in so many finds that they were lost (0: none).
  void give_windows(unsigned lost_every = 0) {
    windows_ = true;
    lost_every_ = lost_every;
  }
  Status intact() const {
    if (lost_every_ > 0 && ++uses_ % lost_every_ == 0) return io_error("read", "w", EIO);
    return {};
  }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::vector<TensorInfo> infos_{{"w", DType::f32, {kRows, kColumns}}};
  unsigned fails_every_;
  bool windows_ = false;
  unsigned lost_every_ = 0;
  mutable std::atomic<unsigned> uses_ = 0;
  mutable std::atomic<unsigned> reads_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
};

std::atomic<int> open_windows = 0;

/// Empty until loaded.
class NumberedWindow : public FileWindow {
 public:
  NumberedWindow(const Numbered& source, uint64_t offset, uint64_t size)
      : source_(source), offset_(offset), bytes_(size) {
    ++open_windows;
  }
  ~NumberedWindow() override { --open_windows; }
  const std::byte* bytes() const override { return bytes_.data(); }
  Status load(uint64_t first, uint64_t count) override {
    return source_.read("w", offset_ + first, std::span(bytes_).subspan(first, count));
  }
  Status intact() const override { return source_.intact(); }

 private:
  const Numbered& source_;
  uint64_t offset_;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<FileWindow> Numbered::window(std::string_view, uint64_t offset, uint64_t size) const {
  return windows_ ? std::make_unique<NumberedWindow>(*this, offset, size) : nullptr;
}

/// Reads the kernel in pieces, which threads take in turn; how many pieces were refused.
size_t read_by(unsigned threads, const TensorSource& source, std::span<uint32_t> values) {
  constexpr size_t kPiece = kRows * 50;  // whole rows of the kernel, above the size that gets a block
  std::atomic<size_t> next = 0, refused = 0;
  const auto work = [&] {
    for (size_t at; (at = next.fetch_add(kPiece)) < values.size();) {
      const auto piece = values.subspan(at, std::min(kPiece, values.size() - at));
      if (!source.read("kernel", at * 4, std::as_writable_bytes(piece)).ok()) ++refused;
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return refused;
}

TransformOptions with_memory(uint64_t memory) {
  TransformOptions options;
  options.memory = memory;
  return options;
}

std::vector<uint32_t> transposed_numbers() {
  std::vector<uint32_t> values;
  for (uint32_t j = 0; j < kColumns; ++j)
    for (uint32_t i = 0; i < kRows; ++i) values.push_back(i * kColumns + j);
  return values;
}

TEST(ToTensorFlow, ThreadsThatShareASourceReadTheSame) {
  for (const uint64_t memory : {uint64_t{2} << 20, uint64_t{5} << 20, uint64_t{64} << 20}) {
    const Numbered source;
    const auto made = ToTensorFlow::make(transposed_table(), source, with_memory(memory)).value();
    std::vector<uint32_t> values(kRows * kColumns);
    EXPECT_EQ(read_by(4, *made, values), 0u);
    EXPECT_EQ(values, transposed_numbers()) << memory;
  }
}

TEST(ToTensorFlow, ThreadsThatWantOneBlockLoadItOnce) {
  const Numbered source;
  const auto made = ToTensorFlow::make(transposed_table(), source, with_memory(64 << 20)).value();
  std::vector<uint32_t> values(kRows * kColumns);
  EXPECT_EQ(read_by(4, *made, values), 0u);
  EXPECT_EQ(source.bytes_read(), values.size() * 4);
}

// A band that cannot be read is told to whoever wanted it, nobody waits for it, and no wrong byte is given.
TEST(ToTensorFlow, ABlockThatCannotBeReadIsRefusedAndReadAnewForTheNext) {
  const Numbered source(3);
  const auto made = ToTensorFlow::make(transposed_table(), source, with_memory(64 << 20)).value();
  std::vector<uint32_t> values(kRows * kColumns, ~0u);
  const std::vector<uint32_t> right = transposed_numbers();
  EXPECT_GT(read_by(4, *made, values), 0u);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_TRUE(values[i] == ~0u || values[i] == right[i]) << i;
}

TEST(ToTensorFlow, ThreadsUseAWindowOnTheFileAndLoadItOnce) {
  Numbered source;
  source.give_windows();
  const auto made = ToTensorFlow::make(transposed_table(), source, with_memory(64 << 20)).value();
  std::vector<uint32_t> values(kRows * kColumns);
  EXPECT_EQ(read_by(4, *made, values), 0u);
  EXPECT_EQ(values, transposed_numbers());
  EXPECT_EQ(source.bytes_read(), values.size() * 4);
}

TEST(ToTensorFlow, AWindowIsKeptForTheNextReadAndGivenUpWhenAsked) {
  Numbered source;
  source.give_windows();
  const auto made = ToTensorFlow::make(transposed_table(), source, with_memory(64 << 20)).value();
  std::vector<uint32_t> values(kRows * kColumns);
  EXPECT_EQ(read_by(2, *made, values), 0u);
  EXPECT_EQ(open_windows, 1);
  made->release();
  EXPECT_EQ(open_windows, 0);
  std::fill(values.begin(), values.end(), 0u);
  EXPECT_EQ(read_by(2, *made, values), 0u) << "it can still be read";
  EXPECT_EQ(values, transposed_numbers());
}

TEST(ToTensorFlow, WhatWasMadeOfBytesThatWereLostIsRefused) {
  Numbered source;
  source.give_windows(3);
  const auto made = ToTensorFlow::make(transposed_table(), source, with_memory(64 << 20)).value();
  std::vector<uint32_t> values(kRows * kColumns);
  const size_t pieces = kColumns / 50;
  EXPECT_EQ(read_by(1, *made, values), pieces / 3);
}

}  // namespace
}  // namespace tandem
