#include "kinship/kinship.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/hash.h"
#include "kinship/families.h"
#include "kinship/likeness.h"
#include "kinship/table.h"
#include "rules/transform.h"

namespace tandem::kinship {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Floats = std::vector<float>;

Floats random_values(size_t count, const std::string& seed) {
  std::seed_seq sequence(seed.begin(), seed.end());
  std::mt19937 engine(sequence);
  std::uniform_real_distribution<float> values(-1, 1);
  Floats made(count);
  for (float& value : made) value = values(engine);
  return made;
}

void add(MemorySource& source, const std::string& name, const Shape& shape, const Floats& values,
         DType dtype = DType::f32) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  ASSERT_TRUE(cast(DType::f32, std::as_bytes(std::span(values)), dtype, bytes).ok());
  source.add({name, dtype, shape}, std::move(bytes));
}

Floats transposed(const Floats& values, size_t rows, size_t columns) {
  Floats made(values.size());
  for (size_t i = 0; i < values.size(); ++i) made[i % columns * rows + i / columns] = values[i];
  return made;
}

Floats joined(const Floats& a, const Floats& b) {
  Floats made = a;
  made.insert(made.end(), b.begin(), b.end());
  return made;
}

std::vector<std::string> hf_names_of(const RuleRow& row) {
  std::vector<std::string> names;
  for (const TensorPlan& plan : expand(RuleTable{"unknown", {row}}))
    names.insert(names.end(), plan.hf.begin(), plan.hf.end());
  return names;
}

Kinship kinship_of(const MemorySource& left, const MemorySource& right) {
  return find_kinship(left, right, {}).value();
}

TEST(Layouts, PermutationsComeBeforeReshapes) {
  const auto layouts = possible_layouts({4, 6}, {6, 4});
  ASSERT_EQ(layouts.size(), 2u);
  EXPECT_EQ(in_words(layouts[0], {4, 6}, {6, 4}), "transpose(1,0)");
  EXPECT_EQ(in_words(layouts[1], {4, 6}, {6, 4}), "reshape to [6, 4]");
}

TEST(Layouts, SquareMatricesHaveTwo) { EXPECT_EQ(possible_layouts({5, 5}, {5, 5}).size(), 2u); }

TEST(Layouts, HeadsAreCutOutOfAnAxis) {
  // [heads*dim, hidden] as [hidden, heads, dim]
  const auto layouts = possible_layouts({6, 5}, {5, 2, 3});
  EXPECT_EQ(in_words(layouts.at(0), {6, 5}, {5, 2, 3}), "transpose(1,0), reshape to [5, 2, 3]");
}

TEST(Layouts, SizesOfOneDoNotCount) {
  EXPECT_EQ(as_transpose(possible_layouts({1, 7}, {7, 1}).at(0), {1, 7}, {7, 1}),
            (std::vector<uint64_t>{1, 0}));
  EXPECT_TRUE(possible_layouts({2, 3}, {7}).empty());
}

TEST(Families, OneRowForAllLayersAndEveryRange) {
  const auto made = families({{{"l.layers.0.up", "t/layer_0/up"}, ""},
                              {{"l.layers.1.up", "t/layer_1/up"}, ""},
                              {{"l.layers.4.up", "t/layer_4/up"}, ""},
                              {{"norm", "n"}, ""}});
  ASSERT_EQ(made.size(), 3u);
  EXPECT_THAT(made[0].patterns, ElementsAre("l.layers.{layer}.up", "t/layer_{layer}/up"));
  EXPECT_EQ(made[0].holes.at("layer"), (HoleRange{0, 2}));
  EXPECT_EQ(made[1].patterns, made[0].patterns);
  EXPECT_EQ(made[1].holes.at("layer"), (HoleRange{4, 5}));
  EXPECT_THAT(made[2].patterns, ElementsAre("norm", "n"));
}

TEST(Families, NumbersThatGoTheirOwnWaysStayInTheNames) {
  const auto made = families({{{"layers.0.up", "layer_1"}, ""}, {{"layers.1.up", "layer_2"}, ""}});
  ASSERT_EQ(made.size(), 2u);
  EXPECT_TRUE(made[0].holes.empty());
}

TEST(Families, StackedNamesAreConsecutive) {
  const auto stack = numbered({"layers.3.experts.4.up", "layers.3.experts.5.up"});
  ASSERT_TRUE(stack.has_value());
  EXPECT_EQ(stack->pattern, "layers.3.experts.{expert}.up");
  EXPECT_EQ(stack->begin, 4u);
  EXPECT_FALSE(numbered({"experts.5.up", "experts.4.up"}).has_value());
  EXPECT_FALSE(numbered({"experts.4.up", "experts.5.down"}).has_value());
}

TEST(Likeness, CountsSharedWords) {
  EXPECT_GT(likeness("layers.3.norm.weight", "layers/3/norm/weight"),
            likeness("layers.3.norm.weight", "layers/2/norm/weight"));
}

TEST(Kinship, FindsTransposeStackAndCastAndTheTableMakesTheSameBytes) {
  MemorySource left, right;
  Floats stack;
  for (size_t i = 0; i < 4; ++i) {
    const Floats values = random_values(15, "expert" + std::to_string(i));
    add(left, fmt::format("m.experts.{}.up", i), {5, 3}, values);
    stack = joined(stack, transposed(values, 5, 3));
  }
  add(right, "m/up/kernel_0", {3, 3, 5}, Floats(stack.begin(), stack.begin() + 45), DType::bf16);
  add(right, "m/up/kernel_1", {1, 3, 5}, Floats(stack.begin() + 45, stack.end()), DType::bf16);
  const Floats square = random_values(16, "square");
  add(left, "square", {4, 4}, square);
  add(right, "other", {4, 4}, transposed(square, 4, 4), DType::bf16);
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.certain());
  const Written written = write_rules(found, false);
  EXPECT_THAT(written.words, IsEmpty());
  ASSERT_EQ(written.table.rows.size(), 2u);
  EXPECT_EQ(written.table.rows[0].hf, "m.experts.{expert}.up");
  EXPECT_EQ(written.table.rows[0].steps, (std::vector<Step>{Transpose{{1, 0}}, Stack{"expert", 3}}));
  EXPECT_EQ(rules_from_json(to_json(written.table)).value(), written.table);
  const auto made = ToTensorFlow::make(written.table, left, {.dtype = DType::bf16});
  ASSERT_TRUE(made.ok()) << made.error().message();
  for (const TensorInfo& info : right.tensors()) {
    std::vector<std::byte> expected(byte_count(info.dtype, info.shape).value()), actual(expected.size());
    ASSERT_TRUE(right.read(info.name, 0, expected).ok());
    ASSERT_TRUE(made.value()->read(info.name, 0, actual).ok()) << info.name;
    EXPECT_EQ(actual, expected) << info.name;
  }
}

TEST(Kinship, Fp8CodesAndScalesAgainstNamesWithoutMeaning) {
  MemorySource left, right;
  RuleRow row;
  row.hf = "layers.{layer}.experts.{expert}.up";
  row.tf = "layers/{layer}/up";
  row.shape = {"130", "150"};
  row.sizes = {130, 150};
  row.holes = {{"layer", {0, 2}}, {"expert", {0, 3}}};
  row.steps = {BlockDequantize{128, 128, "_scale_inv"}, Transpose{{1, 0}}, Stack{"expert", 3}};
  for (const std::string& name : hf_names_of(row)) {
    add(left, name, row.sizes, random_values(130 * 150, name), DType::f8_e4m3);
    add(left, name + "_scale_inv", {2, 2}, {0.37f, 1.1f, 2.3f, 0.05f});
  }
  const RuleTable table{"unknown", {row}};
  const auto made = ToTensorFlow::make(table, left, {.dtype = DType::bf16});
  ASSERT_TRUE(made.ok()) << made.error().message();
  for (const TensorInfo& info : made.value()->tensors()) {
    std::vector<std::byte> bytes(byte_count(info.dtype, info.shape).value());
    ASSERT_TRUE(made.value()->read(info.name, 0, bytes).ok());
    right.add({"x" + std::to_string(name_hash(info.name)), info.dtype, info.shape}, std::move(bytes));
  }
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.certain());
  ASSERT_EQ(found.links.size(), 2u);
  for (const Link& link : found.links) {
    EXPECT_TRUE(link.dequantized);
    EXPECT_EQ(link.joined->name,
              "x" + std::to_string(name_hash("layers/" + link.parts[0]->name.substr(7, 1) + "/up")));
  }
  const RuleTable inferred = write_rules(found, false).table;
  ASSERT_EQ(inferred.rows.size(), 2u);
  EXPECT_EQ(inferred.rows[0].steps, row.steps);
}

TEST(Kinship, Fp8CodesOnBothSidesArePairedWithTheirScales) {
  MemorySource left, right;
  const Floats codes = random_values(64, "codes");
  for (MemorySource* side : {&left, &right}) {
    add(*side, "w", {8, 8}, codes, DType::f8_e4m3);
    add(*side, "w_scale_inv", {1, 1}, {0.5f});
  }
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.certain());
  EXPECT_EQ(found.links.size(), 2u);
}

TEST(Kinship, NearTensorsAreNamedAndIndependentOnesAreNot) {
  MemorySource left, right;
  const Floats base = random_values(20 * 30, "base"), change = random_values(20 * 30, "change");
  Floats trained = transposed(base, 20, 30);
  for (size_t i = 0; i < trained.size(); ++i) trained[i] += 0.01f * change[i];
  add(left, "base", {20, 30}, base);
  add(right, "independent", {20, 30}, change);
  add(right, "trained", {30, 20}, trained);
  const Kinship found = kinship_of(left, right);
  ASSERT_EQ(found.unpaired.size(), 3u);
  EXPECT_EQ(found.unpaired[0].hint, "near to trained, but not equal");
  EXPECT_EQ(found.unpaired[1].hint, "");
  EXPECT_EQ(found.unpaired[2].hint, "near to base, but not equal");
}

TEST(Kinship, ZerosThatFitEverywhereEndInTime) {
  MemorySource left, right;
  for (size_t i = 1; i <= 40; ++i) add(left, "zero" + std::to_string(i), {i, 2}, Floats(2 * i));
  Floats rest(2 * 900);
  rest.back() = 1;
  add(right, "all", {900, 2}, rest);
  const Kinship found = kinship_of(left, right);
  EXPECT_EQ(found.unpaired.size(), 41u);
}

TEST(Kinship, ManyEqualTensorsAreOneDoubt) {
  MemorySource left, right;
  for (size_t i = 0; i < 1500; ++i) {
    add(left, "a." + std::to_string(i) + ".bias", {2}, {0, 0});
    add(right, "b/" + std::to_string(i) + "/bias", {2}, {0, 0});
  }
  const Kinship found = kinship_of(left, right);
  ASSERT_EQ(found.doubts.size(), 1u);
  EXPECT_EQ(found.doubts[0].guess.size(), 1500u);
  EXPECT_EQ(found.doubts[0].guess[7].joined->name, "b/7/bias");
}

TEST(Kinship, OneChangedElementIsNoPair) {
  MemorySource left, right;
  Floats values = random_values(12, "x");
  add(left, "a", {3, 4}, values);
  std::swap(values[5], values[7]);  // the same multiset, so the fingerprints agree
  add(right, "b", {3, 4}, values);
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.links.empty());
  ASSERT_EQ(found.unpaired.size(), 2u);
  EXPECT_EQ(found.unpaired[0].hint, "has the values of b, in an order that is no layout known here");
}

TEST(Kinship, EveryElementIsComparedNotOnlyAFew) {
  MemorySource left, right;
  Floats values = random_values(300 * 400, "x");
  add(left, "a", {300, 400}, values);
  std::swap(values[71234], values[71235]);  // between the runs of the quick comparison
  add(right, "b", {300, 400}, values);
  EXPECT_TRUE(kinship_of(left, right).links.empty());
}

TEST(Kinship, RotaryPairsSideBySideOrInHalves) {
  // [heads, half, 2] of one convention against [heads, 2, half] of the other, transposed besides.
  constexpr size_t kHeads = 3, kHalf = 4, kHidden = 5;
  MemorySource left, right;
  const Floats pairs = random_values(kHeads * kHalf * 2 * kHidden, "q");
  Floats halves(pairs.size());
  for (size_t head = 0; head < kHeads; ++head)
    for (size_t i = 0; i < kHalf; ++i)
      for (size_t side = 0; side < 2; ++side)
        for (size_t column = 0; column < kHidden; ++column)
          halves[((head * 2 + side) * kHalf + i) * kHidden + column] =
              pairs[((head * kHalf + i) * 2 + side) * kHidden + column];
  add(left, "wq", {24, 5}, pairs);
  add(right, "q", {5, 24}, transposed(halves, 24, 5));
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.certain());
  EXPECT_THAT(write_rules(found, false).words,
              ElementsAre("wq -> q: reshape to [3, 4, 2, 5], transpose(3,0,2,1), reshape to [5, 24] "
                          "([24, 5] to [5, 24])"));
}

TEST(Kinship, ASymmetricMatrixIsADoubt) {
  MemorySource left, right;
  add(left, "a", {2, 2}, {1, 2, 2, 3});
  add(right, "b", {2, 2}, {1, 2, 2, 3});
  const Kinship found = kinship_of(left, right);
  EXPECT_FALSE(found.certain());
  ASSERT_EQ(found.doubts.size(), 1u);
  EXPECT_THAT(found.doubts[0].why, HasSubstr("transposed or not cannot be told"));
}

TEST(Kinship, CopiesAreTiesUnlessAllTheirElementsAreTheSame) {
  MemorySource left, right;
  const Floats values = random_values(6, "x");
  add(left, "embed", {3, 2}, values);
  add(left, "head", {3, 2}, values);
  add(right, "embed/table", {3, 2}, values);
  add(left, "norm_a", {4}, {1, 1, 1, 1});
  add(left, "norm_b", {4}, {1, 1, 1, 1});
  add(right, "norm", {4}, {1, 1, 1, 1});
  const Kinship found = kinship_of(left, right);
  ASSERT_EQ(found.ties.size(), 1u);
  EXPECT_EQ(found.ties[0].copy->name, "head");
  ASSERT_EQ(found.doubts.size(), 1u);
  EXPECT_EQ(found.doubts[0].hf.size(), 2u);
}

TEST(Kinship, GateAndUpOfEachExpertSideBySide) {
  MemorySource left, right;
  Floats fused;
  for (size_t i = 0; i < 3; ++i) {
    const Floats gate = random_values(8, "gate" + std::to_string(i)),
                 up = random_values(8, "up" + std::to_string(i));
    add(left, fmt::format("experts.{}.gate", i), {2, 4}, gate);
    add(left, fmt::format("experts.{}.up", i), {2, 4}, up);
    fused = joined(fused, joined(gate, up));
  }
  add(right, "gate_up", {3, 4, 4}, fused);
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.certain());
  EXPECT_THAT(
      write_rules(found, false).words,
      ElementsAre("experts.{expert}.gate + experts.{expert}.up -> gate_up: concatenate on axis 1, stack 3 "
                  "([2, 4] to [3, 4, 4])"));
}

TEST(Kinship, TheStackMayLieOnTheLeft) {
  MemorySource left, right;
  const Floats a = random_values(6, "a"), b = random_values(6, "b");
  add(left, "both", {2, 2, 3}, joined(a, b));
  add(right, "a", {2, 3}, a);
  add(right, "b", {3, 2}, transposed(b, 2, 3));
  // Not a stack of one kind of tensor: each part has a layout of its own.
  EXPECT_THAT(write_rules(kinship_of(left, right), false).words,
              ElementsAre(HasSubstr("part 1: transpose(1,0)")));
  MemorySource alike;
  add(alike, "a", {2, 3}, a);
  add(alike, "b", {2, 3}, b);
  const Kinship found = kinship_of(left, alike);
  EXPECT_TRUE(found.certain());
  EXPECT_THAT(write_rules(found, false).words, ElementsAre(HasSubstr("-> both on the hf side: stack 2")));
}

TEST(Kinship, NothingAgainstNothingIsNotCertain) {
  EXPECT_FALSE(kinship_of(MemorySource(), MemorySource()).certain());
}

TEST(Kinship, IntegersAndEmptyTensors) {
  MemorySource left, right;
  left.add({"step", DType::i64, {}}, std::vector<std::byte>(8, std::byte{3}));
  right.add({"global_step", DType::i64, {}}, std::vector<std::byte>(8, std::byte{3}));
  left.add({"none", DType::f32, {0, 4}}, {});
  right.add({"nothing", DType::f32, {0, 4}}, {});
  const Kinship found = kinship_of(left, right);
  EXPECT_TRUE(found.certain());
  EXPECT_EQ(found.links.size(), 2u);
}

}  // namespace
}  // namespace tandem::kinship
