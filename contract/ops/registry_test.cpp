#include "contract/ops/registry.h"

#include <gmock/gmock.h>

#include <set>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

TEST(Registry, EveryOpIsFoundByItsOneName) {
  std::set<std::string_view> names;
  for (const OpRow& op : ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(find_op(op.name), &op);
    EXPECT_TRUE(op.infer && op.evaluate_f64 && op.evaluate_f32) << op.name;
    EXPECT_LE(op.min_inputs, op.max_inputs) << op.name;
  }
  EXPECT_EQ(find_op("call"), nullptr);  // the checker and the evaluator know it themselves
}

TEST(Registry, C1TheOpIsKnown) { EXPECT_EQ(infer(node_of("gelu"), {}), "op_c1: there is no op \"gelu\""); }

TEST(Registry, C2TheNumberOfOperands) {
  EXPECT_EQ(infer(node_of("add"), {f32({})}), "op_c2: add takes 2 operands, found 1");
  EXPECT_EQ(infer(node_of("linear"), {f32({})}), "op_c2: linear takes 2 operands or more, found 1");
}

TEST(Registry, C3Attributes) {
  const std::vector<TensorType> inputs{f32({8}), f32({8})};
  EXPECT_EQ(infer(node_of("rms_norm", {{"epsilon", int64_t{1}}}), inputs), "f32[8]");
  EXPECT_EQ(infer(node_of("rms_norm"), inputs), "op_c3: rms_norm needs the attribute epsilon");
  EXPECT_EQ(infer(node_of("rms_norm", {{"epsilon", std::string("1")}}), inputs),
            "op_c3: rms_norm: attribute epsilon must be a finite number");
  EXPECT_EQ(infer(node_of("rms_norm", {{"epsilon", HUGE_VAL}}), inputs),
            "op_c3: rms_norm: attribute epsilon must be a finite number");
  EXPECT_EQ(infer(node_of("rms_norm", {{"epsilon", 1.0}, {"eps", 1.0}}), inputs),
            "op_c3: rms_norm has no attribute eps");
}

TEST(Registry, C4TheNumberOfOutputs) {
  EXPECT_EQ(infer(node_of("add", {}, 2), {f32({8}), f32({8})}), "op_c4: add has 1 outputs, the node names 2");
}

}  // namespace
}  // namespace tandem
