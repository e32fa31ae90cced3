#include "convert/structure_map.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kExample = TANDEM_SOURCE_DIR "/examples/tiny-deepseek-v3";
const std::string kFp8Example = TANDEM_SOURCE_DIR "/examples/tiny-deepseek-v3-fp8";

StructureMap map_of(const std::string& path) {
  return structure_map(open_model(real_files(), path).value(), {}).value();
}

MappedTensor tensor(const StructureMap& map, const std::string& tf) {
  const auto found = std::find_if(map.tensors.begin(), map.tensors.end(),
                                  [&](const MappedTensor& each) { return each.tf == tf; });
  EXPECT_NE(found, map.tensors.end()) << tf;
  return *found;
}

TEST(StructureMap, SaysTheStepsInWords) {
  const StructureMap map = map_of(kFp8Example);
  const MappedTensor experts = tensor(map, "model/layers/2/mlp/experts/up_proj/kernel");
  EXPECT_EQ(experts.hf.size(), 24u);
  EXPECT_THAT(experts.steps,
              ElementsAre("dequantised where fp8, in blocks of 128 x 128", "transposed", "stacked 24"));
  EXPECT_EQ(experts.hf_dtype, DType::f8_e4m3);
  EXPECT_EQ(experts.tf_dtype, DType::bf16);
  EXPECT_EQ(experts.hf_shape, (Shape{36, 160}));
  EXPECT_EQ(experts.tf_shape, (Shape{24, 160, 36}));
}

TEST(StructureMap, D08TheRouterBiasStaysFloat32) {
  const MappedTensor bias = tensor(map_of(kExample), "model/layers/2/mlp/gate/e_score_correction_bias");
  EXPECT_EQ(bias.tf_dtype, DType::f32);
  EXPECT_FALSE(bias.trainable);
}

TEST(StructureMap, TextAndBackHasTheSameRulesAndNoDifferences) {
  const StructureMap map = map_of(kExample);
  const auto back = map_from_text(to_text(map));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back.value().rules, map.rules);
  EXPECT_THAT(differences_from(back.value(), open_model(real_files(), kExample).value()), IsEmpty());
}

TEST(StructureMap, EveryDifferenceToACheckpointIsListed) {
  StructureMap stored = map_of(kExample);
  for (MappedTensor& each : stored.tensors)
    if (each.tf == "model/norm/weight") each.hf_dtype = DType::f32;
  std::erase_if(stored.rules.rows, [](const RuleRow& row) { return row.hf == "lm_head.weight"; });
  EXPECT_THAT(differences_from(stored, open_model(real_files(), kExample).value()),
              ElementsAre("unexpected: lm_head.weight",
                          "wrong: model.norm.weight: dtype bfloat16, the map has float32"));
}

TEST(StructureMap, BrokenTextIsAnError) {
  EXPECT_EQ(map_from_text("{}").error().rule, "map_c2");
  std::string text = to_text(map_of(kExample));
  text.replace(text.find("\"hf_dtype\""), 10, "\"hf_dtypo\"");
  EXPECT_THAT(map_from_text(text).error().text, HasSubstr("tensors[0] is not as"));
}

}  // namespace
}  // namespace tandem
