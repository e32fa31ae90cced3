#include "contract/check.h"

#include <gmock/gmock.h>

#include "contract/text.h"

namespace tandem {
namespace {

constexpr std::string_view kText =
    "contract 1\n"
    "compute f32\n"
    "weight model.layers.0.norm.weight: bf16[4]\n"
    "weight model.layers.1.norm.weight: f32[4]\n"
    "weight embed.weight: bf16[9, 4]\n"
    "block layer(x: f32[batch, tokens, 4]) weights (norm.weight: f32[4]) {\n"
    "  h = rms_norm(x, @norm.weight, epsilon=1e-06)  # tap norm\n"
    "  y = add(x, h)\n"
    "  return y\n"
    "}\n"
    "entry hidden(input_ids: i32[batch, tokens]) {\n"
    "  x_0 = embedding(input_ids, @embed.weight)  # tap embed\n"
    "  x_1 = call(x_0, at=\"model.layers.0\", block=\"layer\")  # tap model.layers.0\n"
    "  x_2 = call(x_1, at=\"model.layers.1\", block=\"layer\")\n"
    "  return x_2\n"
    "}\n";

/// What the checker says when each `from` in the sample is one `to`.
std::string checked(std::string_view from = "", std::string_view to = "") {
  std::string text(kText);
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const auto parsed = parse_contract(text);
  if (!parsed.ok()) return parsed.error().message();
  const auto status = check(parsed.value());
  return status.ok() ? "ok" : status.error().message();
}

TEST(Check, TheSampleIsRight) { EXPECT_EQ(checked(), "ok"); }

TEST(Check, C1ComputeIsAnArithmeticFloat) {
  EXPECT_EQ(checked("compute f32", "compute i32").substr(0, 65),
            "check_c1: contract: compute is i32, expected f64, f32, bf16 or f1");
}

TEST(Check, C2Weights) {
  EXPECT_EQ(checked("weight embed.weight: bf16[9, 4]",
                    "weight embed.weight: bf16[9, 4]\nweight embed.weight: bf16[9, 4]"),
            "check_c2: contract: weight embed.weight is there twice");
  EXPECT_EQ(
      checked("compute f32\n", "compute f32\nweight w: f32[4294967296, 4294967296]\n"),
      "check_c2: contract: weight w: shape [4294967296, 4294967296] has more elements than 64 bits count");
}

TEST(Check, C3NamesOfBlocksAndEntries) {
  Contract contract = parse_contract(kText).value();
  contract.entries.push_back(contract.entries[0]);
  contract.entries.back().nodes.clear();
  contract.entries.back().results = {"input_ids"};
  EXPECT_EQ(check(contract).error().message(), "check_c3: contract: entry hidden is there twice");
  contract.entries.back().name = "two words";
  EXPECT_EQ(check(contract).error().message(),
            "check_c3: contract: \"two words\" is not a name for an entry or block");
}

TEST(Check, C4Parameters) {
  EXPECT_EQ(checked("norm.weight: f32[4])", "norm.weight: f32[4], norm.weight: f32[4])"),
            "check_c4: block layer: parameter norm.weight is declared twice");
  EXPECT_THAT(
      checked("(norm.weight: f32[4])", "(norm.weight: f32[n])"),
      ::testing::StartsWith("check_c4: block layer: weight norm.weight is f32[n], expected fixed sizes\n"));
  EXPECT_EQ(checked("tokens]) {", "tokens]) weights (w: f32[1]) {"),
            "check_c4: entry hidden: an entry reads the contract's weights and declares none");
}

TEST(Check, C5OperandsAreAssignedBefore) {
  EXPECT_EQ(checked("add(x, h)", "add(x, z)"),
            "check_c5: block layer, node 2 (add): z is used before it is assigned");
  EXPECT_EQ(checked("@norm.weight, eps", "@gain, eps"),
            "check_c5: block layer, node 1 (rms_norm): the block has no weight gain");
  EXPECT_EQ(checked("@embed.weight", "@embed"),
            "check_c5: entry hidden, node 1 (embedding): the contract has no weight embed");
}

TEST(Check, C6OutputsAreAssignedOnce) {
  EXPECT_EQ(checked("y = add(x, h)", "h = add(x, h)\n  y = add(x, h)"),
            "check_c6: block layer, node 2 (add): h is assigned twice");
}

TEST(Check, C7CallsNameABlockAndAPlace) {
  EXPECT_EQ(checked("at=\"model.layers.0\", ", ""),
            "check_c7: entry hidden, node 2 (call): call needs the attributes block and at");
  EXPECT_EQ(checked("at=\"model.layers.0\", ", "at=1, "),
            "check_c7: entry hidden, node 2 (call): call has the texts block and at, found at");
}

TEST(Check, C8Calls) {
  EXPECT_EQ(checked("block=\"layer\"", "block=\"moe\""),
            "check_c8: entry hidden, node 2 (call): there is no block moe");
  EXPECT_EQ(checked("call(x_0,", "call(input_ids,"),
            "check_c8: entry hidden, node 2 (call): input x of block layer is i32[batch, tokens], expected "
            "f32[batch, tokens, 4]");
  EXPECT_EQ(checked("x_1 = call", "x_1, z = call"),
            "check_c8: entry hidden, node 2 (call): block layer has 1 results, the node names 2");
  EXPECT_THAT(checked("y = add(x, h)", "y = call(x, at=\"\", block=\"layer\")"),
              ::testing::StartsWith(
                  "check_c8: block layer, node 2 (call): a block calls no blocks; only entries do"));
}

TEST(Check, C9CallsBindWeightsOfTheRightShape) {
  EXPECT_EQ(checked("at=\"model.layers.1\"", "at=\"model.layers.2\""),
            "check_c9: entry hidden, node 3 (call): block layer needs the weight model.layers.2.norm.weight, "
            "which the "
            "contract lacks");
  EXPECT_EQ(checked("1.norm.weight: f32[4]", "1.norm.weight: f32[5]"),
            "check_c9: entry hidden, node 3 (call): weight model.layers.1.norm.weight is f32[5], block layer "
            "takes f32[4]");
}

TEST(Check, C10Results) {
  EXPECT_EQ(checked("return x_2", "return x_3"),
            "check_c10: entry hidden: it returns x_3, which is not one of its values");
  EXPECT_EQ(checked("return x_2", "return x_2, x_2"), "check_c10: entry hidden: it returns x_2 twice");
}

TEST(Check, C11TapsHaveNamesOfTheirOwn) {
  EXPECT_EQ(checked("tap embed", "tap model.layers.0.norm"),
            "check_c11: entry hidden: two taps or outputs are called model.layers.0.norm");
  EXPECT_EQ(checked("tap embed", "tap x_2"), "check_c11: entry hidden: two taps or outputs are called x_2");
}

TEST(Check, ConstraintsOfOpsCarryTheirLabels) {
  EXPECT_EQ(checked("epsilon=1e-06", "epsilon=0.0"),
            "rms_norm_c3: block layer, node 1 (rms_norm): epsilon is 0, expected a number above 0");
  EXPECT_EQ(checked("= add(", "= gelu("), "op_c1: block layer, node 2 (gelu): there is no op \"gelu\"");
}

// A wrong node makes its outputs unknown; nobody complains about those a second time.
TEST(Check, AllProblemsAreReportedOnceEach) {
  std::string text(kText);
  for (const auto& [from, to] : {std::pair{"epsilon=1e-06", "epsilon=0.0"}, {"return x_2", "return x_3"}})
    text.replace(text.find(from), std::string_view(from).size(), to);
  EXPECT_EQ(check(parse_contract(text).value()).error().message(),
            "rms_norm_c3: block layer, node 1 (rms_norm): epsilon is 0, expected a number above 0\n"
            "check_c10: entry hidden: it returns x_3, which is not one of its values");
}

TEST(InferTypes, EveryValueHasItsType) {
  const Contract contract = parse_contract(kText).value();
  const ValueTypes block = infer_types(contract, contract.blocks[0]).value();
  EXPECT_EQ(block.size(), 3u);
  EXPECT_EQ(block.at("y"), f32({"batch", "tokens", 4}));
  const ValueTypes entry = infer_types(contract, contract.entries[0]).value();
  EXPECT_EQ(entry.at("x_2"), f32({"batch", "tokens", 4}));
  EXPECT_EQ(entry.at("input_ids"), i32({"batch", "tokens"}));
}

TEST(Taps, FullNamesInOrderOfExecution) {
  const Contract contract = parse_contract(kText).value();
  std::vector<std::string> names;
  const auto all = taps(contract, contract.entries[0]).value();
  for (const Parameter& tap : all) names.push_back(tap.name);
  EXPECT_THAT(
      names, ::testing::ElementsAre("embed", "model.layers.0.norm", "model.layers.0", "model.layers.1.norm"));
  EXPECT_EQ(all[1].type, f32({"batch", "tokens", 4}));
}

}  // namespace
}  // namespace tandem
