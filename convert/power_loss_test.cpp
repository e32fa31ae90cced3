// F5: the power goes at any call of a conversion, and the disk holds any state that POSIX allows then.

#include <gmock/gmock.h>

#include "base/memory_files.h"
#include "convert/tasks.h"
#include "convert/testing.h"

namespace tandem {
namespace {

using Survival = MemoryFiles::Survival;

/// The tiny llama in memory. Folders for locks are on disk.
class PowerLoss : public ModelsOnDisk {
 protected:
  void SetUp() override {
    ModelsOnDisk::SetUp();
    for (const char* locks : {".out.tandem-work/tmp", ".tf.tandem-work/tmp"})
      ASSERT_TRUE(real_files().make_directories(at(locks)).ok());
    write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
    ASSERT_TRUE(disk_.make_directories(at("hf")).ok());
    for (const std::string& name : real_files().list(at("hf")).value()) {
      const std::string path = at("hf/" + name);
      ASSERT_TRUE(write_text(disk_, path, read_text(real_files(), path).value()).ok());
    }
    for (std::string path = at("hf"); path != "/"; path = std::filesystem::path(path).parent_path().string())
      ASSERT_TRUE(disk_.sync_directory(path).ok());
    ASSERT_TRUE(disk_.sync_directory("/").ok());
  }

  static ConvertOptions several(bool force) {
    ConvertOptions options;
    options.max_shard_bytes = 3000;
    options.force = force;
    return options;
  }
  std::unique_ptr<MemoryFiles> copy_of(const MemoryFiles& files) {
    return files.after_power_loss(Survival::most, random_);
  }
  Contents output(const MemoryFiles& files) const { return files.contents(at("out")); }

  /// Loses the power at every call of `act`, and checks what may be left; then `act` again ends in `whole`.
  /// `old` is what lies there before. How many states were looked at.
  size_t at_every_call(const MemoryFiles& start, const Contents& old, const Contents& whole,
                       const std::function<Status(const FileSystem&)>& act) {
    std::set<Contents> seen;
    size_t states = 0;
    for (uint64_t k = 1;; ++k) {
      const auto files = copy_of(start);
      files->stop_at(k);
      const Status ended = act(*files);
      if (files->changes() < k) return states;
      EXPECT_FALSE(ended.ok()) << "the power went at call " << k << " and nobody said so";
      for (const Survival survival :
           {Survival::least, Survival::some, Survival::some, Survival::some, Survival::some}) {
        const auto left = files->after_power_loss(survival, random_);
        if (!seen.insert(left->contents()).second) continue;
        const Contents there = output(*left);
        const bool away = there.empty() && !output_is_there(*left);
        EXPECT_TRUE(there == whole || there == old || away)
            << "call " << k << ": " << names_of(left->contents());
        const Status again = act(*left);
        const bool done = there == whole && !again.ok() && again.error().kind == ErrorKind::exists;
        EXPECT_TRUE(again.ok() || done)
            << "call " << k << ": " << (again.ok() ? "" : again.error().message());
        EXPECT_TRUE(output(*left) == whole) << "call " << k << ": " << names_of(left->contents());
        ++states;
        if (HasFailure()) return states;
      }
    }
  }
  bool output_is_there(const MemoryFiles& files) const {
    return files.kind(at("out")).value() != PathKind::absent;
  }
  static std::string names_of(const Contents& contents) {
    std::string text;
    for (const auto& [name, bytes] : contents) text += fmt::format("\n  {} ({} bytes)", name, bytes.size());
    return text;
  }

  MemoryFiles disk_;
  std::mt19937_64 random_{5};
};

TEST_F(PowerLoss, F5AConversionEndsInTheSameBytesAndNothingElseIsEverTheOutput) {
  const auto act = [&](const FileSystem& files) -> Status {
    const auto done = convert(files, at("hf"), at("out"), several(false));
    return done.ok() ? Status{} : Status(done.error());
  };
  const auto undisturbed = copy_of(disk_);
  const Status first = act(*undisturbed);
  ASSERT_TRUE(first.ok()) << first.error().message();
  const Contents whole = output(*undisturbed);
  ASSERT_GT(whole.size(), 6u);
  EXPECT_GT(at_every_call(disk_, {}, whole, act), 80u);
}

TEST_F(PowerLoss, F5AnOldOutputGivesWayWholeOrStays) {
  const auto act = [&](const FileSystem& files) -> Status {
    const auto done = convert(files, at("hf"), at("out"), several(true));
    return done.ok() ? Status{} : Status(done.error());
  };
  const auto earlier = convert(disk_, at("hf"), at("out"), {});
  ASSERT_TRUE(earlier.ok()) << earlier.error().message();
  const Contents old = output(disk_);
  const auto undisturbed = copy_of(disk_);
  const Status first = act(*undisturbed);
  ASSERT_TRUE(first.ok()) << first.error().message();
  const Contents whole = output(*undisturbed);
  ASSERT_NE(old, whole);
  EXPECT_GT(at_every_call(disk_, old, whole, act), 80u);
}

TEST_F(PowerLoss, F5AFileOfTheSourceIsDeletedOnlyWhenItsOutputOutlivesIt) {
  HfWriteOptions split;
  split.max_shard_bytes = 4000;
  ASSERT_TRUE(disk_.remove_all(at("hf/model.safetensors")).ok());
  ASSERT_TRUE(write_hf_weights(disk_, at("hf"), weights_for(tiny_llama()), split).ok());
  ASSERT_TRUE(disk_.sync_directory(at("hf")).ok());
  ConvertOptions options;
  options.delete_source = true;
  const auto act = [&](const FileSystem& files) -> Status {
    const auto done = convert(files, at("hf"), at("out"), options);
    return done.ok() ? Status{} : Status(done.error());
  };
  const auto undisturbed = copy_of(disk_);
  const Status first = act(*undisturbed);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_EQ(undisturbed->list(at("hf")).value(),
            (std::vector<std::string>{"config.json", "model.safetensors.index.json", "tokenizer.json"}));
  EXPECT_GT(at_every_call(disk_, {}, output(*undisturbed), act), 50u);
}

TEST_F(PowerLoss, F5TheWayBackToo) {
  const auto act = [&](const FileSystem& files) -> Status {
    const auto done = convert(files, at("tf"), at("out"), several(false));
    return done.ok() ? Status{} : Status(done.error());
  };
  const auto there = convert(disk_, at("hf"), at("tf"), {});
  ASSERT_TRUE(there.ok()) << there.error().message();
  const auto undisturbed = copy_of(disk_);
  const Status first = act(*undisturbed);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_GT(at_every_call(disk_, {}, output(*undisturbed), act), 50u);
}

}  // namespace
}  // namespace tandem
