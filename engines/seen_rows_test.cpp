#include "engines/seen_rows.h"

#include <gmock/gmock.h>

#include <cstring>

namespace tandem {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

HostTensor tensor(const Rows& rows) {
  HostTensor made{DType::i32, {rows.size(), rows[0].size()}, {}};
  for (const auto& row : rows) {
    const auto bytes = std::as_bytes(std::span(row));
    made.data.insert(made.data.end(), bytes.begin(), bytes.end());
  }
  return made;
}

HostTensors inputs(const Rows& ids, const Rows& mask, const Rows& positions) {
  return {{"input_ids", tensor(ids)}, {"attention_mask", tensor(mask)}, {"position_ids", tensor(positions)}};
}

HostTensors rows(const Rows& ids, const Rows& mask) {
  Rows positions = mask;
  for (auto& row : positions) {
    int32_t count = 0;
    for (int32_t& at : row) {
      count += at;
      at = std::max(count - 1, 0);
    }
  }
  return inputs(ids, mask, positions);
}

class Continued : public ::testing::Test {
 protected:
  void SetUp() override { seen.remember(rows({{5, 6}, {0, 7}}, {{1, 1}, {0, 1}})); }
  SeenRows seen;
};

TEST_F(Continued, ByOneTokenInEveryRow) {
  EXPECT_TRUE(seen.are_continued_by(rows({{5, 6, 8}, {0, 7, 9}}, {{1, 1, 1}, {0, 1, 1}})));
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 6}, {0, 7}}, {{1, 1}, {0, 1}})));
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 6, 8, 1}, {0, 7, 9, 1}}, {{1, 1, 1, 1}, {0, 1, 1, 1}})));
  EXPECT_FALSE(SeenRows().are_continued_by(rows({{5}}, {{1}})));
}

TEST_F(Continued, NotByOtherRows) {
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 5, 8}, {0, 7, 9}}, {{1, 1, 1}, {0, 1, 1}})));
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 6, 8}}, {{1, 1, 1}})));
  EXPECT_FALSE(seen.are_continued_by(rows({{0, 7, 9}, {5, 6, 8}}, {{0, 1, 1}, {1, 1, 1}})));
}

TEST_F(Continued, NotWithAnotherMask) {
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 6, 8}, {0, 7, 9}}, {{1, 1, 1}, {1, 1, 1}})));
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 6, 8}, {0, 7, 9}}, {{1, 1, 0}, {0, 1, 1}})));
}

TEST_F(Continued, NotWithPositionsOfTheirOwn) {
  const Rows ids{{5, 6, 8}, {0, 7, 9}}, mask{{1, 1, 1}, {0, 1, 1}};
  EXPECT_TRUE(seen.are_continued_by(inputs(ids, mask, {{0, 1, 2}, {77, 0, 1}})));  // padding has no position
  EXPECT_FALSE(seen.are_continued_by(inputs(ids, mask, {{0, 1, 3}, {0, 0, 1}})));
  EXPECT_FALSE(seen.are_continued_by(inputs(ids, mask, {{0, 1, 2}, {0, 1, 2}})));
}

TEST_F(Continued, NotOnceForgotten) {
  seen.forget();
  EXPECT_FALSE(seen.are_continued_by(rows({{5, 6, 8}, {0, 7, 9}}, {{1, 1, 1}, {0, 1, 1}})));
}

TEST(PositionsFollowMask, OddInputsDoNot) {
  HostTensors good = rows({{5, 6}}, {{1, 1}});
  EXPECT_TRUE(positions_follow_mask(good));
  HostTensors odd = good;
  odd["forced_experts"] = tensor({{1, 1}});
  EXPECT_FALSE(positions_follow_mask(odd));
  odd = good;
  odd["input_ids"].data.pop_back();
  EXPECT_FALSE(positions_follow_mask(odd));
  odd = good;
  odd["attention_mask"] = tensor({{1, 1, 1}});
  EXPECT_FALSE(positions_follow_mask(odd));
  EXPECT_FALSE(positions_follow_mask(inputs({{5, 6}}, {{1, 2}}, {{0, 2}})));
  EXPECT_FALSE(positions_follow_mask(inputs({{}}, {{}}, {{}})));
}

TEST(LastColumn, OfEveryRow) {
  const HostTensor column = last_column(tensor({{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(column.shape, (Shape{2, 1}));
  EXPECT_EQ(column.data, tensor({{3}, {6}}).data);
}

}  // namespace
}  // namespace tandem
