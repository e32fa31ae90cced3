// The stages of a model compute, one after the other, what the whole computes: bit for bit in float64, every
// entry, every architecture.

#include "contract/stages.h"

#include "arch/blocks/testing.h"
#include "contract/cached.h"
#include "contract/check.h"
#include "contract/text.h"

namespace tandem {
namespace {

using testing::contract_of, testing::deepseek_v3, testing::evaluated, testing::llama, testing::Numbers;

Json of_four_layers(Json config) {
  config["num_hidden_layers"] = 4;
  return config;
}

Contract whole_of(const Json& config) {
  return with_cached_entries(contract_of(of_four_layers(config))).value();
}

/// Inputs of an entry for two rows: of three tokens, or one with five in the cache.
Values<double> inputs_of(const Block& entry) {
  Values<double> inputs;
  for (const Parameter& input : entry.inputs) {
    Numbers value;
    for (const Dim& dim : input.type.shape) {
      const std::map<std::string, uint64_t> sizes{{"batch", 2}, {"tokens", 3}, {"past", 5}, {"keys", 6}};
      value.shape.push_back(dim.fixed() ? dim.size : sizes.at(dim.symbol));
    }
    const bool integers = input.type.dtype == DType::i32;
    for (uint64_t i = 0, count = element_count(value.shape).value(); i < count; ++i) {
      if (input.name == "attention_mask")
        value.data.push_back(1);
      else
        value.data.push_back(integers ? static_cast<double>(i % 5) : static_cast<double>(i % 7) / 7 - 0.4);
    }
    inputs[input.name] = value;
  }
  return inputs;
}

void expect_stages_equal_the_whole(const Contract& whole, const std::vector<LayerSpan>& spans) {
  std::vector<Contract> parts;
  for (const LayerSpan& span : spans) parts.push_back(stage_of(whole, span).value());
  for (const Block& entry : whole.entries) {
    const bool of_one_layer = entry.name.starts_with("layer_");
    const Values<double> inputs = inputs_of(entry), expected = evaluated(whole, entry.name, inputs);
    Values<double> given = inputs, found;
    size_t stages = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      const Contract& stage = parts[i];
      const LayerSpan& span = spans[i];
      if (!find_entry(stage, entry.name)) continue;
      ++stages;
      // A stage is given what it asks for, and no more.
      Values<double> asked;
      for (const Parameter& input : find_entry(stage, entry.name)->inputs)
        asked[input.name] = given.at(input.name);
      EXPECT_EQ(asked.contains("input_ids"), !of_one_layer && span.begin == 0);
      Values<double> made = evaluated(stage, entry.name, asked);
      if (!of_one_layer && span.end < spans.back().end) {
        auto hidden = made.extract(kHiddenStatesOut);
        ASSERT_TRUE(hidden) << entry.name;
        given[kHiddenStates] = hidden.mapped();
      }
      for (auto& [name, value] : made) EXPECT_TRUE(found.emplace(name, value).second) << name;
    }
    EXPECT_EQ(stages, of_one_layer ? 1 : spans.size()) << entry.name;
    ASSERT_EQ(found.size(), expected.size()) << entry.name;
    for (const auto& [name, value] : expected) {
      ASSERT_TRUE(found.contains(name)) << entry.name << " " << name;
      EXPECT_EQ(found.at(name).data, value.data) << entry.name << " " << name;
    }
  }
}

TEST(Stages, OneAfterTheOtherTheyComputeWhatTheWholeComputes) {
  for (const Json& config : {llama(), deepseek_v3(), deepseek_v3(false)}) {
    const Contract whole = whole_of(config);
    expect_stages_equal_the_whole(whole, {{0, 1}, {1, 3}, {3, 4}});
    expect_stages_equal_the_whole(whole, {{0, 4}});
  }
}

TEST(Stages, EveryWeightIsInOneStageAndATiedTableInTheFirstAndTheLast) {
  for (const Json& config : {llama(), deepseek_v3()}) {
    const Contract whole = whole_of(config);
    std::map<std::string, int> times;
    for (const LayerSpan& span : {LayerSpan{0, 1}, LayerSpan{1, 3}, LayerSpan{3, 4}})
      for (const WeightEntry& weight : stage_of(whole, span).value().weights) ++times[weight.name];
    for (const WeightEntry& weight : whole.weights) {
      const bool twice =
          weight.name == "model.embed_tokens.weight" && config.value("tie_word_embeddings", false);
      EXPECT_EQ(times[weight.name], twice ? 2 : 1) << weight.name;
    }
  }
}

TEST(Stages, AStageIsAContract) {
  for (const Json& config : {llama(), deepseek_v3()}) {
    const Contract stage = stage_of(whole_of(config), {1, 3}).value();
    EXPECT_TRUE(check(stage).ok());
    EXPECT_TRUE(parse_contract(print(stage)).value() == stage);
    EXPECT_EQ(find_entry(stage, "layer_0"), nullptr);
    EXPECT_NE(find_entry(stage, "layer_2"), nullptr);
    // deepseek_v3's first layer is dense: its block is not here.
    EXPECT_EQ(find_block(stage, "decoder_layer_dense"), nullptr);
  }
}

std::string spans(const Json& config, uint64_t stages) {
  const auto made = stage_spans(contract_of(of_four_layers(config)), stages);
  if (!made.ok()) return made.error().message();
  std::string text;
  for (const LayerSpan& span : made.value()) text += fmt::format("{}:{} ", span.begin, span.end);
  return text;
}

TEST(Stages, C1SpansHaveAboutTheSameBytes) {
  EXPECT_EQ(spans(llama(), 1), "0:4 ");
  EXPECT_EQ(spans(llama(), 2), "0:2 2:4 ");
  EXPECT_EQ(spans(llama(), 4), "0:1 1:2 2:3 3:4 ");
  Json wide = llama();  // the embedding, which is the head too, weighs more than all layers
  wide["vocab_size"] = 5000;
  EXPECT_EQ(spans(wide, 3), "0:1 1:3 3:4 ");
  EXPECT_EQ(spans(llama(), 5), "stages_c1: 5 stages of a model of 4 layers: expected 1 to 4");
  EXPECT_EQ(spans(llama(), 0), "stages_c1: 0 stages of a model of 4 layers: expected 1 to 4");
}

TEST(Stages, C2AnEntryThatIsNoStackIsRefused) {
  Contract whole = contract_of(of_four_layers(llama()));
  Block& logits = whole.entries[0];
  std::vector<Node*> calls;
  for (Node& node : logits.nodes)
    if (node.op == "call") calls.push_back(&node);
  calls[3]->inputs[0] = calls[1]->inputs[0];  // a layer that skips two
  EXPECT_EQ(stage_of(whole, {0, 2}).error().message(),
            "stages_c2: no stages: logits is not made of layers one after the other");
  EXPECT_EQ(stage_of(Contract{}, {0, 1}).error().message(),
            "stages_c2: no stages: no entry logits that calls layers");
}

TEST(Stages, TheHiddenStatesThatEnterALayerHaveAName) {
  const Contract whole = contract_of(of_four_layers(llama()));
  EXPECT_EQ(hidden_states_before(whole, 0), "");
  EXPECT_EQ(hidden_states_before(whole, 2), "x_2");
  EXPECT_EQ(hidden_states_before(whole, 4), "");
}

}  // namespace
}  // namespace tandem
