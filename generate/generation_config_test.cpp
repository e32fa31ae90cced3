#include "generate/generation_config.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GenerationConfig read(const std::string& generation, const std::string& config = "{}") {
  auto found = generation_config({{"generation_config.json", generation}, {"config.json", config}}, 100);
  EXPECT_TRUE(found.ok()) << found.error().message();
  return std::move(found).value();
}

std::string refused(const std::string& generation) {
  return generation_config({{"generation_config.json", generation}}, 100).error().message();
}

TEST(GenerationConfig, T11StopTokensAreThoseOfGenerationConfigOneOrSeveral) {
  EXPECT_THAT(read(R"({"eos_token_id":[1,5],"pad_token_id":3})", R"({"eos_token_id":1})").stop_ids,
              ElementsAre(1, 5));
  EXPECT_THAT(read(R"({"eos_token_id":5})", R"({"eos_token_id":1})").stop_ids, ElementsAre(5));
  const GenerationConfig fallback = read(R"({"eos_token_id":null})", R"({"eos_token_id":1})");
  EXPECT_THAT(fallback.stop_ids, ElementsAre(1));
  EXPECT_EQ(fallback.stop_ids_from, "config.json");
  EXPECT_THAT(generation_config({}, 100).value().stop_ids, IsEmpty());
}

TEST(GenerationConfig, LengthsAndStopStrings) {
  const GenerationConfig found =
      read(R"({"max_new_tokens":7,"max_length":20,"stop_strings":["\n\n","END"]})");
  EXPECT_EQ(found.max_new_tokens, 7u);
  EXPECT_EQ(found.max_length, 20u);
  EXPECT_THAT(found.stop_strings, ElementsAre("\n\n", "END"));
  EXPECT_THAT(read(R"({"stop_strings":"END"})").stop_strings, ElementsAre("END"));
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(GenerationConfig, HowToSample) {
  const GenerationConfig found = read(
      R"({"do_sample":true,"temperature":1,"top_k":20,"top_p":0.8,"min_p":0.1,"repetition_penalty":1.05})");
  EXPECT_EQ(found.sampling.do_sample, true);
  EXPECT_EQ(found.sampling.temperature, 1.0);
  EXPECT_EQ(found.sampling.top_k, 20u);
  EXPECT_EQ(found.sampling.top_p, 0.8);
  EXPECT_EQ(found.sampling.min_p, 0.1);
  EXPECT_EQ(found.sampling.repetition_penalty, 1.05);
  EXPECT_THAT(found.notes, IsEmpty());
  const SamplingWishes none = read(R"({"do_sample":null,"temperature":null,"top_k":null})").sampling;
  EXPECT_FALSE(none.do_sample || none.temperature || none.top_k || none.top_p);
}

TEST(GenerationConfig, WhatIsNotDoneIsSaid) {
  EXPECT_THAT(read(R"({"typical_p":0.9,"num_beams":4,"min_length":0})").notes,
              ElementsAre("generation_config.json asks for typical_p 0.9, num_beams 4: not done"));
  EXPECT_THAT(read(R"({"speed":9})").notes,
              ElementsAre("generation_config.json has keys that nobody reads: speed"));
}

TEST(GenerationConfig, WhatAsksForNothingIsNotSaid) {
  EXPECT_THAT(read(R"({"temperature":0.6,"repetition_penalty":1.0,"bad_words_ids":[],"suppress_tokens":null,)"
                   R"("transformers_version":"5","use_cache":true})")
                  .notes,
              IsEmpty());
}

TEST(GenerationConfig, OtherFormsAreRefused) {
  EXPECT_EQ(
      refused(R"({"eos_token_id":"1"})"),
      R"(generation_config.json: generation_c1: eos_token_id must be an id below 100, or a list of them, found "1")");
  EXPECT_THAT(refused(R"({"eos_token_id":[1,100]})"), HasSubstr("found [1,100]"));
  EXPECT_THAT(refused(R"({"eos_token_id":-1})"), HasSubstr("found -1"));
  EXPECT_THAT(refused(R"({"max_new_tokens":1.5})"),
              HasSubstr("max_new_tokens must be a whole number from 0"));
  EXPECT_THAT(refused(R"({"stop_strings":[1]})"), HasSubstr("a string or a list of strings"));
  EXPECT_THAT(refused(R"({"do_sample":1})"), HasSubstr("do_sample must be true or false, found 1"));
  EXPECT_THAT(refused(R"({"temperature":"hot"})"), HasSubstr("temperature must be a number"));
  EXPECT_THAT(refused(R"({"top_k":2.5})"), HasSubstr("top_k must be a whole number from 0"));
  EXPECT_THAT(refused("[]"), HasSubstr("the file must be an object"));
  EXPECT_THAT(refused("{"), HasSubstr("generation_config.json"));
}

}  // namespace
}  // namespace tandem
