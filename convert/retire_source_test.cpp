// --delete-source-as-done: whatever happens, the output is made, and its bytes are those of an undisturbed
// run.

#include <gmock/gmock.h>

#include <cerrno>
#include <fstream>

#include "base/fault_files.h"
#include "convert/plan_file.h"
#include "convert/retired_files.h"
#include "convert/tasks.h"
#include "convert/testing.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A tiny llama in three files, and what it becomes undisturbed.
class DeleteSource : public ModelsOnDisk {
 protected:
  void SetUp() override {
    ModelsOnDisk::SetUp();
    write_source(at("hf"));
    write_source(at("kept"));
    ASSERT_TRUE(convert(real_files(), at("hf"), at("whole"), deleting()).ok());
    whole_ = files_of(at("whole"));
    EXPECT_THAT(weights_left(), ElementsAre());
  }
  static void write_source(const std::string& folder, const std::set<std::string>& without = {}) {
    const MemorySource weights = weights_for(tiny_llama(), without);
    HfWriteOptions split;
    split.max_shard_bytes = 4000;
    std::filesystem::create_directories(folder);
    ASSERT_TRUE(write_text(real_files(), join(folder, "config.json"), tiny_llama().dump(2)).ok());
    ASSERT_TRUE(write_hf_weights(real_files(), folder, weights, split).ok());
  }
  void write_again() {
    ASSERT_TRUE(real_files().remove_all(at("hf")).ok());
    write_source(at("hf"));
  }
  static ConvertOptions deleting() {
    ConvertOptions options;
    options.delete_source = true;
    return options;
  }
  std::vector<std::string> weights_left() const {
    std::vector<std::string> left;
    for (const std::string& name : real_files().list(at("hf")).value())
      if (name.ends_with(".safetensors")) left.push_back(name);
    return left;
  }
  uint64_t bytes_below(const std::string& folder) const {
    uint64_t bytes = 0;
    std::error_code code;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, code))
      if (entry.is_regular_file()) bytes += entry.file_size();
    return bytes;
  }
  Contents whole_;
};

TEST_F(DeleteSource, TheOutputIsTheModelAndTheRestOfTheSourceStays) {
  ASSERT_TRUE(convert(real_files(), at("whole"), at("back"), {}).ok());
  EXPECT_EQ(contents_of(at("back")), contents_of(at("kept")));
  EXPECT_THAT(real_files().list(at("hf")).value(),
              ElementsAre("config.json", "model.safetensors.index.json"));
}

TEST_F(DeleteSource, ItTakesOneFileMoreThanTheSource) {
  write_again();
  const ConversionPlan plan = plan_tasks(real_files(), at("hf"), at("out"), deleting()).value();
  uint64_t source = 0, largest = 0;
  for (const std::string& name : weights_left()) {
    const uint64_t bytes = std::filesystem::file_size(at("hf/" + name));
    source += bytes;
    largest = std::max(largest, bytes);
  }
  ASSERT_GE(weights_left().size(), 3u);
  EXPECT_LE(plan.disk(), plan.rest_bytes + largest + 4000) << "and the object graph";
  // As it goes: weights of the source and of the output together, at every piece that is read.
  uint64_t most = 0;
  ConvertOptions options = deleting();
  options.progress = [&](uint64_t, uint64_t) -> Status {
    uint64_t now = bytes_below(at(".out.tandem-work/out")) + bytes_below(at(".out.tandem-work/tmp"));
    for (const std::string& name : weights_left()) now += std::filesystem::file_size(at("hf/" + name));
    most = std::max(most, now);
    return {};
  };
  ASSERT_TRUE(convert(real_files(), at("hf"), at("out"), options).ok());
  EXPECT_LE(most, source + largest + 4000);
  EXPECT_GT(most, source / 2);
  EXPECT_EQ(files_of(at("out")), whole_);
}

/// Files that are deleted and open here: they still take their place on the disk.
std::vector<std::string> deleted_and_open(const std::string& below) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of this very walk
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(below) && target.ends_with(" (deleted)")) found.push_back(target);
  }
  return found;
}

/// And those that are mapped.
std::vector<std::string> deleted_and_mapped(const std::string& below) {
  std::vector<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(below) != std::string::npos && line.ends_with(" (deleted)")) found.push_back(line);
  return found;
}

TEST_F(DeleteSource, WhatIsDeletedFreesItsPlaceAtOnce) {
  Json config = tiny_llama();  // wide enough for windows on its files
  config["hidden_size"] = 512;
  config["intermediate_size"] = 1200;
  config["num_attention_heads"] = 128;
  ASSERT_TRUE(real_files().remove_all(at("hf")).ok());
  std::filesystem::create_directories(at("hf"));
  ASSERT_TRUE(write_text(real_files(), at("hf/config.json"), config.dump(2)).ok());
  HfWriteOptions split;
  split.max_shard_bytes = 2'000'000;
  ASSERT_TRUE(write_hf_weights(real_files(), at("hf"), weights_for(config), split).ok());
  const size_t files = weights_left().size();
  ASSERT_GE(files, 4u);
  std::set<size_t> seen;
  ConvertOptions options = deleting();
  options.max_shard_bytes = 1'500'000;
  options.progress = [&](uint64_t, uint64_t) -> Status {
    seen.insert(weights_left().size());
    EXPECT_THAT(deleted_and_open(at("hf")), ElementsAre());
    EXPECT_THAT(deleted_and_mapped(at("hf")), ElementsAre());
    return {};
  };
  const auto made = convert(real_files(), at("hf"), at("out"), options);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_GE(seen.size(), 3u) << "looked at while a part was deleted";
  EXPECT_THAT(weights_left(), ElementsAre());
}

TEST_F(DeleteSource, F4KilledAtEverySyncAndRenameItGoesOnWithWhatIsLeft) {
  size_t partly = 0;
  for (const bool after : {false, true})
    for (uint64_t k = 1;; ++k) {
      const std::string place = fmt::format("{} {}", after ? "after" : "before", k);
      ASSERT_TRUE(real_files().remove_all(at("out")).ok());
      write_again();
      const size_t files = weights_left().size();
      const int ended = died([&]() -> Status {
        FaultyFiles faulty;
        faulty.die(k, after);
        const auto done = convert(faulty, at("hf"), at("out"), deleting());
        return done.ok() ? Status{} : Status(done.error());
      });
      if (ended == 0) break;  // there is no k-th
      ASSERT_EQ(ended, 137) << place;
      const bool there = real_files().kind(at("out")).value() != PathKind::absent;
      partly += !weights_left().empty() && weights_left().size() < files;
      const auto again = convert(real_files(), at("hf"), at("out"), deleting());
      ASSERT_TRUE(again.ok() || (there && again.error().kind == ErrorKind::exists))
          << place << ": " << again.error().message();
      EXPECT_EQ(files_of(at("out")), whole_) << place;
      EXPECT_THAT(weights_left(), ElementsAre()) << place;
      EXPECT_EQ(real_files().kind(at(".out.tandem-work")).value(), PathKind::absent) << place;
    }
  EXPECT_GT(partly, 10u) << "of these kills, so many left a part of the source";
}

TEST_F(DeleteSource, NoFaultLosesAnything) {
  for (const FileCall call : {FileCall::write, FileCall::rename, FileCall::remove, FileCall::sync})
    for (uint64_t k = 1;; ++k) {
      ASSERT_TRUE(real_files().remove_all(at("out")).ok());
      write_again();
      FaultyFiles faulty;
      faulty.fail(call, k, EIO);
      const auto first = convert(faulty, at("hf"), at("out"), deleting());
      if (faulty.count(call) < k) break;
      const std::string place = fmt::format("call {} {}", static_cast<int>(call), k);
      if (!first.ok()) {
        const auto again = convert(real_files(), at("hf"), at("out"), deleting());
        ASSERT_TRUE(again.ok() || again.error().kind == ErrorKind::exists)
            << place << ": " << first.error().message() << "; then " << again.error().message();
      }
      EXPECT_EQ(files_of(at("out")), whole_) << place;
    }
}

TEST_F(DeleteSource, WhatWasMadeOfAGoneSourceGivesWayToNobody) {
  write_again();
  FaultyFiles faulty;
  faulty.fail(FileCall::remove, 3, EIO, true);
  const auto stopped = convert(faulty, at("hf"), at("out"), deleting());
  ASSERT_FALSE(stopped.ok());
  EXPECT_THAT(stopped.error().message(),
              HasSubstr("the source is partly deleted: what was made of it lies in"));
  ASSERT_FALSE(weights_left().empty());
  const auto other = convert(real_files(), at("kept"), at("out"), {});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().rule, "work_c3");
  EXPECT_THAT(other.error().message(), HasSubstr("has deleted parts of its source"));
  ASSERT_TRUE(convert(real_files(), at("hf"), at("out"), deleting()).ok());
  EXPECT_EQ(files_of(at("out")), whole_);
}

TEST_F(DeleteSource, AFileThatIsNotAsItWasWrittenIsFoundBeforeItsSourceGoes) {
  // Killed when the first manifest had been put in place: its file has not been read back yet.
  const std::string work = at(".out.tandem-work/");
  for (uint64_t k = 1; !std::filesystem::exists(work + "done/00000.json"); ++k) {
    write_again();
    ASSERT_EQ(died([&]() -> Status {
                FaultyFiles faulty;
                faulty.die(k, true);
                const auto done = convert(faulty, at("hf"), at("out"), deleting());
                return done.ok() ? Status{} : Status(done.error());
              }),
              137);
  }
  const std::string path =
      work + "out/" + plan_tasks(real_files(), at("hf"), at("other"), deleting()).value().tasks[0].file;
  const size_t before = weights_left().size();
  std::string bytes = read_text(real_files(), path).value();
  bytes[bytes.size() - 1] ^= 1;
  ASSERT_TRUE(write_text(real_files(), path, bytes).ok());
  const auto found = convert(real_files(), at("hf"), at("out"), deleting());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().rule, "task_c2");
  EXPECT_EQ(weights_left().size(), before);
}

TEST_F(DeleteSource, AFileThatHoldsMoreStays) {
  write_again();
  Json config = tiny_llama();
  MemorySource weights = weights_for(config);
  weights.add({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::bf16, {2}}, std::vector<std::byte>(4));
  ASSERT_TRUE(real_files().remove_all(at("hf")).ok());
  std::filesystem::create_directories(at("hf"));
  HfWriteOptions split;
  split.max_shard_bytes = 4000;
  ASSERT_TRUE(write_text(real_files(), at("hf/config.json"), config.dump(2)).ok());
  ASSERT_TRUE(write_hf_weights(real_files(), at("hf"), weights, split).ok());
  const auto done = convert(real_files(), at("hf"), at("out"), deleting());
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_THAT(done.value().remarks, Contains(HasSubstr("holds tensors that are not carried over")));
  EXPECT_EQ(weights_left().size(), 1u);
}

TEST_F(DeleteSource, WhatCouldNotBeGotBackIsRefused) {
  write_again();
  const auto refused = [&](const std::function<void(ConvertOptions&)>& change) {
    ConvertOptions options = deleting();
    change(options);
    const auto done = convert(real_files(), at("hf"), at("out"), options);
    EXPECT_FALSE(done.ok());
    return done.ok() ? std::string() : done.error().message();
  };
  EXPECT_THAT(refused([](auto& o) { o.dtype = DType::f16; }),
              HasSubstr("could not be made again with --dtype"));
  EXPECT_THAT(refused([](auto& o) { o.layout = WeightLayout::source; }), HasSubstr("--layout source"));
  EXPECT_THAT(convert(real_files(), at("whole"), at("back"), deleting()).error().message(),
              HasSubstr("is for the way to TensorFlow"));
  const std::string plan = to_json(plan_tasks(real_files(), at("hf"), at("out"), deleting()).value()).dump();
  EXPECT_THAT(run_tasks(real_files(), plan, {0, 1}, {}).error().message(),
              HasSubstr("is for tandem convert"));
  const std::string file = weights_left().front();
  std::filesystem::rename(at("hf/" + file), at("hf/elsewhere"));
  std::filesystem::create_symlink("elsewhere", at("hf/" + file));
  EXPECT_THAT(refused([](auto&) {}), HasSubstr("the file is a link to"));
  EXPECT_TRUE(std::filesystem::exists(at("hf/elsewhere")));
}

TEST(RetiredFiles, AreReadAsTheyAreWrittenAndNothingElseIs) {
  const RetiredFile file{"/a/b.safetensors", 100, -5, std::string("\0\n{}", 4)};
  EXPECT_EQ(retired_from_text(to_text(file)).value(), file);
  for (const std::string text : {"", "{}\n", "{\"tandem_retired\":2}\n", "no json\nx"})
    EXPECT_FALSE(retired_from_text(text).ok()) << text;
  RetiredFile longer = file;
  longer.bytes = 3;
  EXPECT_EQ(retired_from_text(to_text(longer)).error().rule, "retired_c1");
  const WithRetired files(real_files(), {file});
  EXPECT_EQ(files.kind("/a//./b.safetensors").value(), PathKind::file);
  const auto opened = files.open("/a/b.safetensors");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened.value()->size(), 100u);
  std::vector<std::byte> bytes(5);
  EXPECT_TRUE(opened.value()->read(0, std::span(bytes).first(4)).ok());
  EXPECT_EQ(opened.value()->read(0, bytes).error().rule, "retired_c2");
}

}  // namespace
}  // namespace tandem
