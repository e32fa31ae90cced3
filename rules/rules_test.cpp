#include "rules/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RuleRow dense() {
  RuleRow row;
  row.hf = "layers.{layer}.up.weight";
  row.tf = "layers/{layer}/up/kernel";
  row.shape = {"intermediate_size", "hidden_size"};
  row.sizes = {5, 3};
  row.holes = {{"layer", {0, 2}}};
  row.steps = {BlockDequantize{2, 2, "_scale_inv"}, Transpose{{1, 0}}};
  return row;
}

RuleRow experts(uint64_t count, uint64_t chunk) {
  RuleRow row;
  row.hf = "layers.{layer}.experts.{expert}.up.weight";
  row.tf = "layers/{layer}/experts/up/kernel";
  row.shape = {"moe_intermediate_size", "hidden_size"};
  row.sizes = {4, 3};
  row.holes = {{"layer", {2, 3}}, {"expert", {0, count}}};
  row.steps = {Transpose{{1, 0}}, Stack{"expert", chunk}};
  return row;
}

RuleRow embedding() {
  RuleRow row;
  row.hf = "embed.weight";
  row.tf = "embed/table";
  row.shape = {"vocab_size", "hidden_size"};
  row.sizes = {7, 3};
  return row;
}

RuleRow tied_head() {
  RuleRow row = embedding();
  row.hf = "lm_head.weight";
  row.tf = "";
  row.tied_to = "embed.weight";
  row.optional = true;
  return row;
}

void add(MemorySource& source, const std::string& name, DType dtype, const Shape& shape, uint8_t byte = 0) {
  source.add({name, dtype, shape}, std::vector<std::byte>(byte_count(dtype, shape).value(), std::byte{byte}));
}

TEST(Steps, PrintAndParseBackEqual) {
  for (const char* text : {"transpose(1,0)", "stack(expert,24)", "block_dequantize(128,128,_scale_inv)"})
    EXPECT_EQ(to_string(parse_step(text).value()), text);
}

TEST(Steps, rules_c1_OtherTextIsRefused) {
  for (const char* text :
       {"", "transpose", "transpose()", "transpose(1,-1)", "stack(expert)", "stack(,2)", "flip(1)",
        "transpose(1,0) ", "block_dequantize(128,128,)", "transpose(99999999999999999999)"})
    EXPECT_EQ(parse_step(text).error().rule, "rules_c1") << text;
}

TEST(Rules, PrintAndParseBackEqual) {
  RuleRow buffer = embedding();
  buffer.hf = "rotary_emb.inv_freq";
  buffer.ignore = "derived buffer";
  RuleRow bias = embedding();
  bias.hf = bias.tf = "bias";
  bias.dtype = "f32";
  bias.trainable = bias.in_graph = false;
  const RuleTable table{"llama", {dense(), experts(12, 5), embedding(), tied_head(), buffer, bias}};
  EXPECT_EQ(rules_from_json(parse_json(to_json(table).dump()).value()).value(), table);
}

std::string problem(const Json& json, const char* rule) {
  const auto table = rules_from_json(json);
  if (table.ok()) return "no problem";
  EXPECT_EQ(table.error().rule, rule);
  EXPECT_EQ(exit_code(table.error().kind), 65);
  return table.error().text;
}

TEST(Rules, rules_c2_UnknownAndMissingFieldsAreNamedTogether) {
  Json json = to_json(RuleTable{"llama", {dense()}});
  json["rows"][0].erase("tf");
  json["rows"][0]["tff"] = "x";
  json["rows"][0]["sizes"] = {-5, 3};
  EXPECT_EQ(
      problem(json, "rules_c2"),
      "row 0: field tf is missing\nrow 0: field sizes is not a list of sizes\nrow 0: field tff is unknown");
}

std::string problem(const std::vector<RuleRow>& rows, const char* rule) {
  return problem(to_json(RuleTable{"llama", rows}), rule);
}

TEST(Rules, rules_c2_DtypeIsAFloatOrKeep) {
  RuleRow row = embedding();
  row.dtype = "i32";
  EXPECT_THAT(problem({row}, "rules_c2"), HasSubstr("embed.weight: dtype i32 is neither keep nor"));
}

TEST(Rules, rules_c2_NamesThatTensorFlowCannotHoldAreRefused) {
  for (const std::string name :
       {"/abs", "a//b", "a/", "../x", ".hidden", "a/.ATTRIBUTES/VARIABLE_VALUE", "a/.S/b", "_CHECKPOINTABLE",
        "a/_b", "a b", "a\nb", "a\\b", "\xc3\xbc", "a:0", "-a"}) {
    RuleRow row = embedding();
    row.tf = name;
    EXPECT_THAT(problem({row}, "rules_c2"), HasSubstr("embed.weight: the tf name ")) << name;
  }
  RuleRow row = embedding();
  row.tf = std::string(1025, 'x');
  EXPECT_THAT(problem({row}, "rules_c2"), HasSubstr("longer than 1024 bytes"));
  for (const char* name : {"a", "0", "model.embed.weight", "my/e-mbed_1/w", "A.b/0"}) {
    row.tf = name;
    EXPECT_TRUE(check({"llama", {row}}).ok()) << name;
  }
  row = dense();
  row.tf = "{layer}/up";
  EXPECT_TRUE(check({"llama", {row}}).ok());
}

TEST(Rules, rules_c3_HolesAndRangesMustAgree) {
  RuleRow row = dense();
  row.holes["expert"] = {0, 2};
  EXPECT_THAT(problem({row}, "rules_c3"), HasSubstr("hole {expert} has a range, but does not stand in"));
  row = dense();
  row.holes.clear();
  EXPECT_THAT(problem({row}, "rules_c3"), HasSubstr("hole {layer} in layers.{layer}.up.weight has no range"));
  row = dense();
  row.tf = "up/kernel";
  EXPECT_THAT(problem({row}, "rules_c3"), HasSubstr("does not stand in up/kernel"));
  row = dense();
  row.hf = "layers.{layer.up";
  EXPECT_THAT(problem({row}, "rules_c3"), HasSubstr("braces"));
}

TEST(Rules, rules_c3_NamesOfManyBytesAreRefusedBeforeTheyAreMade) {
  RuleRow row = embedding();
  row.hf = "layers.{layer}." + std::string(900, 'a');
  row.tf = "layers/{layer}/a";
  row.holes["layer"] = {0, 400'000};
  EXPECT_THAT(problem({row}, "rules_c3"), HasSubstr("its names have more than 268435456 bytes"));
  row.holes["layer"] = {0, 4};
  EXPECT_TRUE(check({"llama", {row}}).ok());
  row.hf += std::string(1000, 'a');
  EXPECT_THAT(problem({row}, "rules_c2"), HasSubstr("the hf name is longer than 1024 bytes"));
}

// Without the end at the first name too many: a quarter of an hour for the names of a thousand rows.
TEST(Rules, rules_c3_RowsThatMakeTooManyNamesTogetherAreRefusedAtOnce) {
  RuleTable table{"llama", {}};
  for (int i = 0; i < 1000; i++) {
    RuleRow row = embedding();
    row.hf = fmt::format("l{}.{{layer}}.w", i);
    row.tf = fmt::format("l{}/{{layer}}/w", i);
    row.holes["layer"] = {0, 1'000'000};
    table.rows.push_back(row);
  }
  EXPECT_EQ(check(table).error().text, "the rows make more than 2097152 names");
}

TEST(Rules, ALongReportIsCut) {
  RuleTable table{"llama", std::vector<RuleRow>(1500, embedding())};
  const std::string text = check(table).error().text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1000);
  EXPECT_THAT(text, testing::EndsWith("\nand 1998 more"));  // both names of 1499 rows
}

TEST(Rules, rules_c3_AHugeRangeIsRefusedBeforeItIsExpanded) {
  RuleRow row = dense();
  row.holes["layer"] = {0, ~0ull};
  EXPECT_THAT(problem({row}, "rules_c3"), HasSubstr("names"));
}

TEST(Rules, rules_c4_StepsMustFitTheShape) {
  RuleRow row = dense();
  row.steps = {Transpose{{1, 1}}};
  EXPECT_THAT(problem({row}, "rules_c4"),
              HasSubstr("transpose(1,1) does not fit [5, 3]: it must name each of 2 axes"));
  row.steps = {Transpose{{1, 0}}, BlockDequantize{2, 2, "_scale_inv"}};
  EXPECT_THAT(problem({row}, "rules_c4"), HasSubstr("it must be the first step"));
  row = experts(4, 2);
  row.steps = {Stack{"expert", 2}, Transpose{{1, 0}}};
  EXPECT_THAT(problem({row}, "rules_c4"), HasSubstr("it must be the last step"));
  row = embedding();
  row.sizes = {1ull << 40, 1ull << 40};
  EXPECT_THAT(problem({row}, "rules_c4"), HasSubstr("embed.weight"));
}

TEST(Rules, rules_c5_OneNameIsMadeOnce) {
  RuleRow other = embedding();
  other.hf = "other.weight";
  EXPECT_EQ(problem({embedding(), other}, "rules_c5"), "other.weight: another row makes embed/table too");
  other = embedding();
  other.hf = "layers.1.up.weight_scale_inv";
  other.tf = "other";
  EXPECT_THAT(problem({dense(), other}, "rules_c5"), HasSubstr("makes layers.1.up.weight_scale_inv too"));
}

TEST(Rules, rules_c6_ATieNeedsItsPartner) {
  EXPECT_THAT(problem({tied_head()}, "rules_c6"), HasSubstr("tied to embed.weight, which no row makes"));
}

TEST(Expand, FillsHolesInOrder) {
  const RuleTable table{"llama", {dense()}};
  const auto plans = expand(table);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[1], (TensorPlan{&table.rows[0],
                                  "layers/1/up/kernel",
                                  "layers.1.up.weight",
                                  {"layers.1.up.weight"},
                                  {5, 3},
                                  {3, 5}}));
}

// Text order would put expert 10 into slot 2.
TEST(Expand, N18_ExpertsAreStackedInNumericOrder) {
  const RuleTable table{"deepseek_v3", {experts(12, 12)}};
  const auto plans = expand(table);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].tf, "layers/2/experts/up/kernel");
  EXPECT_EQ(plans[0].contract_name, "layers.2.experts.up.weight");
  EXPECT_EQ(plans[0].tf_shape, (Shape{12, 3, 4}));
  EXPECT_EQ(plans[0].hf[10], "layers.2.experts.10.up.weight");
}

TEST(Expand, AStackIsCutIntoNumberedChunks) {
  const RuleTable table{"deepseek_v3", {experts(12, 5)}};
  const auto plans = expand(table);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[1].tf, "layers/2/experts/up/kernel_1");
  EXPECT_EQ(plans[1].contract_name, "layers.2.experts.up.weight.1");
  EXPECT_EQ(plans[1].hf[0], "layers.2.experts.5.up.weight");
  EXPECT_EQ(plans[2].tf_shape, (Shape{2, 3, 4}));
}

TEST(Match, ListsEveryDifference) {
  MemorySource source;
  add(source, "layers.0.up.weight", DType::bf16, {3, 5});
  add(source, "embed.weight", DType::i32, {7, 3});
  add(source, "extra", DType::bf16, {1});
  add(source, "rotary_emb.inv_freq", DType::f32, {2});
  RuleRow buffer;
  buffer.hf = "rotary_emb.inv_freq";
  buffer.ignore = "derived buffer";
  const Match found = match(RuleTable{"llama", {dense(), embedding(), buffer}}, source);
  EXPECT_THAT(found.missing, ElementsAre("layers.1.up.weight"));
  EXPECT_THAT(found.unexpected, ElementsAre("extra"));
  EXPECT_THAT(found.ignored, ElementsAre("rotary_emb.inv_freq: derived buffer"));
  EXPECT_THAT(found.wrong, ElementsAre("layers.0.up.weight: shape [3, 5], expected [5, 3]",
                                       "embed.weight: dtype i32, expected bf16, f16, f32 or f64"));
  EXPECT_FALSE(found.complete());
}

TEST(Match, X8_ScalesBelongToFp8WeightsAlone) {
  MemorySource source;
  add(source, "layers.0.up.weight", DType::f8_e4m3, {5, 3});
  add(source, "layers.1.up.weight", DType::bf16, {5, 3});
  add(source, "layers.1.up.weight_scale_inv", DType::f32, {3, 2});
  Match found = match(RuleTable{"llama", {dense()}}, source);
  EXPECT_THAT(found.wrong, ElementsAre("layers.0.up.weight: an f8_e4m3 weight without its scales "
                                       "layers.0.up.weight_scale_inv"));
  EXPECT_THAT(found.unexpected, ElementsAre("layers.1.up.weight_scale_inv"));

  add(source, "layers.0.up.weight_scale_inv", DType::bf16, {2, 3});
  found = match(RuleTable{"llama", {dense()}}, source);
  EXPECT_THAT(found.wrong, ElementsAre("layers.0.up.weight_scale_inv: shape [2, 3], expected [3, 2]",
                                       "layers.0.up.weight_scale_inv: dtype bf16, expected f32"));
}

TEST(Match, X8_Fp8NeedsARuleThatDequantizes) {
  MemorySource source;
  add(source, "embed.weight", DType::f8_e4m3, {7, 3});
  EXPECT_THAT(match(RuleTable{"llama", {embedding()}}, source).wrong,
              ElementsAre("embed.weight: dtype f8_e4m3, expected bf16, f16, f32 or f64"));
}

TEST(Match, N20_EitherTiedCopyIsEnough) {
  const RuleTable table{"llama", {embedding(), tied_head()}};
  for (const char* name : {"embed.weight", "lm_head.weight"}) {
    MemorySource source;
    add(source, name, DType::bf16, {7, 3});
    EXPECT_TRUE(match(table, source).complete()) << name;
  }
  EXPECT_THAT(match(table, MemorySource()).missing, ElementsAre("embed.weight"));
}

TEST(Match, N20_TwoTiedCopiesMustBeEqual) {
  const RuleTable table{"llama", {embedding(), tied_head()}};
  MemorySource source;
  add(source, "embed.weight", DType::bf16, {7, 3}, 1);
  add(source, "lm_head.weight", DType::bf16, {7, 3}, 1);
  EXPECT_THAT(match(table, source).tied, ElementsAre("lm_head.weight"));
  EXPECT_TRUE(match(table, source).complete());
  MemorySource torn;
  add(torn, "embed.weight", DType::bf16, {7, 3}, 1);
  add(torn, "lm_head.weight", DType::bf16, {7, 3}, 2);
  EXPECT_THAT(match(table, torn).wrong,
              ElementsAre("lm_head.weight: tied to embed.weight, but its values differ"));
}

TEST(Match, AnOptionalRowIsAbsentWhole) {
  RuleRow row = experts(3, 3);
  row.optional = true;
  MemorySource source;
  EXPECT_THAT(match(RuleTable{"x", {row}}, source).missing, IsEmpty());
  add(source, "layers.2.experts.1.up.weight", DType::bf16, {4, 3});
  EXPECT_THAT(match(RuleTable{"x", {row}}, source).missing,
              ElementsAre("layers.2.experts.0.up.weight", "layers.2.experts.2.up.weight"));
}

TEST(Match, CarriedRowsAreThereAllOrNone) {
  RuleRow up = experts(3, 3), table = embedding();
  for (RuleRow* row : {&up, &table}) {
    row->optional = true;
    row->in_graph = false;
  }
  MemorySource source;
  EXPECT_THAT(match(RuleTable{"x", {up, table}}, source).missing, IsEmpty());
  add(source, "embed.weight", DType::bf16, {7, 3});
  EXPECT_THAT(match(RuleTable{"x", {up, table}}, source).missing,
              ElementsAre("layers.2.experts.0.up.weight", "layers.2.experts.1.up.weight",
                          "layers.2.experts.2.up.weight"));
}

}  // namespace
}  // namespace tandem
