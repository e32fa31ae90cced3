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

Json with_prediction_layer() {
  Json config = deepseek_v3();
  config["num_nextn_predict_layers"] = 1;
  return config;
}

/// What an entry gives for the tokens [begin, begin + count) of rows as long as `values`.
std::vector<double> tokens_of(const Numbers& values, size_t begin, size_t count) {
  const size_t tokens = values.shape[1], width = values.shape[2];
  std::vector<double> part;
  for (size_t row = 0; row < values.shape[0]; ++row) {
    const auto from = values.data.begin() + static_cast<std::ptrdiff_t>((row * tokens + begin) * width);
    part.insert(part.end(), from, from + static_cast<std::ptrdiff_t>(count * width));
  }
  return part;
}

Values<double> with_caches(Values<double> inputs, const Values<double>& state) {
  for (const auto& [name, tensor] : state)
    if (is_cache(name)) inputs["past" + name.substr(name.find('_'))] = tensor;
  return inputs;
}

/// Rows with two columns more.
std::vector<std::vector<double>> extended(std::vector<std::vector<double>> rows,
                                          const std::vector<std::vector<double>>& two) {
  for (size_t row = 0; row < rows.size(); ++row)
    rows[row].insert(rows[row].end(), two[row].begin(), two[row].end());
  return rows;
}

// Row 0 keeps both tokens of the step, row 1 the first alone: its place is then as if it had never been.
TEST(Cached, TwoTokensAtOnceEqualTheWholeAlsoBehindOneThatWasTakenBack) {
  const Contract contract = with_cached_entries(contract_of(with_prediction_layer(), true)).value();
  const size_t tokens = 8;
  const auto part = [](const std::vector<std::vector<double>>& rows, size_t begin, size_t end) {
    std::vector<std::vector<double>> cut;
    for (const auto& row : rows) cut.emplace_back(row.begin() + begin, row.begin() + end);
    return cut;
  };
  const auto all = [](const std::vector<std::vector<double>>& rows) {
    return columns(rows, 0, rows[0].size());
  };
  const auto ids = part(kIds, 0, tokens), mask = part(kMask, 0, tokens);
  Values<double> state =
      evaluated(contract, "prefill_hidden", {{"input_ids", all(ids)}, {"attention_mask", all(mask)}});
  expect_equal(state.at("logits").data, full(contract, tokens), tokens);
  const auto one = extended(mask, {{1, 1}, {1, 1}}), kept = extended(mask, {{1, 1}, {1, 0}});
  state = evaluated(
      contract, "decode_two",
      with_caches({{"input_ids", all(part(kIds, tokens, tokens + 2))}, {"attention_mask", all(one)}}, state));
  expect_equal(tokens_of(state.at("logits"), 0, 1), full(contract, tokens + 1), tokens + 1);
  expect_equal(tokens_of(state.at("logits"), 1, 1), full(contract, tokens + 2), tokens + 2);
  EXPECT_EQ(state.at("hidden_states").shape, (Shape{2, 2, 8}));

  // Two more, of row 1 those after the one that it keeps.
  const std::vector<std::vector<double>> more{{kIds[0][tokens + 2], kIds[0][tokens + 3]},
                                              {kIds[1][tokens + 1], kIds[1][tokens + 2]}};
  const auto longer = extended(kept, {{1, 1}, {1, 1}});
  state = evaluated(contract, "decode_two",
                    with_caches({{"input_ids", all(more)}, {"attention_mask", all(longer)}}, state));
  const auto row = [](const std::vector<double>& values, size_t index) {
    const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
    return index == 0 ? std::vector(values.begin(), values.begin() + half)
                      : std::vector(values.begin() + half, values.end());
  };
  for (const size_t at : {0, 1}) {
    const auto found = tokens_of(state.at("logits"), at, 1);
    expect_equal(row(found, 0), row(full(contract, tokens + 3 + at), 0), tokens + 3 + at);
    expect_equal(row(found, 1), row(full(contract, tokens + 2 + at), 1), tokens + 2 + at);
  }
}

TEST(Cached, DraftsFromCachesEqualTheWhole) {
  const Contract contract = with_cached_entries(contract_of(with_prediction_layer(), true)).value();
  const size_t tokens = 7;
  Numbers hidden{{2, tokens + 2, 8}, {}}, positions = columns(kMask, 0, tokens + 2);
  for (size_t i = 0; i < element_count(hidden.shape).value(); ++i)
    hidden.data.push_back(std::sin(static_cast<double>(i)));
  for (size_t row = 0; row < 2; ++row)
    for (size_t t = 1; t < tokens + 2; ++t)
      positions.data[row * (tokens + 2) + t] += positions.data[row * (tokens + 2) + t - 1];
  const auto part = [&](const Numbers& values, size_t begin, size_t count) {
    Numbers cut{values.shape, {}};
    cut.shape[1] = count;
    const Numbers flat{{2, tokens + 2, values.shape.size() == 3 ? values.shape[2] : 1}, values.data};
    cut.data = tokens_of(flat, begin, count);
    return cut;
  };
  const auto inputs = [&](size_t begin, size_t count) {
    return Values<double>{{"hidden_states", part(hidden, begin, count)},
                          {"input_ids", columns(kIds, begin + 1, begin + 1 + count)},
                          {"attention_mask", columns(kMask, 0, begin + count)},
                          {"position_ids", part(positions, begin, count)}};
  };
  const Numbers whole = evaluated(contract, "draft", inputs(0, tokens + 2)).at("logits");
  const Values<double> state = evaluated(contract, "prefill_draft", inputs(0, tokens));
  expect_equal(state.at("logits").data, tokens_of(whole, tokens - 1, 1), tokens);
  const Values<double> next = evaluated(contract, "decode_draft", with_caches(inputs(tokens, 2), state));
  expect_equal(next.at("logits").data, tokens_of(whole, tokens, 2), tokens + 2);
}

TEST(Cached, TheDerivedContractIsAContract) {
  const Contract drafting = with_cached_entries(contract_of(with_prediction_layer(), true)).value();
  EXPECT_TRUE(parse_contract(print(drafting)).value() == drafting);
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
