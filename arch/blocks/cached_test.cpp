// The derived entries prefill and decode compute what logits computes: in float64, for every architecture.

#include "contract/cached.h"

#include <gmock/gmock.h>

#include <cmath>

#include "arch/blocks/testing.h"
#include "contract/check.h"
#include "contract/text.h"

namespace tandem {
namespace {

using testing::columns, testing::contract_of, testing::deepseek_v3, testing::evaluated, testing::llama,
    testing::Numbers;

const std::vector<std::vector<double>> kIds{{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8},
                                            {0, 0, 0, 2, 7, 1, 8, 2, 8, 1, 8, 2}};
const std::vector<std::vector<double>> kMask{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                             {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}};

/// The logits of the last token of each row after `tokens` tokens, with nothing kept.
std::vector<double> full(const Contract& contract, size_t tokens) {
  Values<double> inputs{{"input_ids", columns(kIds, 0, tokens)},
                        {"attention_mask", columns(kMask, 0, tokens)}};
  Numbers positions = inputs["attention_mask"];
  for (size_t row = 0; row < positions.shape[0]; ++row)
    for (size_t t = 0, seen = 0; t < tokens; ++t) {
      double& at = positions.data[row * tokens + t];
      seen += at != 0;
      at = seen == 0 ? 0 : static_cast<double>(seen - 1);
    }
  inputs["position_ids"] = positions;
  const Numbers logits = evaluated(contract, "logits", inputs).at("logits");
  const size_t vocab = logits.shape[2];
  std::vector<double> last;
  for (size_t row = 0; row < logits.shape[0]; ++row) {
    const auto end = logits.data.begin() + static_cast<std::ptrdiff_t>((row + 1) * tokens * vocab);
    last.insert(last.end(), end - static_cast<std::ptrdiff_t>(vocab), end);
  }
  return last;
}

void expect_equal(const std::vector<double>& found, const std::vector<double>& expected, size_t tokens) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-11) << tokens << " tokens";
}

/// Prefill of five tokens, then one by one.
void expect_steps_equal_the_whole(const Json& config, const CachedOptions& options) {
  const Contract contract = with_cached_entries(contract_of(config), options).value();
  size_t tokens = 5;
  Values<double> state =
      evaluated(contract, "prefill",
                {{"input_ids", columns(kIds, 0, tokens)}, {"attention_mask", columns(kMask, 0, tokens)}});
  for (;; ++tokens) {
    expect_equal(state.at("logits").data, full(contract, tokens), tokens);
    if (tokens == kIds[0].size()) break;
    Values<double> inputs{{"input_ids", columns(kIds, tokens, tokens + 1)},
                          {"attention_mask", columns(kMask, 0, tokens + 1)}};
    for (auto& [name, tensor] : state)
      if (is_cache(name)) inputs["past" + name.substr(name.find('_'))] = tensor;
    EXPECT_EQ(inputs.size(), find_entry(contract, "decode")->inputs.size());
    state = evaluated(contract, "decode", inputs);
  }
}

/// Row `row` of a tensor [batch, heads, tokens, size] into slot `slot` of its cache.
void put(Numbers& cache, const Numbers& rows, size_t slot) {
  const size_t size = cache.shape[3], slots = cache.shape[2];
  for (size_t outer = 0; outer < cache.shape[0] * cache.shape[1]; ++outer)
    for (size_t i = 0; i < size; ++i)
      cache.data[(outer * slots + slot) * size + i] = rows.data[outer * size + i];
}

/// As above, in buffers of 16 slots that hold garbage where nothing has been written.
void expect_steps_in_place_equal_the_whole(const Json& config) {
  constexpr size_t kSlots = 16;
  const Contract contract = with_cached_entries(contract_of(config)).value();
  size_t tokens = 5;
  const Values<double> state =
      evaluated(contract, "prefill",
                {{"input_ids", columns(kIds, 0, tokens)}, {"attention_mask", columns(kMask, 0, tokens)}});
  Values<double> inputs{{"attention_mask", {{2, kSlots}, std::vector<double>(2 * kSlots, 0)}}};
  for (const auto& [name, tensor] : state) {
    if (!is_cache(name)) continue;
    Numbers& cache = inputs["past" + name.substr(name.find('_'))];
    cache = {{2, tensor.shape[1], kSlots, tensor.shape[3]}, {}};
    cache.data.assign(2 * tensor.shape[1] * kSlots * tensor.shape[3], 77);
    for (size_t slot = 0; slot < tokens; ++slot) {
      Numbers row{{}, {}};
      for (size_t outer = 0; outer < 2 * tensor.shape[1]; ++outer)
        for (size_t i = 0; i < tensor.shape[3]; ++i)
          row.data.push_back(tensor.data[(outer * tokens + slot) * tensor.shape[3] + i]);
      put(cache, row, slot);
    }
  }
  Numbers& mask = inputs["attention_mask"];
  for (size_t row = 0; row < 2; ++row)
    for (size_t t = 0; t < tokens; ++t) mask.data[row * kSlots + t] = kMask[row][t];
  for (; tokens < kIds[0].size(); ++tokens) {
    inputs["input_ids"] = columns(kIds, tokens, tokens + 1);
    Numbers positions{{2, 1}, {0, 0}};
    for (size_t row = 0; row < 2; ++row)
      for (size_t t = 0; t < tokens; ++t) positions.data[row] += kMask[row][t];
    inputs["position_ids"] = positions;
    const Values<double> made = evaluated(contract, "step", inputs);
    expect_equal(made.at("logits").data, full(contract, tokens + 1), tokens + 1);
    for (const auto& [name, rows] : made)
      if (name.starts_with("new_")) put(inputs.at("past" + name.substr(name.find('_'))), rows, tokens);
    for (size_t row = 0; row < 2; ++row) mask.data[row * kSlots + tokens] = 1;
  }
}

TEST(Cached, R15StepsInPlaceInSixteenSlotsEqualTheWhole) {
  expect_steps_in_place_equal_the_whole(llama());
  expect_steps_in_place_equal_the_whole(deepseek_v3());
}

TEST(Cached, R15LlamaStepByStepEqualsTheWholePaddedRowsToo) { expect_steps_equal_the_whole(llama(), {}); }

TEST(Cached, R15DeepseekStepByStepEqualsTheWholeAbsorbedAndPlainPastTheYarnBoundary) {
  for (const bool with_q_lora : {true, false})
    for (const bool absorb : {true, false}) expect_steps_equal_the_whole(deepseek_v3(with_q_lora), {absorb});
}

TEST(Cached, TheLatentCacheHoldsTheLatentAndOneRotatedKey) {
  const Contract contract = with_cached_entries(contract_of(deepseek_v3())).value();
  const Block& decode = *find_entry(contract, "decode");
  EXPECT_EQ(decode.inputs[2].name, "past_latent_0");
  EXPECT_EQ(to_string(decode.inputs[2].type), "f32[batch, 1, past, 9]");
  const Contract plain = with_cached_entries(contract_of(deepseek_v3()), {.absorb = false}).value();
  EXPECT_EQ(to_string(find_entry(plain, "decode")->inputs[2].type), "f32[batch, 2, past, 6]");
  EXPECT_EQ(to_string(find_entry(plain, "decode")->inputs[3].type), "f32[batch, 2, past, 3]");
}

TEST(Cached, AbsorbedDecodeMakesNoKeysAndValues) {
  const Contract contract = with_cached_entries(contract_of(deepseek_v3())).value();
  for (const Node& node : find_block(contract, "decode_decoder_layer_moe")->nodes) {
    EXPECT_NE(node.tap, "self_attn.kv_b_proj");
    EXPECT_NE(node.op, "repeat_heads");
  }
}

TEST(Cached, TheDerivedContractIsAContract) {
  for (const Json& config : {llama(), deepseek_v3()}) {
    const Contract contract = with_cached_entries(contract_of(config)).value();
    EXPECT_TRUE(check(contract).ok());
    EXPECT_TRUE(parse_contract(print(contract)).value() == contract);
  }
}

std::string refusal(const std::function<void(Block&)>& change) {
  Contract contract = contract_of(llama());
  change(contract.blocks[0]);
  const auto made = with_cached_entries(contract);
  return made.ok() ? "made" : made.error().message();
}

Node& attention_of(Block& block) { return *std::ranges::find(block.nodes, "attention", &Node::op); }

TEST(Cached, C1WhatCannotBeCutIntoStepsIsRefused) {
  EXPECT_EQ(refusal([](Block& b) { attention_of(b).attributes["causal"] = false; }),
            "cached_c1: no prefill and decode: a token of decoder_layer sees later ones");
  EXPECT_EQ(refusal([](Block& b) { attention_of(b).attributes["diagonal"] = int64_t{1}; }),
            "cached_c1: no prefill and decode: a token of decoder_layer sees later ones");
  EXPECT_EQ(refusal([](Block& b) { attention_of(b).attributes["diagonal"] = int64_t{-1}; }), "made");
  Contract strict = contract_of(llama());
  attention_of(strict.blocks[0]).attributes["diagonal"] = int64_t{-1};
  EXPECT_EQ(find_entry(with_cached_entries(strict).value(), "step"), nullptr);
  EXPECT_EQ(
      refusal([](Block& b) {
        Node& node = attention_of(b);
        node = {"roll", {node.inputs[0]}, {{"axis", int64_t{2}}, {"shift", int64_t{1}}}, node.outputs, ""};
      }),
      "cached_c1: no prefill and decode: roll of decoder_layer reads other tokens");
  EXPECT_EQ(with_cached_entries(Contract{}).error().message(),
            "cached_c1: no prefill and decode: there is no entry logits");
}

}  // namespace
}  // namespace tandem
