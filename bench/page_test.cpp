#include "bench/page.h"

#include <gmock/gmock.h>

#include "bench/infer.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

InferReport report_with(const std::string& model) {
  InferReport report;
  report.model = model;
  report.threads = 2;
  report.limits = {"<cpu>", "AVX2", 2, 20e9, 15e9, 100e9, 90e9, 0, 0};
  report.cost = {1000, 500, 400, 600, 0.25};
  report.contenders["slow"] = {{"engine", "e"}};
  report.not_started["gone"] = "not <installed>";
  InferResult slow{"slow", {0.2, 0.2}, {}, {}, 0, 3.0, 5, false},
      fast{"fast", {0.1, 0.1}, {}, {}, 1e-5, 3.0, 5, false};
  InferResult wrong{"wrong", {}, {}, "its logits are <far>", 0, 0, 0, false};
  InferResult late{"late", {3.0, 3.0}, {2.5, 2.5}, {}, 0, 3.0, 0, false};
  report.results = {{Scenario{Measure::decode, 2, 8, 4}, {20e9, 20e9}, {slow, fast, wrong}},
                    {Scenario{Measure::load, 1, 16, 0}, {20e9, 20e9}, {late}}};
  return report;
}

TEST(BenchPage, HoldsSpeedsRatiosAndWhatWasNotTimed) {
  const std::string page = bench_page(to_json(report_with("./model")));
  EXPECT_THAT(page, HasSubstr("decode 8-12, batch 2"));
  EXPECT_THAT(page, HasSubstr("<td class=\"number\">80 [80, 80]</td>"));  // 2 rows x 4 steps in 0.1 s
  EXPECT_THAT(page, HasSubstr("<td class=\"number\">2 [2, 2]</td>"));
  EXPECT_THAT(page, HasSubstr("not timed: its logits are &lt;far&gt;"));
  EXPECT_THAT(page, HasSubstr("not timed: not &lt;installed&gt;"));
  EXPECT_THAT(page, HasSubstr("load to first token, prompt 16"));
  EXPECT_THAT(page, HasSubstr("<td class=\"number\">3 s [3, 3]</td>"));
  EXPECT_THAT(page, HasSubstr("roofline"));
}

TEST(BenchPage, NamesStayText) {
  const std::string page = bench_page(to_json(report_with("</script><script>alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
}

TEST(ModelCost, ExpertsCountAsOftenAsTheyAreChosen) {
  const ModelCost cost{1000, 550, 400, 600, 0.25};
  EXPECT_EQ(cost.bytes_a_step(1), 4 * (400 + 0.25 * 600));
  EXPECT_EQ(cost.bytes_a_step(8), 4 * (400 + 600.0));  // at most all of them
}

TEST(ModelCost, ATiedEmbeddingIsReadAndAnUntiedOneLookedUp) {
  MemorySource tensors;
  tensors.add({"model.embed_tokens.weight", DType::bf16, {10, 4}}, std::vector<std::byte>(80));
  tensors.add({"model.layers.0.mlp.experts.0.up_proj.weight", DType::bf16, {2, 4}},
              std::vector<std::byte>(16));
  const Json config{{"num_experts_per_tok", 2u}, {"n_routed_experts", 8u}};
  const ModelCost tied = cost_of(tensors, config);
  EXPECT_EQ(tied.weights, 48u);
  EXPECT_EQ(tied.head_and_rest, 40u);
  EXPECT_EQ(tied.experts, 8u);
  EXPECT_EQ(tied.weights_a_token, 42);
  tensors.add({"lm_head.weight", DType::bf16, {10, 4}}, std::vector<std::byte>(80));
  EXPECT_EQ(cost_of(tensors, config).head_and_rest, 40u);  // the head's alone
}

}  // namespace
}  // namespace tandem
