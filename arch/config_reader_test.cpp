#include "arch/config_reader.h"

#include <gmock/gmock.h>

#include "arch/architecture.h"

namespace tandem {
namespace {

/// What a reader says of one key that is read as a size from 1 to 100.
std::string size_problem(const Json& object) {
  ConfigReader reader(object, "");
  reader.size("hidden_size", 1, 100);
  const Status status = reader.finish({});
  return status.ok() ? "" : status.error().message();
}

TEST(ConfigReader, C1SizesAreWholeNumbersInRange) {
  EXPECT_EQ(size_problem({{"hidden_size", 100}}), "");
  const std::string expected = ", expected a whole number from 1 to 100";
  EXPECT_EQ(size_problem({{"hidden_size", 0}}), "config.json: C1: hidden_size is 0" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", -1}}), "config.json: C1: hidden_size is -1" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", 1ull << 40}}),
            "config.json: C1: hidden_size is 1099511627776" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", UINT64_MAX}}),
            "config.json: C1: hidden_size is 18446744073709551615" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", "4096"}}), "config.json: C1: hidden_size is \"4096\"" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", 8.0}}), "config.json: C1: hidden_size is 8.0" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", true}}), "config.json: C1: hidden_size is true" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", Json::array({8})}}),
            "config.json: C1: hidden_size is [8]" + expected);
  EXPECT_EQ(size_problem({{"hidden_size", nullptr}}), "config.json: C1: hidden_size is missing" + expected);
  EXPECT_EQ(size_problem(Json::object()), "config.json: C1: hidden_size is missing" + expected);
}

TEST(ConfigReader, C1NumbersBooleansTextsAndObjects) {
  const Json object{{"a", "1"}, {"b", 1}, {"c", false}, {"d", 7}};
  ConfigReader reader(object, "rope_scaling.");
  reader.number("a");
  reader.boolean_or("b", true);
  reader.text_or("c", "");
  EXPECT_EQ(reader.object_or_null("d"), nullptr);
  EXPECT_EQ(reader.finish({}).error().text,
            "rope_scaling.a is \"1\", expected a finite number; rope_scaling.b is 1, expected true or false; "
            "rope_scaling.c is false, expected a text; rope_scaling.d is 7, expected an object");
}

TEST(ConfigReader, NullCountsAsAbsent) {
  const Json object{{"a", nullptr}};
  ConfigReader reader(object, "");
  EXPECT_FALSE(reader.has("a"));
  EXPECT_TRUE(reader.contains("a"));
  EXPECT_EQ(reader.size_or("a", 3, 1, 9), 3u);
  EXPECT_EQ(reader.text_or("a", "b"), "b");
  EXPECT_TRUE(reader.finish({}).ok());
}

TEST(ConfigReader, C1AKeyThatNobodyReadsIsNamedUnlessItIsAccepted) {
  const Json top{{"sliding_window", 4096}, {"initializer_range", 0.02}},
      nested{{"factor", 2}, {"initializer_range", 1}};
  ConfigReader reader(top, "");
  reader.nested(nested, "rope_scaling.");
  const Status refused = reader.finish({});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "config.json: C1: sliding_window is a key that nothing here reads; rope_scaling.factor is a key "
            "that nothing "
            "here reads; rope_scaling.initializer_range is a key that nothing here reads (--accept-key NAME "
            "goes on "
            "without such a key, if you know that it changes nothing)");
  EXPECT_EQ(exit_code(refused.error().kind), 65);
  EXPECT_TRUE(
      reader.finish({"sliding_window", "rope_scaling.factor", "rope_scaling.initializer_range"}).ok());
}

TEST(ConfigReader, KeysThatChangeTheComputationAreNotHarmless) {
  for (const char* key :
       {"hidden_act", "rms_norm_eps", "rope_theta", "rope_scaling", "sliding_window", "attention_bias",
        "head_dim", "tie_word_embeddings", "scoring_func", "quantization_config", "partial_rotary_factor"})
    EXPECT_FALSE(is_harmless(key)) << key;
  for (const char* key :
       {"architectures", "initializer_range", "use_cache", "attention_dropout", "bos_token_id"})
    EXPECT_TRUE(is_harmless(key)) << key;
}

TEST(Architecture, C1AModelTypeIsNeeded) {
  EXPECT_EQ(make_model(Json::object()).error().message(),
            "config.json: arch_c1: model_type is missing, expected the name of an architecture");
  EXPECT_EQ(make_model(Json::array({1})).error().rule, "arch_c1");
  EXPECT_EQ(make_model({{"model_type", 3}}).error().rule, "arch_c1");
}

TEST(Architecture, C2TheModelTypeIsKnown) {
  const auto model = make_model({{"model_type", "bert"}});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().rule, "arch_c2");
  EXPECT_THAT(model.error().text,
              testing::StartsWith("model_type is \"bert\", known are llama, deepseek_v3"));
  EXPECT_EQ(exit_code(model.error().kind), 65);
}

}  // namespace
}  // namespace tandem
