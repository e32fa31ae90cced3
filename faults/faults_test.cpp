// Every row on tiny models: a hypothesis keeps the names of values and taps, gives a valid contract, and
// changes what the model computes.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "arch/architecture.h"
#include "base/hash.h"
#include "contract/evaluate.h"
#include "faults/plant.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Models.

Json llama(const Json& changes = Json::object()) {
  Json config{{"model_type", "llama"},    {"vocab_size", 11},        {"hidden_size", 8},
              {"num_hidden_layers", 2},   {"intermediate_size", 12}, {"num_attention_heads", 4},
              {"num_key_value_heads", 2}, {"head_dim", 6},           {"max_position_embeddings", 64},
              {"rms_norm_eps", 1e-2}};
  config.update(changes);
  return config;
}

/// Frequencies of three kinds: kept, smoothed, divided.
Json llama3() {
  const Json scaling{{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 32}};
  return llama({{"head_dim", 8}, {"rope_scaling", scaling}});
}

/// Square kernels, heads that all have their own keys, biases, a tied head, and yarn.
Json square_llama() {
  const Json yarn{{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  return llama({{"num_key_value_heads", 4},
                {"head_dim", 2},
                {"attention_bias", true},
                {"mlp_bias", true},
                {"tie_word_embeddings", true},
                {"hidden_act", "gelu"},
                {"rope_scaling", yarn}});
}

Json deepseek(const Json& changes = Json::object()) {
  const Json yarn{{"type", "yarn"},
                  {"factor", 4.0},
                  {"original_max_position_embeddings", 16},
                  {"mscale", 0.9},
                  {"mscale_all_dim", 0.7}};
  Json config{{"model_type", "deepseek_v3"},
              {"vocab_size", 11},
              {"hidden_size", 8},
              {"num_hidden_layers", 3},
              {"intermediate_size", 12},
              {"moe_intermediate_size", 6},
              {"num_attention_heads", 2},
              {"q_lora_rank", 5},
              {"kv_lora_rank", 7},
              {"qk_nope_head_dim", 3},
              {"qk_rope_head_dim", 4},
              {"v_head_dim", 3},
              {"first_k_dense_replace", 1},
              {"n_routed_experts", 12},
              {"n_shared_experts", 2},
              {"num_experts_per_tok", 2},
              {"n_group", 4},
              {"topk_group", 2},
              {"routed_scaling_factor", 2.5},
              {"rms_norm_eps", 1e-3},
              {"rope_scaling", yarn},
              {"max_position_embeddings", 64}};
  config.update(changes);
  return config;
}

Json deepseek_fp8() {
  return deepseek(
      {{"qk_rope_head_dim", 6},
       {"hidden_size", 6},
       {"norm_topk_prob", false},
       {"routed_scaling_factor", 1.0},
       {"num_experts_per_tok", 5},
       {"topk_group", 4},
       {"rope_scaling", nullptr},
       {"quantization_config", {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {4u, 2u}}}}});
}

const BlockDequantize* blocks_of(const RuleRow& row) {
  for (const Step& step : row.steps)
    if (const auto* blocks = std::get_if<BlockDequantize>(&step)) return blocks;
  return nullptr;
}

Model model_or_die(const Json& config) {
  auto model = make_model(config);
  if (!model.ok()) throw std::runtime_error(model.error().message());
  return std::move(model).value();
}

struct Tiny {
  explicit Tiny(const Json& config) : model(model_or_die(config)) {
    contract = model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; }).value();
    context.rules = &model.rules;
    for (const TensorPlan& plan : expand(model.rules))
      if (const BlockDequantize* blocks = blocks_of(*plan.row))
        for (const std::string& hf : plan.hf) {
          const uint64_t rows = blocks->block_rows, columns = blocks->block_columns;
          scales[hf + blocks->scale_suffix] = {(plan.hf_shape[0] + rows - 1) / rows,
                                               (plan.hf_shape[1] + columns - 1) / columns};
          context.scales.insert(hf + blocks->scale_suffix);
        }
  }
  Tiny(const Tiny&) = delete;

  Model model;
  Contract contract;
  FaultContext context;
  std::map<std::string, Shape> scales;
};

/// Numbers in [-0.5, 0.5) that are fixed by a name and take six bits; norms about 1; scales are 1/4.
float value_at(const std::string& name, size_t index) {
  if (name.ends_with("_scale_inv")) return 0.25f;
  uint64_t state = name_hash(name) + index * 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  const float number = static_cast<float>(static_cast<int>(state >> 58) - 32) / 64;
  return name.ends_with("norm.weight") ? 1 + number / 2 : number;
}

HostTensor tensor(const std::string& name, const Shape& shape) {
  HostTensor made{DType::f32, shape, std::vector<std::byte>(byte_count(DType::f32, shape).value())};
  for (size_t i = 0; i * sizeof(float) < made.data.size(); ++i) {
    const float value = value_at(name, i);
    std::memcpy(made.data.data() + i * sizeof value, &value, sizeof value);
  }
  return made;
}

std::vector<double> numbers(const HostTensor& made) {
  std::vector<float> floats(made.data.size() / sizeof(float));
  std::memcpy(floats.data(), made.data.data(), made.data.size());
  return {floats.begin(), floats.end()};
}

Result<HostTensor> edited(const Tiny& tiny, const WeightEdit& edit) {
  std::vector<HostTensor> sources;
  for (const std::string& source : edit.sources) {
    const WeightEntry* entry = find_weight(tiny.contract, source);
    sources.push_back(tensor(source, entry ? entry->shape : tiny.scales.at(source)));
  }
  return edit.make(sources);
}

/// Three rows: padded on the left, without padding and with a gap in its positions, padded on the right.
Values<double> inputs() {
  constexpr size_t kTokens = 7;
  Values<double> values;
  for (const char* name : {"input_ids", "attention_mask", "position_ids"})
    values[name] = {{3, kTokens}, std::vector<double>(3 * kTokens)};
  for (size_t row = 0; row < 3; ++row)
    for (size_t t = 0; t < kTokens; ++t) {
      const size_t i = row * kTokens + t;
      values["input_ids"].data[i] = static_cast<double>((5 * i + 3) % 11);
      values["attention_mask"].data[i] = row == 0 ? t >= 2 : row == 2 ? t < 5 : 1;
      values["position_ids"].data[i] = static_cast<double>(row == 0            ? (t < 2 ? 0 : t - 2)
                                                           : row == 1 && t > 3 ? t + 30
                                                                               : t);
    }
  return values;
}

std::vector<double> logits(const Tiny& tiny, const Contract& contract, const std::vector<WeightEdit>& edits) {
  const WeightLookup<double> lookup = [&](const std::string& name) -> Result<Value<double>> {
    const Shape& shape = find_weight(contract, name)->shape;
    for (const WeightEdit& edit : edits) {
      if (edit.weight != name) continue;
      TANDEM_TRY(const HostTensor made, edited(tiny, edit));
      if (made.shape != shape || made.dtype != DType::f32)
        return bug("", "{} becomes {}{}", name, made.dtype, to_string(made.shape));
      return Value<double>{shape, numbers(made)};
    }
    return Value<double>{shape, numbers(tensor(name, shape))};
  };
  const auto result = evaluate<double>(contract, *find_entry(contract, "logits"), inputs(), lookup);
  EXPECT_TRUE(result.ok()) << result.error().message();
  if (!result.ok()) return {};
  std::vector<double> real;  // padding is nobody's business
  const std::vector<double>& all = result.value().at("logits").data;
  const std::vector<double> mask = inputs().at("attention_mask").data;
  for (size_t i = 0; i < all.size(); ++i)
    if (mask[i / (all.size() / mask.size())] != 0) real.push_back(all[i]);
  return real;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    largest = std::isfinite(a[i] - b[i]) ? std::max(largest, std::abs(a[i] - b[i])) : INFINITY;
  return largest;
}

std::set<std::string> names_in(const Block& block) {
  std::set<std::string> names;
  for (const Node& node : block.nodes) {
    names.insert(node.outputs.begin(), node.outputs.end());
    if (!node.tap.empty()) names.insert("tap " + node.tap + " = " + node.outputs[0]);
  }
  return names;
}

bool holds(const std::set<std::string>& all, const std::set<std::string>& some) {
  return std::ranges::includes(all, some);
}

std::vector<Json> configs() { return {llama(), llama3(), square_llama(), deepseek(), deepseek_fp8()}; }

// ---- Every hypothesis.

class FaultsOf : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Models, FaultsOf, ::testing::Range(size_t{0}, size_t{5}));

TEST_P(FaultsOf, EveryHypothesisKeepsTheNamesHoldsAndChangesTheLogits) {
  const Tiny tiny(configs()[GetParam()]);
  const std::vector<double> right = logits(tiny, tiny.contract, {});
  size_t tried = 0;
  const Status walked = for_each_site(tiny.contract, tiny.context, [&](const FaultSite& site) {
    for (const FaultRow& row : faults())
      for (const Hypothesis& hypothesis : hypotheses_of(row, site)) {
        SCOPED_TRACE(fmt::format("{} at {} ({}): {}", row.name, module_of(site), site.node.outputs[0],
                                 hypothesis.words));
        EXPECT_EQ(hypothesis.fault, row.name);
        EXPECT_FALSE(hypothesis.words.empty());
        EXPECT_TRUE(hypothesis.edit || !hypothesis.weights.empty());
        const Contract wrong = with_hypothesis(tiny.contract, site.block.name, site.place, hypothesis);
        const Status checked = check(wrong);
        EXPECT_TRUE(checked.ok()) << checked.error().message();
        const Block& block = site.place.empty() ? *find_entry(wrong, site.block.name)
                                                : *find_block(wrong, block_at(wrong, site.place));
        EXPECT_TRUE(holds(names_in(block), names_in(site.block)));
        if (site.place.empty() && site.block.name != "logits") continue;  // the same nodes again
        const double change = largest_difference(right, logits(tiny, wrong, hypothesis.weights));
        EXPECT_TRUE(change > 1e-13 && std::isfinite(change)) << "the logits change by " << change;
        ++tried;
      }
  });
  EXPECT_TRUE(walked.ok()) << walked.error().message();
  EXPECT_GT(tried, 200u);
}

TEST(Faults, EveryRowAppliesToOneOfTheModels) {
  std::set<std::string_view> applied;
  for (const Json& config : configs()) {
    const Tiny tiny(config);
    for (const FaultRow& row : faults())
      if (plant(tiny.contract, row.name, "", tiny.context).ok()) applied.insert(row.name);
  }
  for (const FaultRow& row : faults()) EXPECT_TRUE(applied.contains(row.name)) << row.name;
}

TEST_P(FaultsOf, EveryFaultPlantedEverywhereChangesTheLogits) {
  const Tiny tiny(configs()[GetParam()]);
  const std::vector<double> right = logits(tiny, tiny.contract, {});
  for (const FaultRow& row : faults()) {
    SCOPED_TRACE(row.name);
    const auto planted = plant(tiny.contract, row.name, "", tiny.context);
    if (!planted.ok()) {
      EXPECT_EQ(planted.error().rule, "fault_c2") << planted.error().message();
      continue;
    }
    EXPECT_EQ(planted.value().fault, row.name);
    std::set<std::string> weights;
    for (const WeightEdit& edit : planted.value().weights)
      EXPECT_TRUE(weights.insert(edit.weight).second) << edit.weight;
    EXPECT_GT(largest_difference(right, logits(tiny, planted.value().contract, planted.value().weights)),
              1e-13);
  }
}

TEST(Faults, NamesAreAFamilyAndAVariant) {
  std::set<std::string_view> names;
  std::map<std::string_view, std::string_view> cause_of;
  for (const FaultRow& row : faults()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.help.empty());
    const size_t dot = row.name.find('.');
    ASSERT_NE(dot, row.name.npos) << row.name;
    EXPECT_EQ(row.hypothesis, row.cause != "unknown") << row.name;
  }
}

// ---- Planting.

TEST(Plant, InOnePlaceTheOthersStayAsTheyAre) {
  const Tiny tiny(llama());
  const Planted planted = plant(tiny.contract, "mask.causal", "model.layers.1", tiny.context).value();
  EXPECT_THAT(planted.words,
              ElementsAre("model.layers.1.self_attn: the causal mask is lost: queries see later keys"));
  EXPECT_EQ(*find_block(planted.contract, "decoder_layer"), *find_block(tiny.contract, "decoder_layer"));
  EXPECT_EQ(block_at(planted.contract, "model.layers.0"), "decoder_layer");
  EXPECT_EQ(block_at(planted.contract, "model.layers.1"), "decoder_layer.model.layers.1");
  EXPECT_EQ(block_at(*std::make_unique<Contract>(planted.contract), "model.layers.1"),
            "decoder_layer.model.layers.1");
}

TEST(Plant, InOneModule) {
  const Tiny tiny(llama());
  const auto touched = [&](const std::string& at) {
    std::vector<std::string> weights;
    for (const WeightEdit& edit :
         plant(tiny.contract, "transposition.reshaped", at, tiny.context).value().weights)
      weights.push_back(edit.weight);
    return weights;
  };
  EXPECT_THAT(touched("model.layers.1.self_attn.q_proj"),
              ElementsAre("model.layers.1.self_attn.q_proj.weight"));
  EXPECT_THAT(
      touched("model.layers.1.self_attn"),
      ElementsAre("model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight",
                  "model.layers.1.self_attn.v_proj.weight", "model.layers.1.self_attn.o_proj.weight"));
  EXPECT_THAT(touched("lm_head"), ElementsAre("lm_head.weight"));
}

TEST(Plant, AFaultThatIsPlantedOnceIsPlantedInEveryEntryOfOnePlace) {
  const Tiny tiny(llama());
  const Planted planted = plant(tiny.contract, "other.doubled_residual", "", tiny.context).value();
  EXPECT_EQ(planted.words.size(), 1u);
  EXPECT_EQ(block_at(planted.contract, "model.layers.0"), "decoder_layer.model.layers.0");
  EXPECT_EQ(block_at(planted.contract, "model.layers.1"), "decoder_layer");
}

TEST(Plant, AFamilyMeansItsFirstRowThatApplies) {
  const Tiny tiny(llama());
  EXPECT_EQ(plant(tiny.contract, "mask", "", tiny.context).value().fault, "mask.causal");
  EXPECT_EQ(plant(tiny.contract, "transposition", "", tiny.context).value().fault, "transposition.reshaped");
}

TEST(Plant, C1NoSuchFault) {
  EXPECT_EQ(plant({}, "mas", "", {}).error().message(),
            "fault_c1: there is no fault \"mas\" (tandem plant --list names all)");
}

TEST(Plant, C2NotInThisModelOrNotThere) {
  const Tiny tiny(llama());
  EXPECT_EQ(
      plant(tiny.contract, "routing", "", tiny.context).error().message(),
      "fault_c2: routing applies nowhere in this model (tandem plant --list MODEL names those that apply)");
  EXPECT_EQ(plant(tiny.contract, "mask.causal", "model.layers.2", tiny.context).error().text,
            "mask.causal applies nowhere in model.layers.2");
  EXPECT_EQ(plant(tiny.contract, "mask.causal", "model.layers", tiny.context).value().words.size(), 2u);
}

// ---- What single rows say, by hand.

/// All that a row says of a model, in words.
std::vector<std::string> words_of(const Tiny& tiny, std::string_view name) {
  std::vector<std::string> words;
  EXPECT_TRUE(for_each_site(tiny.contract, tiny.context, [&](const FaultSite& site) {
                for (const Hypothesis& h : hypotheses_of(*faults_named(name).at(0), site))
                  words.push_back(h.words);
              }).ok());
  return words;
}

TEST(Faults, EpsilonSaysBoth) {
  EXPECT_THAT(words_of(Tiny(llama({{"rms_norm_eps", 1e-5}})), "epsilon.usual"),
              Contains("epsilon 1e-06 where the reference has 1e-05"));
  EXPECT_THAT(words_of(Tiny(llama({{"rms_norm_eps", 1e-5}})), "epsilon.usual"),
              Contains(HasSubstr("epsilon 0 where")));
  EXPECT_THAT(words_of(Tiny(deepseek({{"rms_norm_eps", 1e-5}})), "epsilon.other_norm"),
              Contains("epsilon 1e-06 where the reference has 1e-05: that of another norm"));
}

TEST(Faults, MscaleIsFoundInTheScale) {
  // 0.1 * 0.7 * ln 4 + 1 = 1.0970406; its square over sqrt(7) is 0.454880.
  EXPECT_THAT(words_of(Tiny(deepseek()), "scale.mscale"),
              Contains("score scale 0.377964 where the reference has 0.45488: mscale is dropped"));
}

TEST(Faults, RowsArePermutedPairByPair) {
  const Tiny tiny(llama());  // heads of six lanes
  const Planted planted =
      plant(tiny.contract, "rotary.permuted_rows", "model.layers.0.self_attn.k_proj", tiny.context).value();
  const HostTensor before = tensor(planted.weights[0].weight, {8, 12}),
                   after = edited(tiny, planted.weights[0]).value();
  const std::vector<double> a = numbers(before), b = numbers(after);
  for (size_t in = 0; in < 8; ++in)
    for (size_t head = 0; head < 2; ++head)
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(b[in * 12 + head * 6 + 2 * i], a[in * 12 + head * 6 + i]);
        EXPECT_EQ(b[in * 12 + head * 6 + 2 * i + 1], a[in * 12 + head * 6 + 3 + i]);
      }
}

TEST(Faults, AReshapedKernelHoldsTheBytesOfItsTranspose) {
  const Tiny tiny(llama());
  const Planted planted =
      plant(tiny.contract, "transposition.reshaped", "model.layers.0.mlp.gate_proj", tiny.context).value();
  const std::vector<double> a = numbers(tensor("model.layers.0.mlp.gate_proj.weight", {8, 12}));
  const HostTensor after = edited(tiny, planted.weights[0]).value();
  EXPECT_EQ(after.shape, (Shape{8, 12}));
  EXPECT_EQ(numbers(after)[1], a[12]);  // the second of the transpose's first row
  EXPECT_EQ(numbers(after)[8], a[1]);
}

TEST(Faults, Fp8CodesAreTheWeightsOverTheirScales) {
  const Tiny tiny(deepseek_fp8());
  const Planted planted =
      plant(tiny.contract, "dropped_scale.fp8", "model.layers.1.mlp.experts", tiny.context).value();
  ASSERT_EQ(planted.weights.size(), 3u);
  const WeightEdit& up = planted.weights[1];
  ASSERT_EQ(up.weight, "model.layers.1.mlp.experts.up_proj.weight");
  ASSERT_EQ(up.sources.size(), 13u);
  EXPECT_EQ(up.sources[12], "model.layers.1.mlp.experts.11.up_proj.weight_scale_inv");
  const std::vector<double> a = numbers(tensor(up.weight, {12, 6, 6})), b = numbers(edited(tiny, up).value());
  EXPECT_EQ(b[77], f8_e4m3_to_f32(f32_to_f8_e4m3(static_cast<float>(4 * a[77]))));
}

TEST(Faults, WithoutScalesInTheCheckpointNoneAreDropped) {
  const Tiny tiny(deepseek_fp8());
  FaultContext context = tiny.context;
  context.scales.clear();
  EXPECT_FALSE(plant(tiny.contract, "dropped_scale.fp8", "", context).ok());
}

TEST(Faults, ExpertsSortedAsText) {
  const Tiny tiny(deepseek());
  const Planted planted = plant(tiny.contract, "experts.text_order", "model.layers.1", tiny.context).value();
  const std::vector<double> a = numbers(tensor(planted.weights[0].weight, {12, 8, 6}));
  const std::vector<double> b = numbers(edited(tiny, planted.weights[0]).value());
  constexpr size_t kOrder[] = {0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9};
  for (size_t e = 0; e < 12; ++e) EXPECT_EQ(b[e * 48], a[kOrder[e] * 48]) << e;
}

TEST(Faults, ModulesOfNodesWithoutATap) {
  const Tiny tiny(llama());
  std::map<std::string, std::string> module;
  EXPECT_TRUE(for_each_site(tiny.contract, tiny.context, [&](const FaultSite& site) {
                if (site.place == "model.layers.1") module[site.node.outputs[0]] = module_of(site);
              }).ok());
  EXPECT_EQ(module.at("attended"), "model.layers.1.self_attn");
  EXPECT_EQ(module.at("q"), "model.layers.1.self_attn.q_proj");
  EXPECT_EQ(module.at("m_gated"), "model.layers.1.mlp");
  EXPECT_EQ(module.at("out"), "model.layers.1");
}

}  // namespace
}  // namespace tandem
