#include "contract/ops/rotary_table.h"

#include <gmock/gmock.h>

#include <cmath>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

/// A table of 8 lanes over theta 10000, and what is changed.
struct Table {
  int64_t dim = 8;
  double theta = 10000;
  std::string type = "default";
  Attributes more = {};
  std::string dtype = "f32";

  Node node() const {
    Attributes attributes = more;
    attributes.insert({{"dim", dim}, {"theta", theta}, {"type", type}, {"dtype", dtype}});
    return node_of("rotary_table", attributes, 2);
  }
  std::string infer() const { return tandem::infer(node(), {i32({"batch", "tokens"})}); }
  RotaryFrequencies frequencies(uint64_t length = 0) const {
    return rotary_frequencies(rotary_scaling(node()).value(), length).value();
  }
};

const Attributes kYarn{{"factor", 40.0}, {"original_max_position_embeddings", int64_t{4096}}};
const Attributes kLlama3{{"factor", 8.0},
                         {"original_max_position_embeddings", int64_t{8192}},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0}};
const Attributes kDynamic{{"factor", 2.0}, {"original_max_position_embeddings", int64_t{64}}};

Attributes with(Attributes attributes, const std::string& name, Attribute value) {
  attributes.insert_or_assign(name, std::move(value));
  return attributes;
}

TEST(RotaryTable, C1PositionsAreI32BatchTokens) {
  EXPECT_EQ(Table{}.infer(), "f32[batch, tokens, 8], f32[batch, tokens, 8]");
  EXPECT_EQ(infer(Table{}.node(), {f32({"batch", "tokens"})}),
            "rotary_table_c1: position_ids is f32[batch, tokens], expected i32[batch, tokens]");
}

TEST(RotaryTable, C2DimIsEven) {
  EXPECT_EQ(Table{.dim = 7}.infer(), "rotary_table_c2: dim is 7, expected an even number of at least 2");
  EXPECT_EQ((Table{.dim = 2, .type = "dynamic", .more = kDynamic}.infer()),
            "rotary_table_c2: dim is 2, expected an even number of at least 4");
}

TEST(RotaryTable, C3ThetaIsAboveOne) {
  EXPECT_EQ(Table{.theta = 1}.infer(), "rotary_table_c3: theta is 1, expected a number above 1");
}

TEST(RotaryTable, C4R07AnUnknownTypeIsRefusedByName) {
  EXPECT_EQ(Table{.type = "longrope"}.infer(),
            "rotary_table_c4: type \"longrope\" is none of default, linear, dynamic, yarn, llama3");
}

TEST(RotaryTable, C5FieldsThatATypeNeeds) {
  EXPECT_EQ(Table{.type = "linear"}.infer(), "rotary_table_c5: type linear needs factor");
}

TEST(RotaryTable, C6FieldsThatATypeDoesNotRead) {
  EXPECT_EQ((Table{.type = "linear", .more = {{"factor", 4.0}, {"mscale", 1.0}}}.infer()),
            "rotary_table_c6: type linear does not read mscale");
}

TEST(RotaryTable, C7FieldsInTheirRange) {
  EXPECT_EQ((Table{.type = "linear", .more = {{"factor", 0.0}}}.infer()),
            "rotary_table_c7: factor is 0, expected a number above 0");
  EXPECT_EQ((Table{.type = "llama3", .more = with(kLlama3, "high_freq_factor", 1.0)}.infer()),
            "rotary_table_c7: high_freq_factor is 1, expected more than low_freq_factor = 1");
}

TEST(RotaryTable, C8DtypeIsAFloat) {
  EXPECT_EQ(Table{.dtype = "i32"}.infer(), "rotary_table_c8: dtype is \"i32\", expected a float type");
}

TEST(RotaryTable, R02TheYarnMultiplierReadsBothMscales) {
  const auto factor = [](Attributes more) {
    return Table{.type = "yarn", .more = more}.frequencies().attention_factor;
  };
  const auto mscales = [](double one, double all) {
    return with(with(kYarn, "mscale", one), "mscale_all_dim", all);
  };
  EXPECT_EQ(factor(mscales(0.707, 0.707)), 1.0);
  EXPECT_NEAR(factor(mscales(1.0, 0.707)), 1.0857264, 1e-7);
  EXPECT_NEAR(factor(mscales(0.0, 0.707)), 1.3688879, 1e-7);  // a zero counts as absent
  EXPECT_NEAR(factor(kYarn), 1.3688879, 1e-7);
  EXPECT_EQ(factor(with(kYarn, "attention_factor", 0.5)), 0.5);
}

TEST(RotaryTable, R04YarnBlendsBetweenItsBounds) {
  const auto f = Table{.dim = 64, .type = "yarn", .more = kYarn}.frequencies().inverse_frequencies;
  ASSERT_EQ(f.size(), 32u);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_NEAR(f[10] / 0.05623413, 1, 1e-6);
  EXPECT_NEAR(f[11] / 0.03900693, 1, 1e-6);
  EXPECT_NEAR(f[16] / 0.0055, 1, 1e-6);
  EXPECT_NEAR(f[22] / 1.778279e-4, 1, 1e-6);
  EXPECT_NEAR(f[23] / 3.333804e-5, 1, 1e-6);
  EXPECT_NEAR(f[31] / 3.333804e-6, 1, 1e-6);
}

TEST(RotaryTable, YarnBoundsMayStayUnrounded) {
  const auto f = Table{.dim = 64, .type = "yarn", .more = with(kYarn, "truncate", false)}
                     .frequencies()
                     .inverse_frequencies;
  EXPECT_NEAR(f[10] / 0.05623413, 1, 1e-6);  // still below the first bound, 10.472
  EXPECT_NEAR(f[11] / (0.04216965 * (1 - (11 - 10.4720) / (22.5128 - 10.4720) * (1 - 1 / 40.0))), 1, 1e-4);
}

TEST(RotaryTable, R05LinearScalingSlowsTheTurning) {
  const Table table{.theta = 100000, .type = "linear", .more = {{"factor", 4.0}}};
  const auto angles = run_f64(table.node(), {{{1, 1}, {8}}}).value();
  EXPECT_NEAR(angles[0].data[0], -0.41614684, 1e-8);  // cos 2
  EXPECT_NEAR(angles[1].data[0], std::sin(2.0), 1e-12);
}

TEST(RotaryTable, R07Llama3SmoothsTheMiddleFrequencies) {
  const auto f = Table{.theta = 500000, .type = "llama3", .more = kLlama3}.frequencies().inverse_frequencies;
  ASSERT_EQ(f.size(), 4u);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_NEAR(f[1] / 0.03760603, 1, 1e-6);
  EXPECT_NEAR(f[2] / 5.248462e-4, 1, 1e-6);
  EXPECT_NEAR(f[3] / 6.64787e-6, 1, 1e-6);
}

TEST(RotaryTable, DynamicScalingStartsBeyondTheTrainedLength) {
  const Table table{.dim = 10, .type = "dynamic", .more = kDynamic};
  EXPECT_EQ(table.frequencies(64).inverse_frequencies, (Table{.dim = 10}.frequencies().inverse_frequencies));
  // PyTorch 2.13, float32: 10000 * (2 * 77 / 64 - 1) ** (10 / 8) = 15313.6298828125
  EXPECT_FLOAT_EQ(table.frequencies(77).inverse_frequencies[1],
                  static_cast<float>(std::pow(15313.6298828125, -0.2)));
}

// The longest position of the whole call decides, for every sequence in it.
TEST(RotaryTable, DynamicScalingFollowsTheLongestPositionOfTheCall) {
  const Table table{.dim = 10, .type = "dynamic", .more = kDynamic};
  const auto angles = run_f64(table.node(), {{{2, 1}, {1, 76}}}).value();
  EXPECT_NEAR(angles[0].data[1], std::cos(std::pow(15313.6298828125, -0.2)), 1e-7);
}

TEST(RotaryTable, BothHalvesHoldTheSameAnglesTimesTheFactor) {
  const Table table{.dim = 4, .type = "yarn", .more = with(kYarn, "attention_factor", 0.5)};
  const auto angles = run_f64(table.node(), {{{1, 1}, {3}}}).value();
  EXPECT_NEAR(angles[0].data[0], 0.5 * std::cos(3.0), 1e-12);
  EXPECT_EQ(angles[0].data[0], angles[0].data[2]);
  EXPECT_EQ(angles[1].data[1], angles[1].data[3]);
}

TEST(RotaryTable, CosAndSinAreRoundedToTheirDtype) {
  const auto angles = run_f32(Table{.dtype = "bf16"}.node(), {{{1, 1}, {1}}}).value();
  EXPECT_EQ(angles[0].data[0], 0.5390625f);  // cos 1 = 0.5403
}

}  // namespace
}  // namespace tandem
