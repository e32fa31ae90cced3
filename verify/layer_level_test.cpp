#include "verify/layer_level.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "contract/text.h"
#include "verify/module_level.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kText = R"(contract 1
compute f32
weight lm_head.weight: f32[4, 6]
weight model.embed_tokens.weight: f32[6, 4]
weight model.layers.0.input_layernorm.weight: f32[4]
weight model.norm.weight: f32[4]
block decoder_layer(hidden_states: f32[batch, tokens, 4], attention_mask: i32[batch, tokens], cos: f32[batch, tokens, 2], sin: f32[batch, tokens, 2]) weights (input_layernorm.weight: f32[4]) {
  h = rms_norm(hidden_states, @input_layernorm.weight, epsilon=1e-05)  # tap input_layernorm
  out = add(hidden_states, h)
  return out
}
entry logits(input_ids: i32[batch, tokens], attention_mask: i32[batch, tokens], position_ids: i32[batch, tokens]) {
  cos, sin = rotary_table(position_ids, dim=2, dtype="f32", theta=10000.0, type="default")  # tap model.rotary_emb
  x_0 = embedding(input_ids, @model.embed_tokens.weight)  # tap model.embed_tokens
  x_1 = call(x_0, attention_mask, cos, sin, at="model.layers.0", block="decoder_layer")  # tap model.layers.0
  final = rms_norm(x_1, @model.norm.weight, epsilon=1e-05)  # tap model.norm
  logits = linear(final, @lm_head.weight, layout="in_out")  # tap lm_head
  return logits
}
entry layer_0(hidden_states: f32[batch, tokens, 4], attention_mask: i32[batch, tokens], position_ids: i32[batch, tokens]) {
  cos, sin = rotary_table(position_ids, dim=2, dtype="f32", theta=10000.0, type="default")  # tap model.rotary_emb
  hidden_states_out = call(hidden_states, attention_mask, cos, sin, at="model.layers.0", block="decoder_layer")  # tap model.layers.0
  return hidden_states_out
}
)";

/// Answers every question from two lists: taps of a whole run, and values by their names. Every number of a
/// tensor is the same.
class ListEngine : public Engine {
 public:
  std::map<std::string, double> taps, values_of;
  DType dtype = DType::f32;
  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string& entry, const HostTensors&,
                          const std::vector<std::string>& outputs) override {
    return answer(entry == "taps" ? taps : values_of, outputs);
  }
  Result<HostTensors> values(const std::string&, Scope, const HostTensors&,
                             const std::vector<std::string>& outputs) override {
    if (values_of.empty()) return unsupported("x", "cannot look inside");
    return answer(values_of, outputs);
  }

 private:
  Result<HostTensors> answer(const std::map<std::string, double>& list,
                             const std::vector<std::string>& outputs) {
    HostTensors tensors;
    for (const auto& [name, value] : list)
      if (outputs.empty() || std::find(outputs.begin(), outputs.end(), name) != outputs.end())
        tensors[name] = filled(value);
    for (const std::string& output : outputs)
      if (!tensors.contains(output) && &list == &values_of) return invalid("x", "no value '{}'", output);
    return tensors;
  }
  HostTensor filled(double value) const {
    HostTensor tensor{dtype, {1, 3, 4}, std::vector<std::byte>(12 * size_of(dtype))};
    for (size_t i = 0; i < 12; ++i) {
      const auto narrow = static_cast<float>(value);
      if (dtype == DType::f64)
        std::memcpy(tensor.data.data() + i * 8, &value, 8);
      else
        std::memcpy(tensor.data.data() + i * 4, &narrow, 4);
    }
    return tensor;
  }
  EngineInfo info_;
};

const std::map<std::string, double> kTaps{
    {"model.rotary_emb", 1}, {"model.embed_tokens", 2}, {"model.layers.0.input_layernorm", 3},
    {"model.layers.0", 5},   {"model.norm", 7},         {"lm_head", 11}};
const std::map<std::string, double> kValues{
    {"cos", 1}, {"x_0", 2},   {"h", 3},       {"out", 5},
    {"x_1", 5}, {"final", 7}, {"logits", 11}, {"hidden_states_out", 5}};

class Layers : public ::testing::Test {
 protected:
  void SetUp() override {
    contract = parse_contract(kText).value();
    stack = layer_stack_of(contract).value();
    reference.taps = kTaps;
    other.values_of = exact.values_of = kValues;
    exact.dtype = DType::f64;
    sides.reference = &reference;
    sides.other = &other;
    sides.exact = &exact;
    sides.contract = &contract;
    sides.stack = &stack;
  }
  LayerLevel layers() { return compare_layers(sides, probes).value(); }
  ModuleLevel modules() { return compare_modules(sides, probes).value(); }
  static std::vector<std::string> failures(const LayerLevel& level) {
    std::vector<std::string> lines;
    for (const LayerResult& layer : level.layers)
      for (const TapResult& tap : layer.taps)
        for (const std::string& line : tap.failures) lines.push_back(tap.tap + " | " + line);
    return lines;
  }

  Contract contract;
  LayerStack stack;
  ListEngine reference, other, exact;
  Sides sides;
  std::vector<Probe> probes{make_probe("p", {{1, 2, 3}}, Padding::right)};
};

TEST_F(Layers, EqualSidesPass) {
  const LayerLevel level = layers();
  EXPECT_TRUE(level.passed()) << ::testing::PrintToString(failures(level));
  EXPECT_EQ(level.layers.size(), 5u);
  EXPECT_EQ(level.values(), 6u * 12);
  EXPECT_FALSE(level.own_inputs);
  EXPECT_TRUE(modules().passed());
}

TEST_F(Layers, NothingComparedFails) {
  probes.clear();
  EXPECT_FALSE(layers().passed());
  EXPECT_FALSE(modules().passed());
}

TEST_F(Layers, NanOnBothSidesFails) {
  reference.taps["model.layers.0"] = other.values_of["hidden_states_out"] = std::nan("");
  EXPECT_THAT(failures(layers()),
              Contains(HasSubstr("model.layers.0 | p: 12 of 12 values are NaN or infinite")));
  other.values_of["x_1"] = std::nan("");
  EXPECT_FALSE(modules().passed());
}

TEST_F(Layers, ATapThatTheReferenceLacksFails) {
  reference.taps.erase("model.layers.0.input_layernorm");
  EXPECT_THAT(failures(layers()), Contains(HasSubstr("input_layernorm is missing on the left side")));
}

TEST_F(Layers, AValueThatTheOtherSideLacksFails) {
  other.values_of.erase("h");
  EXPECT_THAT(failures(layers()), Contains(HasSubstr("no value 'h'")));
}

TEST_F(Layers, ATapThatASideWithoutValuesLacksFails) {
  other.values_of.clear();
  other.taps = kTaps;
  EXPECT_TRUE(layers().own_inputs);
  EXPECT_TRUE(layers().passed());
  other.taps.erase("model.layers.0.input_layernorm");
  EXPECT_THAT(failures(layers()), Contains(HasSubstr("input_layernorm is missing on the right side")));
}

TEST_F(Layers, ATapThatASideDoesNotListIsLeftOutAndOneThatItListsMustBeThere) {
  other.values_of.clear();
  other.taps = kTaps;
  other.taps.erase("model.rotary_emb");
  EXPECT_FALSE(layers().passed());
  sides.other_shows.taps = {"model.embed_tokens", "model.layers.*.input_layernorm", "model.layers.*",
                            "model.norm", "lm_head"};
  const LayerLevel level = layers();
  EXPECT_TRUE(level.passed()) << ::testing::PrintToString(failures(level));
  EXPECT_TRUE(level.layers[0].taps[0].hidden);
  EXPECT_EQ(level.values(), 5u * 12);
  EXPECT_TRUE(modules().passed());
  other.taps.erase("model.layers.0.input_layernorm");
  EXPECT_THAT(failures(layers()), Contains(HasSubstr("input_layernorm is missing on the right side")));
  other.taps.erase("model.layers.0");
  EXPECT_FALSE(modules().passed());
}

TEST_F(Layers, ASideThatShowsNothingFails) {
  other.values_of.clear();
  sides.other_shows.taps = {"none"};
  EXPECT_FALSE(layers().passed());
  EXPECT_EQ(layers().values(), 0u);
  EXPECT_FALSE(modules().passed());
}

TEST_F(Layers, AReferenceThatDisagreesWithFloat64Fails) {
  exact.values_of["h"] = 3.01;
  const LayerLevel level = layers();
  EXPECT_FALSE(level.passed());
  EXPECT_THAT(failures(level), Contains(HasSubstr("input_layernorm | p: contract and reference disagree")));
}

TEST_F(Layers, WithoutFloat64TheFixedBarDecides) {
  sides.exact = nullptr;
  EXPECT_TRUE(layers().passed());
  other.values_of["h"] = 3.0001;
  EXPECT_THAT(failures(layers()), Contains(HasSubstr("max error 9.99e-05, at most 1e-05")));
}

TEST(Growth, AJumpIsToldFromSteadyGrowthAndFromGrowthWithPosition) {
  const std::vector<DepthError> steady{{"a", 1e-7, 1e-7}, {"b", 2e-7, 9e-7}};
  EXPECT_EQ(growth_of(steady, {}, std::nullopt), Growth::steady);
  EXPECT_EQ(growth_of(steady, {}, 1), Growth::steady);
  const std::vector<DepthError> jump{{"a", 1e-7, 1e-7}, {"b", 2e-7, 1e-3}};
  EXPECT_EQ(growth_of(jump, {}, 1), Growth::jump);
  const std::vector<PositionError> growing{{0, 1e-7}, {1, 1e-7}, {2, 1e-6}, {3, 1e-2}};
  EXPECT_EQ(growth_of(jump, growing, 1), Growth::with_position);
}

}  // namespace
}  // namespace tandem
