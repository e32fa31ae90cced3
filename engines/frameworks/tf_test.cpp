#include <filesystem>

#include "engines/frameworks/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TfEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = ::testing::TempDir() + "/tandem_tf_test_model";
    const std::string command = "'" TANDEM_SOURCE_DIR "/.venv/bin/python3' '" TANDEM_SOURCE_DIR
                                "/engines/frameworks/make_saved_model.py' '" +
                                folder_ + "' 2>&1";
    ASSERT_EQ(system(command.c_str()), 0);
    engine_ = started(EngineKind::tf, folder_, {.threads = 1}).release();
  }
  static void TearDownTestSuite() {
    delete engine_;
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override { ASSERT_NE(engine_, nullptr); }
  static std::string folder_;
  static Engine* engine_;
};
std::string TfEngine::folder_;
Engine* TfEngine::engine_ = nullptr;

TEST_F(TfEngine, SaysWhatItIs) {
  EXPECT_EQ(engine_->info().at("engine"), "tensorflow");
  EXPECT_THAT(engine_->info().at("version"), HasSubstr("2."));
}

TEST_F(TfEngine, LogitsRunsTheSignatureWithPositions) {
  const auto all = engine_->run("logits", one_row({1, 2, 3}));
  ASSERT_TRUE(all.ok()) << all.error().message();
  EXPECT_EQ(all.value().at("logits").shape, (Shape{1, 3}));
  EXPECT_THAT(floats(all.value().at("logits")), ElementsAre(22, 224, 426));
  EXPECT_TRUE(all.value().contains("ids"));

  const auto one = engine_->run("with_positions", one_row({1, 2, 3}), {"logits"});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one.value().size(), 1u);
}

TEST_F(TfEngine, BatchWithoutTokens) {
  const HostTensor empty{DType::i32, {2, 0}, {}};
  const auto result =
      engine_->run("logits", {{"input_ids", empty}, {"attention_mask", empty}, {"position_ids", empty}});
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result.value().at("logits").shape, (Shape{2, 0}));
}

TEST_F(TfEngine, WrongInputsAreNamed) {
  HostTensors inputs = one_row({1, 2, 3});
  inputs["input_ids"] = {DType::i64, {1, 3}, std::vector<std::byte>(24)};
  EXPECT_EQ(engine_->run("logits", inputs).error().text,
            "input 'input_ids' is int64[1, 3], expected int32[?, ?]");
  EXPECT_EQ(engine_->run("logits", one_row({1}), {"loss"}).error().text,
            "entry 'logits' has no output 'loss'");
}

TEST_F(TfEngine, TensorFlowsOwnErrorIsOneLineAndTheWorkerLivesOn) {
  HostTensors inputs = one_row({1, 2, 3});
  inputs["attention_mask"] =
      i32_tensor({1, 2}, {1, 1});  // rank and dtype are right, the sizes do not go together
  const auto result = engine_->run("logits", inputs);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  EXPECT_THAT(result.error().text, HasSubstr("Incompatible shapes"));
  EXPECT_TRUE(engine_->run("logits", one_row({1})).ok());
}

TEST_F(TfEngine, ASavedModelOfPythonsCannotBeStreamed) {
  const auto engine = Engine::start(EngineKind::tf, folder_, {.stream = true});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(engine.error().message(), HasSubstr("do not say where their values are"));
}

TEST(Tf, FolderThatIsNoSavedModel) {
  const auto engine = Engine::start(EngineKind::tf, TANDEM_SOURCE_DIR "/docs");
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().message(), HasSubstr("SavedModel"));
}

TEST(Tf, MissingTensorFlowIsOneClearLine) {
  {
    const ScopedVariable python("TANDEM_PYTHON", "/usr/bin/python3");
    const auto engine = Engine::start(EngineKind::tf, TANDEM_SOURCE_DIR "/docs");
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(engine.error().message(),
              "engine_c1: TensorFlow is not installed, and the engine 'tf' needs it (`make venv` installs "
              "TensorFlow)");
  }
  const ScopedVariable package("TANDEM_TENSORFLOW", "/nowhere");
  const auto engine = Engine::start(EngineKind::tf, TANDEM_SOURCE_DIR "/docs");
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(engine.error().message(),
              HasSubstr("/nowhere/libtensorflow_cc.so.2: cannot open shared object file"));
}

}  // namespace
}  // namespace tandem
