#include "contract/ops/silu_gate.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

TEST(SiluGate, C1GateIsFloat) {
  EXPECT_EQ(infer(node_of("silu_gate"), {i32({2}), i32({2})}),
            "silu_gate_c1: gate is i32[2], expected a float type");
}

TEST(SiluGate, C2UpIsLikeGate) {
  EXPECT_EQ(infer(node_of("silu_gate"), {f32({2}), f32({2})}), "f32[2]");
  EXPECT_EQ(infer(node_of("silu_gate"), {f32({2}), bf16({2})}),
            "silu_gate_c2: up is bf16[2], expected f32[2] as gate");
}

TEST(SiluGate, OnlyTheGateIsActivated) {
  const auto y = run_f64(node_of("silu_gate"), {{{3}, {0, 1, -1000}}, {{3}, {5, 2, 3}}}).value()[0];
  EXPECT_EQ(y.data[0], 0);
  EXPECT_NEAR(y.data[1], 2 * 0.7310585786300049, 1e-15);
  EXPECT_EQ(y.data[2], 0);  // exp(1000) overflows, and its reciprocal is 0
}

}  // namespace
}  // namespace tandem
