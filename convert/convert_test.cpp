#include "convert/convert.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <cstring>

#include "base/fault_files.h"
#include "convert/testing.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Convert = ModelsOnDisk;

Result<ConvertReport> convert(const std::string& from, const std::string& to,
                              const ConvertOptions& options = {}) {
  return tandem::convert(real_files(), from, to, options);
}

TEST_F(Convert, ThereAndBackGivesTheSameBytesConfigAndSideFiles) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  const auto there = convert(at("hf"), at("sm"));
  ASSERT_TRUE(there.ok()) << there.error().message();
  const auto back = convert(at("sm"), at("back"));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(contents_of(at("back")), contents_of(at("hf")));
  for (const char* name : {"config.json", "tokenizer.json"})
    EXPECT_EQ(read_text(real_files(), at("back/") + name).value(),
              read_text(real_files(), at("hf/") + name).value());
  EXPECT_THAT(names(), ElementsAre("back", "hf", "sm"));
}

TEST_F(Convert, TheReportHasTheHashOfEveryTensor) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  const auto there = convert(at("hf"), at("sm"));
  ASSERT_TRUE(there.ok());
  const Contents written = contents_of(at("sm"));
  EXPECT_EQ(there.value().tensors.size(), 21u);
  for (const ConvertedTensor& tensor : there.value().tensors)
    EXPECT_THAT(written.at(tensor.name), HasSubstr(fmt::format("crc32c {:08x}", tensor.crc32c)))
        << tensor.name;
}

TEST_F(Convert, ACheckpointIsReadBackFromItsFolder) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ConvertOptions to_checkpoint;
  to_checkpoint.to = ConvertTarget::checkpoint;
  ASSERT_TRUE(convert(at("hf"), at("ckpt"), to_checkpoint).ok());
  const auto back = convert(at("ckpt"), at("back"));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(contents_of(at("back")), contents_of(at("hf")));
}

TEST_F(Convert, D11AnotherDtypeIsSaidAndStandsInTheConfig) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ConvertOptions wide;
  wide.dtype = DType::f32;
  ASSERT_TRUE(convert(at("hf"), at("sm"), wide).ok());
  const auto back = convert(at("sm"), at("back"));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_THAT(back.value().remarks, Contains(HasSubstr("torch_dtype is now float32")));
  EXPECT_THAT(read_text(real_files(), at("back/config.json")).value(),
              HasSubstr("\"torch_dtype\": \"float32\""));
  ConvertOptions like;
  like.like = at("hf");
  ASSERT_TRUE(convert(at("sm"), at("again"), like).ok());
  EXPECT_EQ(contents_of(at("again")), contents_of(at("hf")));
}

// With more than one thread the graph is made beside the weights.
TEST_F(Convert, OneThreadAndTwoWriteTheSameFiles) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  for (const std::optional<uint64_t> stages : {std::optional<uint64_t>(), std::optional<uint64_t>(2)}) {
    for (const unsigned threads : {1u, 2u}) {
      ConvertOptions options;
      options.stages = stages;
      options.threads = threads;
      options.force = true;
      const auto made = convert(at("hf"), at(fmt::format("threads{}", threads)), options);
      ASSERT_TRUE(made.ok()) << made.error().message();
    }
    EXPECT_EQ(files_of(at("threads1")), files_of(at("threads2")));
    EXPECT_TRUE(files_of(at("threads1")).contains(stages ? "stage-1-of-2/saved_model.pb" : "saved_model.pb"));
  }
}

/// Large enough for its transposed tensors to be read through windows.
Json wide_llama() {
  Json config = tiny_llama();
  config["vocab_size"] = 1300;
  config["hidden_size"] = 512;
  config["intermediate_size"] = 1200;
  config["num_attention_heads"] = 128;
  return config;
}

TEST_F(Convert, AWideModelGoesThereAndBackAndNoReadFailsUnseen) {
  write_folder(at("hf"), wide_llama(), weights_for(wide_llama()));
  ASSERT_TRUE(convert(at("hf"), at("sm")).ok());
  ASSERT_TRUE(convert(at("sm"), at("back")).ok());
  EXPECT_EQ(contents_of(at("back")), contents_of(at("hf")));
  for (const auto& [from, to] : {std::pair{"hf", "sm2"}, std::pair{"sm", "back2"}})
    for (uint64_t k = 1;; ++k) {
      FaultyFiles faulty;
      faulty.fail(FileCall::read, k, EIO);
      const auto failed = tandem::convert(faulty, at(from), at(to), {});
      if (faulty.count(FileCall::read) < k) break;  // there is no k-th call
      ASSERT_FALSE(failed.ok()) << to << ", read " << k;
      EXPECT_EQ(failed.error().kind, ErrorKind::io) << failed.error().message();
      EXPECT_EQ(real_files().kind(at(to)).value(), PathKind::absent);
    }
  EXPECT_EQ(files_of(at("sm2")), files_of(at("sm")));
  EXPECT_EQ(files_of(at("back2")), files_of(at("back")));
}

TEST_F(Convert, ASourceThatIsCutOffMeanwhileIsRefusedWithNothingLeft) {
  write_folder(at("hf"), wide_llama(), weights_for(wide_llama()));
  const std::string weights = at("hf/model.safetensors");
  ConvertOptions options;
  options.progress = [&](uint64_t done, uint64_t) -> Status {
    if (done > 0) std::filesystem::resize_file(weights, 2'000'000);
    return {};
  };
  const auto failed = convert(at("hf"), at("out"), options);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(exit_code(failed.error().kind), 65);
  EXPECT_THAT(failed.error().message(), HasSubstr("the file ends at byte 2000000"));
  EXPECT_THAT(names(), ElementsAre("hf"));
}

TEST_F(Convert, C1AllProblemsInOneReportAndNothingWritten) {
  MemorySource weights =
      weights_for(tiny_llama(), {"model.norm.weight", "model.layers.0.mlp.up_proj.weight"});
  weights.add({"model.layers.0.mlp.up_proj.weight", DType::bf16, {16, 24}}, std::vector<std::byte>(768));
  weights.add({"odd.weight", DType::bf16, {1}}, std::vector<std::byte>(2));
  write_folder(at("hf"), tiny_llama(), weights);
  const auto failed = convert(at("hf"), at("sm"));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(exit_code(failed.error().kind), 65);
  EXPECT_THAT(failed.error().text, HasSubstr("3 problems"));
  for (const char* line : {"missing: model.norm.weight", "unexpected: odd.weight",
                           "model.layers.0.mlp.up_proj.weight: shape [16, 24], expected [24, 16]"})
    EXPECT_THAT(failed.error().text, HasSubstr(line));
  EXPECT_THAT(names(), ElementsAre("hf"));
}

TEST_F(Convert, N22AMissingHeadIsTiedOnlyWhenAskedForAndThatIsRecorded) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama(), {"lm_head.weight"}));
  const auto failed = convert(at("hf"), at("sm"));
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message(), HasSubstr("missing: lm_head.weight"));
  EXPECT_THAT(failed.error().hint, HasSubstr("--allow-tied-head"));
  ConvertOptions tied;
  tied.allow_tied_head = true;
  const auto there = convert(at("hf"), at("sm"), tied);
  ASSERT_TRUE(there.ok()) << there.error().message();
  EXPECT_THAT(there.value().remarks, Contains(HasSubstr("tied to the embedding")));
  ASSERT_TRUE(convert(at("sm"), at("back")).ok());
  EXPECT_THAT(read_text(real_files(), at("back/config.json")).value(),
              HasSubstr("\"tie_word_embeddings\": true"));
}

TEST_F(Convert, N20ATiedTensorComesBackUnderTheNameThatItHad) {
  Json config = tiny_llama();
  config["tie_word_embeddings"] = true;
  for (const std::string kept : {"model.embed_tokens.weight", "lm_head.weight"}) {
    MemorySource weights = weights_for(config, {"model.embed_tokens.weight"});
    const TensorInfo info{kept, DType::bf16, {32, 16}};
    weights.add(info, bf16_values(info));
    const std::string source = at("hf-" + kept), model = at("sm-" + kept), back = at("back-" + kept);
    write_folder(source, config, weights);
    const auto there = convert(source, model);
    ASSERT_TRUE(there.ok()) << there.error().message();
    EXPECT_THAT(contents_of(model), Not(Contains(testing::Key(HasSubstr("lm_head")))));
    ASSERT_TRUE(convert(model, back).ok());
    EXPECT_EQ(contents_of(back), contents_of(source));
  }
}

TEST_F(Convert, N09StoredFrequenciesAreLeftOutAndCheckedAgainstTheConfig) {
  const auto source_with = [&](const std::string& name, float first, float second) {
    MemorySource weights = weights_for(tiny_llama());
    std::vector<std::byte> data(8);
    std::memcpy(data.data(), &first, 4);
    std::memcpy(data.data() + 4, &second, 4);
    weights.add({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {2}}, data);
    write_folder(at(name), tiny_llama(), weights);
  };
  source_with("good", 1, 0.01f);
  source_with("doubled", 2, 0.02f);
  write_folder(at("without"), tiny_llama(), weights_for(tiny_llama()));
  ASSERT_TRUE(convert(at("without"), at("sm")).ok());
  const auto good = convert(at("good"), at("sm-good"));
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_EQ(contents_of(at("sm-good")), contents_of(at("sm")));
  EXPECT_THAT(good.value().remarks, Not(Contains(HasSubstr("disagree"))));
  EXPECT_THAT(convert(at("doubled"), at("sm-doubled")).value().remarks,
              Contains(HasSubstr(
                  "inv_freq: the stored frequencies disagree with the config (first: 2, expected 1)")));
  ConvertOptions strict;
  strict.strict = true;
  EXPECT_EQ(convert(at("doubled"), at("sm-strict"), strict).error().rule, "convert_c6");
}

TEST_F(Convert, D04OverflowInFloat16IsRefusedByTensorAndCount) {
  MemorySource weights = weights_for(tiny_llama(), {"model.norm.weight"});
  const uint16_t big = 0x4789, one = 0x3f80;  // 70144 and 1
  std::vector<std::byte> data(32);
  for (size_t i = 0; i < 16; ++i) std::memcpy(&data[2 * i], i < 2 ? &big : &one, 2);
  weights.add({"model.norm.weight", DType::bf16, {16}}, data);
  write_folder(at("hf"), tiny_llama(), weights);
  ConvertOptions half;
  half.dtype = DType::f16;
  const auto failed = convert(at("hf"), at("sm"), half);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().text, HasSubstr("model/norm/weight: 2 finite values do not fit float16"));
  EXPECT_THAT(names(), ElementsAre("hf"));
}

TEST_F(Convert, AnExistingOutputNeedsForce) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ASSERT_TRUE(convert(at("hf"), at("sm")).ok());
  EXPECT_EQ(convert(at("hf"), at("sm")).error().kind, ErrorKind::exists);
  ConvertOptions force;
  force.force = true;
  EXPECT_TRUE(convert(at("hf"), at("sm"), force).ok());
}

TEST_F(Convert, ForceTakesNoInputAndNothingThatIsNoModel) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ASSERT_TRUE(convert(at("hf"), at("sm")).ok());
  std::filesystem::create_directories(at("parent"));
  std::filesystem::rename(at("hf"), at("parent/hf"));
  std::filesystem::create_directory_symlink(at("parent/hf"), at("link"));
  ASSERT_TRUE(write_text(real_files(), at("parent/note"), "dear").ok());
  const Contents model = contents_of(at("parent/hf")), saved = contents_of(at("sm"));
  ConvertOptions force;
  force.force = true;
  for (const char* input : {"parent", "parent/hf", "parent/hf/", "parent/../parent/hf", "link"}) {
    const auto failed = convert(at("parent/hf"), at(input), force);
    ASSERT_FALSE(failed.ok()) << input;
    EXPECT_EQ(failed.error().rule, "convert_c4") << input;
  }
  EXPECT_EQ(convert(at("link"), at("parent/hf"), force).error().rule, "convert_c4");
  EXPECT_EQ(convert(at("parent/hf"), at("parent/note"), force).error().rule, "convert_c7");
  std::filesystem::create_directories(at("home"));
  ASSERT_TRUE(write_text(real_files(), at("home/note"), "dear").ok());
  const auto failed = convert(at("parent/hf"), at("home"), force);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().rule, "convert_c7");
  EXPECT_EQ(exit_code(failed.error().kind), 73);
  ConvertOptions like = force;
  like.like = at("parent/hf");
  EXPECT_EQ(convert(at("sm"), at("parent"), like).error().rule, "convert_c4");
  EXPECT_EQ(contents_of(at("parent/hf")), model);
  EXPECT_EQ(contents_of(at("sm")), saved);
  EXPECT_EQ(read_text(real_files(), at("home/note")).value(), "dear");
  std::filesystem::create_directories(at("empty"));
  EXPECT_TRUE(convert(at("parent/hf"), at("empty"), force).ok());
  EXPECT_TRUE(convert(at("parent/hf"), at("parent/hf/tf")).ok());
  EXPECT_TRUE(convert(at("parent/hf"), at("parent/hf/tf"), force).ok());
}

TEST_F(Convert, ARecordAndAConfigThatWereEditedApartAreRefused) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  const auto edited = [&](const std::string& file, const std::string& from, const std::string& to) {
    ConvertOptions again;
    again.force = true;
    EXPECT_TRUE(convert(at("hf"), at("sm"), again).ok());
    const std::string path = at("sm/assets/" + file);
    std::string text = read_text(real_files(), path).value();
    for (size_t found = text.find(from); found != text.npos; found = text.find(from, found + to.size()))
      text.replace(found, from.size(), to);
    EXPECT_TRUE(write_text(real_files(), path, text).ok());
    return convert(at("sm"), at("back"));
  };
  const auto renamed = edited("tandem_rules.json", "self_attn.o_proj.weight", "self_attn.zz_proj.weight");
  ASSERT_FALSE(renamed.ok());
  EXPECT_EQ(renamed.error().rule, "convert_c1");
  EXPECT_THAT(renamed.error().text, HasSubstr("unexpected: model.layers.0.self_attn.zz_proj.weight"));
  const auto deeper = edited("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  ASSERT_FALSE(deeper.ok());
  EXPECT_THAT(deeper.error().text, HasSubstr("missing: model.layers.2."));
  EXPECT_TRUE(edited("config.json", "no such text", "").ok());
}

TEST_F(Convert, OptionsThatDoNotFitTheDirectionAreUsageErrors) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ConvertOptions options;
  options.to = ConvertTarget::safetensors;
  EXPECT_EQ(convert(at("hf"), at("out"), options).error().kind, ErrorKind::usage);
  options = {};
  options.like = at("hf");
  EXPECT_EQ(convert(at("hf"), at("out"), options).error().kind, ErrorKind::usage);
  EXPECT_EQ(convert(at("nowhere"), at("out")).error().kind, ErrorKind::missing);
}

// 21 tensors in several files. A call that fails is never silent: the old output stays, and the same command
// then goes on to the bytes of an undisturbed run.
TEST_F(Convert, F1F2AFaultAtAnyCallLeavesTheOldOutputAndAWayOn) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ConvertOptions force;
  force.force = true;
  force.max_shard_bytes = 3000;
  ASSERT_TRUE(convert(at("hf"), at("tf"), force).ok());
  const Contents tf = files_of(at("tf"));
  ASSERT_TRUE(convert(at("tf"), at("back"), force).ok());
  const Contents back = files_of(at("back"));
  EXPECT_GT(back.size(), 4u);
  for (const auto& [from, to, whole] : {std::tuple{"hf", "tf", tf}, std::tuple{"tf", "back", back}})
    for (const FileCall call :
         {FileCall::open, FileCall::create, FileCall::read, FileCall::write, FileCall::close,
          FileCall::make_directories, FileCall::rename, FileCall::sync})
      for (uint64_t k = 1;; ++k) {
        const std::string place = fmt::format("to {}, call {}, {}", to, static_cast<int>(call), k);
        FaultyFiles faulty;
        faulty.fail(call, k, call == FileCall::read ? EIO : ENOSPC);
        const auto failed = tandem::convert(faulty, at(from), at(to), force);
        EXPECT_EQ(files_of(at(to)), whole) << place;
        if (faulty.count(call) < k) break;  // there is no k-th call
        EXPECT_FALSE(failed.ok()) << place;
        if (!failed.ok()) {
          EXPECT_EQ(failed.error().kind, ErrorKind::io) << place << failed.error().message();
        }
        const bool left =
            real_files().kind(at(fmt::format(".{}.tandem-work", to))).value() != PathKind::absent;
        if (!left) continue;
        ASSERT_TRUE(convert(at(from), at(to), force).ok()) << place;
        EXPECT_EQ(files_of(at(to)), whole) << place;
        EXPECT_EQ(real_files().kind(at(fmt::format(".{}.tandem-work", to))).value(), PathKind::absent)
            << place;
      }
}

TEST_F(Convert, AnErrorOfProgressStopsItWithNothingLeft) {
  write_folder(at("hf"), tiny_llama(), weights_for(tiny_llama()));
  ConvertOptions options;
  options.progress = [](uint64_t done, uint64_t) -> Status {
    return done > 1000 ? Status{unavailable("", "stopped")} : Status{};
  };
  EXPECT_EQ(convert(at("hf"), at("out"), options).error().text, "stopped");
  EXPECT_THAT(names(), ElementsAre("hf"));
}

}  // namespace
}  // namespace tandem
