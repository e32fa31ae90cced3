#include "engines/tf/stream_graph.h"

#include <gmock/gmock.h>

#include "arch/architecture.h"
#include "lower/tf/lower_tf.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr int kFloat = tensorflow::DT_FLOAT, kInt = tensorflow::DT_INT32;

/// A llama of two layers, lowered.
tensorflow::MetaGraphDef small_llama() {
  const Json config{{"model_type", "llama"},       {"vocab_size", 11},        {"hidden_size", 8},
                    {"num_hidden_layers", 2},      {"intermediate_size", 12}, {"num_attention_heads", 4},
                    {"num_key_value_heads", 2},    {"attention_bias", false}, {"max_position_embeddings", 64},
                    {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6}};
  const Model model = make_model(config).value();
  const Contract contract =
      model.contract(model.rules, DType::f32, [](const std::string&) { return DType::bf16; }).value();
  const SavedModelSpec spec = lower_to_tensorflow(contract, expand(model.rules)).value();
  return assemble(spec).value().meta_graphs(0);
}

const std::map<std::string, int> kInputs{
    {"input_ids", kInt}, {"attention_mask", kInt}, {"position_ids", kInt}};

std::vector<std::string> variables_of(const PartGraph& part) {
  std::vector<std::string> names;
  for (const auto& [handle, variable] : part.handles) names.push_back(variable);
  return names;
}

TEST(StreamSteps, AnEntryIsOneStepALayerAndNeedsItsVariablesOnly) {
  const tensorflow::MetaGraphDef model = small_llama();
  const auto steps = make_stream_steps(model, {"with_positions", Scope::entry, kInputs, {"logits"}});
  ASSERT_TRUE(steps.ok()) << steps.error().message();
  std::vector<std::string> outputs;
  for (const StreamStep& step : steps.value())
    outputs.insert(outputs.end(), step.outputs.begin(), step.outputs.end());
  EXPECT_THAT(outputs, UnorderedElementsAre("cos", "sin", "x_0", "x_1", "x_2", "final", "logits"));
  for (const StreamStep& step : steps.value()) {
    const bool is_layer = step.outputs == std::vector<std::string>{"x_2"};
    if (!is_layer) continue;
    EXPECT_THAT(variables_of(step.part),
                AllOf(SizeIs(9), Each(StartsWith("model/layers/1/"))));  // 7 kernels, 2 norms
    EXPECT_THAT(step.part.feeds, UnorderedElementsAre("x_1", "attention_mask", "cos", "sin"));
    EXPECT_THAT(step.finished,
                UnorderedElementsAre("x_1", "cos", "sin"));  // the mask gives the head its shape
  }
  EXPECT_THAT(variables_of(steps.value().back().part), ElementsAre("model/embed_tokens/weight"));
}

TEST(StreamSteps, TapsInsideALayerComeFromTheLayersOwnCall) {
  const tensorflow::MetaGraphDef model = small_llama();
  const auto steps = make_stream_steps(
      model, {"taps", Scope::entry, kInputs, {"model.layers.0.self_attn.q_proj", "model.layers.0"}});
  ASSERT_TRUE(steps.ok()) << steps.error().message();
  EXPECT_THAT(steps.value().back().outputs,
              UnorderedElementsAre("model.layers.0.self_attn.q_proj", "model.layers.0"));
  for (const StreamStep& step : steps.value())
    EXPECT_THAT(variables_of(step.part), Not(Contains(StartsWith("model/layers/1/"))));
}

TEST(StreamSteps, GivenValuesAreNotComputed) {
  const tensorflow::MetaGraphDef model = small_llama();
  std::map<std::string, int> given = kInputs;
  given["final"] = kFloat;
  const auto steps = make_stream_steps(model, {"with_positions", Scope::entry, given, {"logits"}});
  ASSERT_TRUE(steps.ok()) << steps.error().message();
  ASSERT_THAT(steps.value(), SizeIs(1));
  EXPECT_THAT(steps.value()[0].part.feeds, UnorderedElementsAre("final", "attention_mask"));
  EXPECT_EQ(make_stream_steps(model, {"with_positions", Scope::entry, kInputs, {"loss"}}).error().text,
            "no value 'loss' behind 'with_positions'");
}

TEST(CheckpointKeys, AreWhatTheRestoreNodesSay) {
  tensorflow::MetaGraphDef model = small_llama();
  const auto keys = checkpoint_keys(model, "model.tf");
  ASSERT_TRUE(keys.ok()) << keys.error().message();
  EXPECT_EQ(keys.value().prefix, "model.tf/variables/variables");
  EXPECT_EQ(keys.value().keys.at("model/norm/weight"), "model/norm/weight/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(keys.value().dtypes.at("model/norm/weight"), tensorflow::DT_BFLOAT16);

  for (tensorflow::NodeDef& node : *model.mutable_graph_def()->mutable_node())
    if (node.op() == "RestoreV2") node.set_op("NoOp");
  const auto lost = checkpoint_keys(model, "model.tf");
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(lost.error().message(), AllOf(HasSubstr("does not say where"), HasSubstr("can be streamed")));
}

TEST(AddRestoring, AssignsBeforeTheCallAndDropsAfterIt) {
  const tensorflow::MetaGraphDef model = small_llama();
  auto steps = make_stream_steps(model, {"with_positions", Scope::entry, {{"x_2", kFloat}}, {"final"}});
  ASSERT_TRUE(steps.ok()) << steps.error().message();
  ASSERT_THAT(steps.value(), SizeIs(1));
  PartGraph& part = steps.value()[0].part;
  EXPECT_THAT(add_restoring(part, checkpoint_keys(model, "m").value()), ElementsAre("restore/drop_0"));
  std::map<std::string, tensorflow::NodeDef> nodes;
  for (const tensorflow::NodeDef& node : part.graph.node()) nodes[node.name()] = node;
  EXPECT_THAT(nodes.at("part").input(), Contains("^restore/assign_0"));
  EXPECT_THAT(nodes.at("restore/assign_0").input(), ElementsAre("handle/0", "restore/values:0"));
  EXPECT_THAT(nodes.at("restore/drop_0").input(), ElementsAre("handle/0", "^part"));
  EXPECT_THAT(nodes.at("restore/names").attr().at("value").tensor().string_val(),
              ElementsAre("model/norm/weight/.ATTRIBUTES/VARIABLE_VALUE"));

  auto table =
      make_stream_steps(model, {"with_positions", Scope::entry, {{"position_ids", kInt}}, {"cos"}}).value();
  EXPECT_THAT(add_restoring(table[0].part, checkpoint_keys(model, "m").value()), IsEmpty());
}

}  // namespace
}  // namespace tandem
