#include "convert/plan_file.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::HasSubstr;

/// A plan with every option that is not null as it stands by default.
ConversionPlan some_plan() {
  ConversionPlan plan;
  plan.source = "/source";
  plan.destination = "/destination";
  plan.options.to = ConvertTarget::checkpoint;
  plan.options.dtype = DType::f16;
  plan.options.compute = DType::bf16;
  plan.options.stages = 3;
  plan.options.accepted_keys = {"k"};
  plan.options.max_shard_bytes = 5;
  plan.inputs = {{"/source/x", 4000, -1, std::string(64, 'c'), 10}};
  plan.tasks = {{"a", 1, 1000}, {"b", 3, 2000}};
  plan.rest_bytes = 500;
  return plan;
}

Json good() { return to_json(some_plan()); }

std::string refused(const Json& edited) {
  const auto read = plan_from_text(edited.dump());
  EXPECT_FALSE(read.ok()) << edited.dump();
  return read.ok() ? std::string() : read.error().rule + " " + read.error().text;
}

std::string refused(const char* place, const Json& value) {
  Json edited = good();
  edited[Json::json_pointer(place)] = value;
  return refused(edited);
}

TEST(PlanFile, WhatIsWrittenIsReadAgain) {
  for (const auto to : {ConvertTarget::saved_model, ConvertTarget::checkpoint, ConvertTarget::safetensors})
    for (const auto layout : {WeightLayout::source, WeightLayout::tensorflow})
      for (const auto place : {Place::hard_link, Place::reflink, Place::copy}) {
        ConversionPlan plan = some_plan();
        plan.options.to = to;
        plan.options.layout = layout;
        plan.options.place = place;
        const auto read = plan_from_text(to_json(plan).dump());
        ASSERT_TRUE(read.ok()) << read.error().message();
        EXPECT_EQ(identity(read.value()), identity(plan));
      }
  ConversionPlan bare;
  EXPECT_EQ(identity(plan_from_text(to_json(bare).dump()).value()), identity(bare));
}

TEST(PlanFile, MemoryForceAndTimeAreNotPartOfItsIdentity) {
  ConversionPlan plan = some_plan();
  plan.options.memory += 1;
  plan.options.force = true;
  plan.time = TimeEstimate{1, 2, 3};
  EXPECT_EQ(identity(plan), identity(some_plan()));
  plan.options.strict = true;
  EXPECT_NE(identity(plan), identity(some_plan()));
}

TEST(PlanFile, C1EveryFieldOfTheOptionsIsChecked) {
  const struct {
    const char* key;
    Json value;
    const char* words;
  } kRows[] = {
      {"to", "hdf5", "\"to\" is no target"},
      {"to", 1, "\"to\" is no target"},
      {"dtype", 1, "\"dtype\" is no dtype"},
      {"compute", nullptr, "\"compute\" is no dtype"},
      {"inline", 0, "\"inline\" is neither true nor false"},
      {"layout", "pytorch", "\"layout\" is no layout"},
      {"layout", 1, "\"layout\" is no text of at most 4096 bytes"},
      {"place", "symlink", "\"place\" is no way to place files"},
      {"stages", 0, "\"stages\" is no whole number from 1"},
      {"delete_source", nullptr, "\"delete_source\" is neither true nor false"},
      {"like", std::string(4097, 'a'), "\"like\" is no text of at most 4096 bytes"},
      {"accepted_keys", {1}, "\"accepted_keys\" are no texts"},
      {"accepted_keys", "k", "\"accepted_keys\" is no list of at most 1000000 entries"},
      {"max_header_bytes", -1, "\"max_header_bytes\" is no whole number from 0"},
      {"max_tensors", 1.5, "\"max_tensors\" is no whole number from 0"},
      {"max_shard_bytes", "5GB", "\"max_shard_bytes\" is no whole number from 1"},
  };
  for (const auto& [key, value, words] : kRows)
    EXPECT_EQ(refused((std::string("/options/") + key).c_str(), value),
              std::string("plan_c1 not a plan of this tool: options ") + words);
  EXPECT_EQ(refused("/options", 1), "plan_c1 not a plan of this tool: options is no object");
  EXPECT_EQ(refused("/options/more", 1),
            "plan_c1 not a plan of this tool: options has fields that are not known");
  const Json options = good()["options"];
  for (const auto& [key, value] : options.items()) {
    Json edited = good();
    edited["options"].erase(key);
    EXPECT_EQ(refused(edited), fmt::format("plan_c1 not a plan of this tool: options has no \"{}\"", key));
  }
}

TEST(PlanFile, C1InputsAndTasksAreNamedByTheirPlace) {
  EXPECT_THAT(refused("/inputs/0/modified_ns", "x"),
              HasSubstr("inputs[0] \"modified_ns\" is no whole number"));
  EXPECT_THAT(refused("/inputs/0/sha256", std::string(65, 'a')),
              HasSubstr("inputs[0] \"sha256\" is no text of at most 64 bytes"));
  EXPECT_THAT(refused("/inputs/0", nullptr), HasSubstr("inputs[0] is no object"));
  EXPECT_THAT(refused("/tasks/1/tensors", true), HasSubstr("tasks[1] \"tensors\" is no whole number from 0"));
  EXPECT_THAT(refused("/tasks/1/more", 1), HasSubstr("tasks[1] has fields that are not known"));
  EXPECT_THAT(refused("/disk", "1"), HasSubstr("the document \"disk\" is no whole number from 0"));
  EXPECT_THAT(refused("/tandem_plan", "a version that goes on for long"),
              HasSubstr("plan version \"a version that goes, this program knows 2"));
}

TEST(PlanFile, C1SizesAddUpBelow64Bits) {
  const std::string words = "plan_c1 not a plan of this tool: its sizes add up beyond 64 bits";
  const uint64_t most = ~uint64_t{0};
  EXPECT_EQ(refused("/rest_bytes", most - 2999), words);
  EXPECT_EQ(refused("/tasks/0/bytes", most), words);
  EXPECT_EQ(refused("/inputs/0/header_bytes", most / 2), words);
  EXPECT_EQ(refused("/options/memory", most), words);
  Json edge = good();
  edge["rest_bytes"] = most - 3000;
  EXPECT_TRUE(plan_from_text(edge.dump()).ok());
}

TEST(PlanFile, DiskIsWhatTheOutputTakes) {
  ConversionPlan plan = some_plan();
  EXPECT_EQ(plan.disk(), 3500u);
  plan.options.layout = WeightLayout::source;
  EXPECT_EQ(plan.disk(), 2500u) << "the last task's file is our own";
  plan.options.place = Place::copy;
  EXPECT_EQ(plan.disk(), 3500u);
  plan.options.delete_source = true;
  plan.beside_source = 7;
  EXPECT_EQ(plan.disk(), 507u);
  EXPECT_EQ(plan.peak_memory(), (256ull << 20) + 30);
}

TEST(PlanFile, TimeIsOfTheDiskOrOfHashingWhicheverIsMore) {
  ConversionPlan plan = some_plan();
  const MachineSpeed slow_hash{1000, 500, 100};
  const TimeEstimate time = estimated_time(plan, slow_hash);
  plan.time = time;
  EXPECT_EQ(to_json(plan)["time"], (Json{{"seconds", 30.0}, {"read", 4.0}, {"write", 7.0}, {"hash", 30.0}}));
  EXPECT_EQ(estimated_time(plan, {1000, 500, 0}).all(), 11) << "a speed of 0 is not known";
  plan.options.sha256 = false;
  EXPECT_EQ(estimated_time(plan, slow_hash).all(), 11) << "--no-sha256";
  plan.options.sha256 = true;
  plan.options.layout = WeightLayout::source;
  EXPECT_EQ(estimated_time(plan, slow_hash).hash, 0) << "files of the source are not hashed";
}

}  // namespace
}  // namespace tandem
