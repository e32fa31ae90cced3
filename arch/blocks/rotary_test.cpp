#include "arch/blocks/rotary.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "arch/architecture.h"
#include "contract/check.h"

namespace tandem {
namespace {

struct Read {
  RotaryConfig rotary;
  std::string problems;
};

Read read(const Json& json) {
  ConfigReader config(json, "");
  Read result{read_rotary(config, 4096), {}};
  if (const Status status = config.finish({}); !status.ok()) result.problems = status.error().text;
  return result;
}

double number(const RotaryConfig& rotary, const std::string& name) {
  return std::get<double>(rotary.attributes.at(name));
}

TEST(Rotary, WithoutAKeyTheFamilysDefault) {
  const auto [rotary, problems] = read(Json::object());
  EXPECT_EQ(problems, "");
  EXPECT_EQ(rotary.type, "default");
  EXPECT_EQ(number(rotary, "theta"), 10000);
  EXPECT_THAT(rotary.boundaries, testing::ElementsAre(4096));
}

TEST(Rotary, BothSpellingsSayTheSame) {
  const Json scaling{{"factor", 4.0}, {"type", "linear"}};
  const Json old{{"rope_theta", 1e5}, {"rope_scaling", scaling}};
  const Json renamed{{"rope_parameters", {{"rope_theta", 1e5}, {"factor", 4.0}, {"rope_type", "linear"}}}};
  const Json both{{"rope_theta", 1e5}, {"rope_scaling", scaling}, {"rope_parameters", scaling}};
  for (const Json& json : {old, renamed, both}) {
    const auto [rotary, problems] = read(json);
    EXPECT_EQ(problems, "");
    EXPECT_EQ(rotary.attributes,
              (Attributes{{"theta", 1e5}, {"type", std::string("linear")}, {"factor", 4.0}}))
        << json;
  }
}

TEST(Rotary, BothSpellingsGiveEqualContracts) {
  Json old{{"model_type", "llama"},   {"vocab_size", 11},
           {"hidden_size", 8},        {"num_hidden_layers", 1},
           {"intermediate_size", 12}, {"num_attention_heads", 2},
           {"rms_norm_eps", 1e-6},    {"max_position_embeddings", 64}};
  Json renamed = old;
  Json scaling{{"rope_type", "llama3"},
               {"factor", 8.0},
               {"low_freq_factor", 1.0},
               {"high_freq_factor", 4.0},
               {"original_max_position_embeddings", 32}};
  old["rope_theta"] = 5e5;
  old["rope_scaling"] = scaling;
  scaling["rope_theta"] = 5e5;
  renamed["rope_parameters"] = scaling;
  const auto contract = [](const Json& json) {
    const Model model = make_model(json).value();
    return model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; }).value();
  };
  EXPECT_EQ(contract(old), contract(renamed));
  EXPECT_TRUE(check(contract(old)).ok());
}

TEST(Rotary, SpellingsThatDisagreeAreRefused) {
  EXPECT_EQ(read({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
                  {"rope_parameters", {{"type", "linear"}, {"factor", 4.0}}}})
                .problems,
            "rope_scaling and rope_parameters are both there and differ");
  EXPECT_EQ(read({{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 1e5}}}}).problems,
            "rope_parameters.rope_theta is 100000, but rope_theta is 10000");
}

TEST(Rotary, C1TheTypeIsKnown) {
  EXPECT_EQ(read({{"rope_scaling", {{"type", "longrope"}}}}).problems,
            "rope_scaling.rope_type is \"longrope\", expected one of default, linear, dynamic, yarn, llama3");
  EXPECT_EQ(read({{"rope_scaling", "linear"}}).problems, "rope_scaling is \"linear\", expected an object");
}

TEST(Rotary, C1FieldsAreThoseOfTheType) {
  EXPECT_EQ(read({{"rope_scaling", {{"type", "linear"}}}}).problems,
            "rope_scaling.factor is missing, expected a number");
  EXPECT_EQ(read({{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}).problems,
            "rope_scaling.factor is 0, expected a number above 0");
  EXPECT_EQ(read({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}, {"mscale", 1}}}}).problems,
            "rope_scaling.mscale is a key that nothing here reads");
  EXPECT_EQ(read({{"rope_theta", -1}}).problems, "rope_theta is -1, expected a number above 1");
  EXPECT_EQ(read({{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"mscale", -1}}}}).problems,
            "rope_scaling.mscale is -1, expected a number from 0");
  const Json llama3{{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}};
  EXPECT_EQ(read({{"rope_scaling", llama3}}).problems,
            "rope_scaling.high_freq_factor is 4, expected more than low_freq_factor = 4");
}

// Found by the fuzzer: head_dim 2 with dynamic scaling was taken, and its contract did not check. Whatever
// the reader takes, the contract's rotary_table takes.
TEST(Rotary, C1WhatIsReadChecksInTheContract) {
  const Json llama{{"model_type", "llama"},   {"vocab_size", 11},
                   {"hidden_size", 8},        {"num_hidden_layers", 1},
                   {"intermediate_size", 12}, {"num_attention_heads", 2},
                   {"rms_norm_eps", 1e-6},    {"max_position_embeddings", 64}};
  size_t taken = 0, refused = 0;
  const auto expect_consistent = [&](const Json& config) {
    const auto model = make_model(config);
    ++(model.ok() ? taken : refused);
    if (!model.ok()) return;
    const auto contract = model.value().contract(model.value().rules, DType::f32,
                                                 [](const std::string&) { return DType::f32; });
    ASSERT_TRUE(contract.ok()) << config << contract.error().message();
    const Status checked = check(contract.value());
    EXPECT_TRUE(checked.ok()) << config << checked.error().message();
  };
  const std::map<std::string, std::vector<std::string>> optional{
      {"default", {}},
      {"linear", {}},
      {"dynamic", {}},
      {"yarn", {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor"}},
      {"llama3", {"low_freq_factor", "high_freq_factor"}}};
  for (const auto& [type, fields] : optional)
    for (const int dim : {1, 2, 4})
      for (const double value : {-1.0, 0.0, 0.5, 1.0, 2.0}) {
        Json config = llama, scaling{{"type", type}};
        config["head_dim"] = dim;
        if (type != "default") scaling["factor"] = 2.0;
        if (type == "llama3") scaling.update({{"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}});
        for (const std::string& field : fields) {
          Json edited = scaling;
          edited[field] = value;
          config["rope_scaling"] = edited;
          expect_consistent(config);
        }
        config["rope_scaling"] = scaling;
        config["rope_theta"] = value;
        expect_consistent(config);
        config.erase("rope_theta");
        if (type == "default") continue;
        config["rope_scaling"]["factor"] = value;
        expect_consistent(config);
      }
  EXPECT_GT(taken, 40u);
  EXPECT_GT(refused, 40u);
}

TEST(Rotary, C1TheWidthOfDynamicScaling) {
  Json config{{"model_type", "llama"},   {"vocab_size", 11},
              {"hidden_size", 8},        {"num_hidden_layers", 1},
              {"intermediate_size", 12}, {"num_attention_heads", 2},
              {"rms_norm_eps", 1e-6},    {"max_position_embeddings", 64},
              {"head_dim", 2},           {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}};
  const auto refused = make_model(config);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(),
              testing::HasSubstr("head_dim is 2, expected at least 4 with dynamic scaling"));
}

TEST(Rotary, BoundariesAreWhereTheBehaviourChanges) {
  const Json yarn{{"type", "yarn"}, {"factor", 40.0}, {"original_max_position_embeddings", 512}};
  EXPECT_THAT(read({{"rope_scaling", yarn}}).rotary.boundaries, testing::ElementsAre(512, 4096));
  EXPECT_THAT(read({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}).rotary.boundaries,
              testing::ElementsAre(4096));
}

TEST(Rotary, R02LatentScoresAreScaledByMscaleAllDimSquared) {
  Json yarn{{"type", "yarn"}, {"factor", 40.0}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}};
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(read({{"rope_scaling", yarn}}).rotary.latent_score_multiplier, m * m);
  yarn["mscale_all_dim"] = 0;
  EXPECT_EQ(read({{"rope_scaling", yarn}}).rotary.latent_score_multiplier, 1);
  yarn.erase("mscale_all_dim");
  EXPECT_EQ(read({{"rope_scaling", yarn}}).rotary.latent_score_multiplier, 1);
}

}  // namespace
}  // namespace tandem
