#include "contract/ops/activation_gate.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

Node gate(std::string hidden_act) {
  return node_of("activation_gate", {{"hidden_act", std::move(hidden_act)}});
}

TEST(ActivationGate, C1GateIsFloat) {
  EXPECT_EQ(infer(gate("silu"), {i32({2}), i32({2})}),
            "activation_gate_c1: gate is i32[2], expected a float type");
}

TEST(ActivationGate, C2UpIsLikeGate) {
  EXPECT_EQ(infer(gate("silu"), {f32({2}), f32({2})}), "f32[2]");
  EXPECT_EQ(infer(gate("silu"), {f32({2}), bf16({2})}),
            "activation_gate_c2: up is bf16[2], expected f32[2] as gate");
}

TEST(ActivationGate, C3TheActivationIsKnown) {
  EXPECT_EQ(infer(gate("quick_gelu"), {f32({2}), f32({2})}),
            "activation_gate_c3: hidden_act is \"quick_gelu\", expected one of \"silu\", \"gelu\", "
            "\"gelu_pytorch_tanh\", \"relu\"");
}

TEST(ActivationGate, OnlyTheGateIsActivated) {
  const auto y = run_f64(gate("silu"), {{{3}, {0, 1, -1000}}, {{3}, {5, 2, 3}}}).value()[0];
  EXPECT_EQ(y.data[0], 0);
  EXPECT_NEAR(y.data[1], 2 * 0.7310585786300049, 1e-15);
  EXPECT_EQ(y.data[2], 0);
}

TEST(ActivationGate, TheAttributeChoosesTheActivation) {
  const auto y = run_f32(gate("relu"), {{{3}, {-1, 0.5, 2}}, {{3}, {5, 2, -3}}}).value()[0];
  EXPECT_THAT(y.data, testing::ElementsAre(0, 1, -6));
}

}  // namespace
}  // namespace tandem
