#include "convert/tasks.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "base/fault_files.h"
#include "base/work_folder.h"
#include "convert/testing.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Conversions of the tiny llama, in several files of weights.
class Tasks : public ModelsOnDisk {
 protected:
  void SetUp() override {
    ModelsOnDisk::SetUp();
    write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
    ASSERT_TRUE(convert(real_files(), at("hf"), at("whole"), few()).ok());
    whole_ = files_of(at("whole"));
  }

  static ConvertOptions few() {
    ConvertOptions options;
    options.max_shard_bytes = 3000;
    return options;
  }
  std::string plan(const ConvertOptions& options = few()) const {
    auto made = plan_tasks(real_files(), at("hf"), at("out"), options);
    EXPECT_TRUE(made.ok()) << made.error().message();
    return to_json(made.value()).dump();
  }
  Result<TasksReport> run(std::string_view text, size_t index, size_t count) const {
    return run_tasks(real_files(), text, {index, count}, {});
  }
  Contents whole_;
};

TEST_F(Tasks, SharesInAnyOrderMakeTheBytesOfConvert) {
  const std::string text = plan();
  const auto size = plan_from_text(text).value().tasks.size();
  ASSERT_GT(size, 3u);
  EXPECT_EQ(finalize_tasks(real_files(), text, false).error().rule, "work_c2");
  for (const size_t index : {2, 0}) {
    const auto done = run(text, index, 3);
    ASSERT_TRUE(done.ok()) << done.error().message();
    EXPECT_EQ(done.value().made.front(), index);
    EXPECT_THAT(done.value().there, ElementsAre());
  }
  const auto early = finalize_tasks(real_files(), text, false);
  ASSERT_FALSE(early.ok());
  EXPECT_THAT(early.error().message(), HasSubstr("tasks are not done: 1"));
  EXPECT_EQ(exit_code(early.error().kind), 66);
  ASSERT_TRUE(run(text, 1, 3).ok());
  EXPECT_THAT(run(text, 0, 3).value().made, ElementsAre()) << "a share that is done is not done again";
  const auto report = finalize_tasks(real_files(), text, true);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(files_of(at("out")), whole_);
  EXPECT_THAT(names(), ElementsAre("hf", "out", "whole"));
  EXPECT_EQ(run(text, 0, 3).error().kind, ErrorKind::exists);
}

TEST_F(Tasks, ConvertGoesOnFromWhatTasksMade) {
  ASSERT_TRUE(run(plan(), 1, 2).ok());
  const auto report = convert(real_files(), at("hf"), at("out"), few());
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_THAT(report.value().remarks, Contains(HasSubstr("went on from an earlier run")));
  EXPECT_EQ(files_of(at("out")), whole_);
  for (const ConvertedTensor& tensor : report.value().tensors) EXPECT_NE(tensor.crc32c, 0u);
}

TEST_F(Tasks, OtherOptionsStartFromNothing) {
  ASSERT_TRUE(run(plan(), 1, 2).ok());
  ConvertOptions wide = few();
  wide.dtype = DType::f32;
  const auto report = convert(real_files(), at("hf"), at("out"), wide);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_THAT(report.value().remarks, Contains(HasSubstr("of other files or options, and was removed")));
  EXPECT_NE(files_of(at("out")), whole_);
  EXPECT_THAT(names(), ElementsAre("hf", "out", "whole"));
}

TEST_F(Tasks, F8AnotherPlanIsNotMixedIn) {
  ASSERT_TRUE(run(plan(), 0, 2).ok());
  ConvertOptions wide = few();
  wide.dtype = DType::f32;
  const auto other = run(plan(wide), 0, 2);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().rule, "work_c1");
}

TEST_F(Tasks, ASourceThatChangedIsRefused) {
  const std::string text = plan();
  ASSERT_TRUE(run(text, 0, 2).ok());
  std::filesystem::last_write_time(at("hf/model.safetensors"),
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  const auto touched = run(text, 1, 2);
  ASSERT_FALSE(touched.ok());
  EXPECT_EQ(touched.error().rule, "convert_c8");
  EXPECT_THAT(touched.error().message(), HasSubstr("model.safetensors: was written to"));
  MemorySource other = weights_for(tiny_llama(), {"model.norm.weight"});
  const TensorInfo wide{"model.norm.weight", DType::f32, {16}};
  other.add(wide, std::vector<std::byte>(64));
  write_folder(at("hf"), tiny_llama(), other);
  const auto longer = finalize_tasks(real_files(), text, false);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().rule, "convert_c8");
  EXPECT_THAT(longer.error().message(), HasSubstr("bytes, has"));
}

TEST_F(Tasks, ASourceThatChangesMeanwhileIsRefused) {
  ConvertOptions options = few();
  options.progress = [&](uint64_t done, uint64_t total) -> Status {
    if (done == total)
      std::filesystem::last_write_time(at("hf/model.safetensors"), std::filesystem::file_time_type::min());
    return {};
  };
  const auto changed = convert(real_files(), at("hf"), at("out"), options);
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().rule, "convert_c8");
  EXPECT_THAT(names(), ElementsAre("hf", "whole"));
}

TEST_F(Tasks, APlanIsNotBelieved) {
  const Json good = parse_json(plan()).value();
  const auto refused = [&](const std::function<void(Json&)>& edit) {
    Json edited = good;
    edit(edited);
    const auto done = run(edited.dump(), 0, 1);
    EXPECT_FALSE(done.ok()) << edited.dump();
    return done.ok() ? std::string() : done.error().rule + " " + done.error().text;
  };
  EXPECT_THAT(refused([](Json& p) { p["tasks"][0]["file"] = "../../evil"; }), HasSubstr("plan_c2"));
  EXPECT_THAT(refused([](Json& p) { p["tasks"].erase(1); }), HasSubstr("plan_c2"));
  EXPECT_THAT(refused([](Json& p) { p["tasks"][0]["bytes"] = 18446744073709551615u; }),
              HasSubstr("its sizes add up beyond 64 bits"));
  EXPECT_THAT(refused([](Json& p) { p["tasks"][0]["bytes"] = -1; }),
              HasSubstr("plan_c1 not a plan of this tool: tasks[0] \"bytes\" is no whole number from 0"));
  EXPECT_THAT(refused([](Json& p) { p["tasks"] = 1; }), HasSubstr("\"tasks\" is no list"));
  EXPECT_THAT(refused([](Json& p) { p["more"] = 1; }), HasSubstr("fields that are not known"));
  EXPECT_THAT(refused([](Json& p) { p.erase("inputs"); }), HasSubstr("has no \"inputs\""));
  EXPECT_THAT(refused([](Json& p) { p["tandem_plan"] = 3; }), HasSubstr("version 3, this program knows 2"));
  EXPECT_THAT(refused([](Json& p) { p["options"]["dtype"] = "int8"; }), HasSubstr("transform_c3"));
  EXPECT_THAT(refused([](Json& p) { p["options"]["dtype"] = "x"; }), HasSubstr("\"dtype\" is no dtype"));
  EXPECT_THAT(refused([](Json& p) { p["options"]["memory"] = 1; }), HasSubstr("--memory"));
  EXPECT_THAT(refused([](Json& p) { p["options"]["max_shard_bytes"] = 0; }), HasSubstr("from 1"));
  EXPECT_THAT(refused([](Json& p) { p["inputs"][0]["path"] = "/dev/zero"; }), HasSubstr("convert_c8"));
  EXPECT_THAT(refused([](Json& p) { p["inputs"][0]["bytes"] = 1; }), HasSubstr("convert_c8"));
  EXPECT_THAT(refused([&](Json& p) { p["destination"] = at("hf"); }), HasSubstr("convert_c4"));
  EXPECT_EQ(run("[]", 0, 1).error().rule, "plan_c1");
  EXPECT_EQ(run("{", 0, 1).error().rule, "json_c1");
  EXPECT_EQ(run(good.dump(), 2, 2).error().rule, "plan_c3");
  EXPECT_EQ(run(good.dump(), 0, 0).error().rule, "plan_c3");
  EXPECT_THAT(names(), ElementsAre("hf", "whole"));
}

TEST_F(Tasks, AManifestThatDoesNotHoldIsDoneAgain) {
  const std::string text = plan();
  ASSERT_TRUE(run(text, 0, 1).ok());
  const std::string work = at(".out.tandem-work/");
  ASSERT_TRUE(write_text(real_files(), work + "done/00001.json", "{}").ok());
  const std::string file = plan_from_text(text).value().tasks[2].file;
  ASSERT_TRUE(write_text(real_files(), work + "out/" + file, "short").ok());
  EXPECT_THAT(run(text, 0, 1).value().made, ElementsAre(1, 2));
  ASSERT_TRUE(finalize_tasks(real_files(), text, true).ok());
  EXPECT_EQ(files_of(at("out")), whole_);
}

TEST_F(Tasks, F10AFlippedBitInAStagedFileIsNamed) {
  const std::string text = plan();
  ASSERT_TRUE(run(text, 0, 1).ok());
  const std::string path = at(".out.tandem-work/out/" + plan_from_text(text).value().tasks[1].file);
  std::string bytes = read_text(real_files(), path).value();
  bytes[7] ^= 1;
  ASSERT_TRUE(write_text(real_files(), path, bytes).ok());
  const auto checked = finalize_tasks(real_files(), text, true);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().rule, "task_c2");
  EXPECT_THAT(checked.error().where, HasSubstr("data-00001-of-"));
}

TEST_F(Tasks, F1AFullDiskIsRefusedBeforeTheFirstByte) {
  FaultyFiles small;
  small.claim_free(5000);
  const auto refused = convert(small, at("hf"), at("out"), few());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(exit_code(refused.error().kind), 74);
  EXPECT_THAT(refused.error().message(), HasSubstr("bytes are to be written, and 5000 are free"));
  EXPECT_THAT(names(), ElementsAre("hf", "whole"));
}

TEST_F(Tasks, NothingIsWrittenIntoNothing) {
  ConvertOptions null = few();
  null.write = false;
  const auto report = convert(real_files(), at("hf"), "", null);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_THAT(names(), ElementsAre("hf", "whole"));
  const auto real = convert(real_files(), at("hf"), at("out"), few());
  for (size_t i = 0; i < real.value().tensors.size(); ++i)
    EXPECT_EQ(report.value().tensors[i].crc32c, real.value().tensors[i].crc32c);
}

TEST_F(Tasks, M06OneFileOrManyMakeTheSameOnEitherSide) {
  HfWriteOptions split;
  const MemorySource weights_there = weights_for(tiny_llama());
  for (const TensorInfo& info : weights_there.tensors())
    split.shard_of[info.name] = info.name < "model.layers.1" ? "model-00001-of-00002.safetensors"
                                                             : "model-00002-of-00002.safetensors";
  std::filesystem::create_directories(at("sharded"));
  for (const char* name : {"config.json", "tokenizer.json"})
    std::filesystem::copy_file(at(std::string("hf/") + name), at(std::string("sharded/") + name));
  ASSERT_TRUE(write_hf_weights(real_files(), at("sharded"), weights_there, split).ok());
  ASSERT_TRUE(convert(real_files(), at("sharded"), at("out"), few()).ok());
  EXPECT_EQ(contents_of(at("out")), contents_of(at("whole")));
  const auto weights = [](Contents files) {
    std::erase_if(files,
                  [](const auto& entry) { return entry.first.find("variables.") == std::string::npos; });
    return files;
  };
  EXPECT_EQ(weights(files_of(at("out"))), weights(whole_));
  ASSERT_TRUE(convert(real_files(), at("out"), at("back"), {}).ok());
  EXPECT_EQ(files_of(at("back")), files_of(at("sharded"))) << "the original's split";
  ConvertOptions small;
  small.max_shard_bytes = 2000;
  ASSERT_TRUE(convert(real_files(), at("out"), at("small"), small).ok());
  EXPECT_EQ(contents_of(at("small")), contents_of(at("hf")));
  const Json index =
      parse_json(read_text(real_files(), at("small/model.safetensors.index.json")).value()).value();
  EXPECT_EQ(index["weight_map"].size(), 21u);
  EXPECT_EQ(index["metadata"]["total_size"], convert(real_files(), at("hf"), at("again"), {}).value().bytes);
}

TEST_F(Tasks, FilesOfTheSourceTakeNoRoomAndStayAsTheyAre) {
  ConvertOptions source;
  source.layout = WeightLayout::source;
  const auto planned = plan_tasks(real_files(), at("hf"), at("out"), source);
  ASSERT_TRUE(planned.ok()) << planned.error().message();
  EXPECT_EQ(planned.value().tasks.size(), 2u);
  EXPECT_EQ(planned.value().disk(), planned.value().rest_bytes + planned.value().tasks[1].bytes);
  const Contents before = files_of(at("hf"));
  ASSERT_TRUE(convert(real_files(), at("hf"), at("out"), source).ok());
  EXPECT_TRUE(std::filesystem::equivalent(at("hf/model.safetensors"),
                                          at("out/variables/variables.data-00000-of-00002")));
  ConvertOptions copy = source;
  copy.place = Place::copy;
  ASSERT_TRUE(convert(real_files(), at("hf"), at("copy"), copy).ok());
  EXPECT_EQ(files_of(at("copy")), files_of(at("out")));
  ASSERT_TRUE(convert(real_files(), at("out"), at("back"), {}).ok());
  EXPECT_EQ(files_of(at("back")), before);
  ConvertOptions force = source;
  force.force = true;  // the old output goes, and with it a name of the source's file, not the file
  ASSERT_TRUE(convert(real_files(), at("hf"), at("out"), force).ok());
  EXPECT_EQ(files_of(at("hf")), before);
}

// F4: killed before and after every fsync and rename. The output is absent or old, or whole; the same command
// then ends in the bytes of an undisturbed run, and repeats at most one task.
TEST_F(Tasks, F4KilledAtEverySyncAndRename) {
  for (const bool over_old : {false, true})
    for (const bool after : {false, true})
      for (uint64_t k = 1;; ++k) {
        const std::string place =
            fmt::format("{} {} {}", over_old ? "over an old output," : "", after ? "after" : "before", k);
        ASSERT_TRUE(real_files().remove_all(at("out")).ok());
        ConvertOptions options = few();
        options.force = over_old;
        if (over_old) {
          ASSERT_TRUE(convert(real_files(), at("hf"), at("out"), {}).ok());
        }
        const Contents old = over_old ? files_of(at("out")) : Contents{};
        const int ended = died([&]() -> Status {
          FaultyFiles files;
          files.die(k, after);
          const auto done = convert(files, at("hf"), at("out"), options);
          return done.ok() ? Status{} : Status(done.error());
        });
        if (ended == 0) break;  // there is no k-th
        ASSERT_EQ(ended, 137) << place;
        const bool there = real_files().kind(at("out")).value() != PathKind::absent;
        const Contents left = there ? files_of(at("out")) : Contents{};
        EXPECT_TRUE(left == whole_ || (over_old && left == old) ||
                    (!there && (!over_old || std::filesystem::exists(at(".out.tandem-work/old")))))
            << place;
        size_t notes = 0;
        std::error_code code;
        for (const auto& entry : std::filesystem::directory_iterator(at(".out.tandem-work/done"), code))
          notes += entry.path().extension() == ".json";
        FaultyFiles counting;
        const auto again = convert(counting, at("hf"), at("out"), options);
        ASSERT_TRUE(again.ok() || (there && again.error().kind == ErrorKind::exists))
            << place << ": " << again.error().message();
        EXPECT_EQ(files_of(at("out")), whole_) << place;
        EXPECT_EQ(real_files().kind(at(".out.tandem-work")).value(), PathKind::absent) << place;
        if (notes > 0 && !there) {
          EXPECT_THAT(again.value().remarks,
                      Contains(HasSubstr(fmt::format("{} of {} files of weights were done", notes, 5))))
              << place;
        }
      }
}

TEST_F(Tasks, F8TwoProcessesOnOneShareMakeItOnce) {
  const std::string text = plan();
  const auto lock =
      WorkFolder::open_shared(real_files(), at("out"), identity(plan_from_text(text).value()), false);
  ASSERT_TRUE(lock.ok()) << lock.error().message();
  const auto held = lock.value().hold("00001.json");
  ASSERT_TRUE(held.ok());
  const int ended = died([&]() -> Status {
    const auto done = run(text, 0, 1);
    if (!done.ok()) return done.error();
    const bool right = done.value().elsewhere == std::vector<size_t>{1} && done.value().made.size() == 4;
    return right ? Status{} : Status(bug("", "{}", to_json(done.value()).dump()));
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(died([&]() -> Status {
              const auto alone = convert(real_files(), at("hf"), at("out"), few());
              return alone.ok() || alone.error().kind != ErrorKind::locked ? Status(bug("", "not locked"))
                                                                           : Status{};
            }),
            0);
}

}  // namespace
}  // namespace tandem
