#include "engines/frameworks/testing.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

const std::string kExample = TANDEM_SOURCE_DIR "/examples/tiny-deepseek-v3";

class HfEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = started(EngineKind::hf, kExample, {.threads = 1}).release(); }
  static void TearDownTestSuite() { delete engine_; }
  void SetUp() override { ASSERT_NE(engine_, nullptr); }
  static Engine* engine_;
};
Engine* HfEngine::engine_ = nullptr;

TEST_F(HfEngine, SaysWhatItIs) {
  EXPECT_EQ(engine_->info().at("engine"), "transformers");
  EXPECT_EQ(engine_->info().at("architecture"), "DeepseekV3ForCausalLM");
  EXPECT_EQ(engine_->info().at("path"), kExample);
  EXPECT_FALSE(engine_->info().at("version").empty());
}

TEST_F(HfEngine, LogitsWithTheExpertsThatWereChosenAndByHowMuch) {
  const auto result = engine_->run("logits", one_row({5, 6, 7, 8}), {"logits", "experts", "router_margin"});
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result.value().at("logits").shape, (Shape{1, 4, 4096}));
  EXPECT_EQ(result.value().at("experts").shape, (Shape{1, 3, 4, 6}));  // [batch, moe_layers, tokens, top_k]
  EXPECT_EQ(result.value().at("experts").dtype, DType::i32);
  EXPECT_EQ(result.value().at("router_margin").shape, (Shape{1, 3, 4}));
  for (const float margin : floats(result.value().at("router_margin"))) {
    EXPECT_GT(margin, 0);
    EXPECT_LT(margin, 1);
  }
}

TEST_F(HfEngine, PaddingOnTheLeftChangesNothing) {
  const auto plain = engine_->run("logits", one_row({5, 6, 7}));
  const Shape shape{1, 5};
  const auto padded = engine_->run("logits", {{"input_ids", i32_tensor(shape, {0, 0, 5, 6, 7})},
                                              {"attention_mask", i32_tensor(shape, {0, 0, 1, 1, 1})},
                                              {"position_ids", i32_tensor(shape, {0, 0, 0, 1, 2})}});
  ASSERT_TRUE(plain.ok() && padded.ok());
  const auto shifted = floats(padded.value().at("logits"));
  EXPECT_LT(max_difference(floats(plain.value().at("logits")), std::span(shifted).subspan(2 * 4096)), 1e-4);
}

TEST_F(HfEngine, TextBecomesIds) {
  const std::string text = "def f(x):\n    return x + 1  # größer\n";
  const auto ids = engine_->encode(text);
  ASSERT_TRUE(ids.ok()) << ids.error().message();
  EXPECT_GT(ids.value().size(), 5u);
  EXPECT_TRUE(engine_->encode("").value().empty());
  EXPECT_THAT(engine_->encode("\xff").error().text, HasSubstr("the text is not UTF-8"));
}

TEST_F(HfEngine, LastLogitsAreThoseOfTheLastToken) {
  const auto all = engine_->run("logits", one_row({5, 6, 7}), {"logits"});
  const auto last = engine_->last_logits(one_row({5, 6, 7}));
  ASSERT_TRUE(all.ok() && last.ok());
  EXPECT_EQ(last.value().at("logits").shape, (Shape{1, 1, 4096}));
  const auto whole = floats(all.value().at("logits"));
  EXPECT_EQ(floats(last.value().at("logits")), std::vector<float>(whole.end() - 4096, whole.end()));
}

TEST_F(HfEngine, TapsGoByModulePath) {
  const auto result = engine_->run("taps", one_row({5, 6, 7}),
                                   {"model.layers.3.self_attn.kv_a_layernorm", "model.layers.2.mlp.experts"});
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result.value().at("model.layers.3.self_attn.kv_a_layernorm").shape, (Shape{1, 3, 72}));
  EXPECT_EQ(result.value().at("model.layers.2.mlp.experts").shape, (Shape{1, 3, 160}));
}

TEST_F(HfEngine, BadInputsAreNamed) {
  HostTensors inputs = one_row({5, 6, 7});
  inputs["attention_mask"] = {DType::i64, {1, 3}, std::vector<std::byte>(24)};
  EXPECT_EQ(engine_->run("logits", inputs).error().text,
            "input 'attention_mask' is int64[1, 3], expected int32[1, 3] of rank 2");
  EXPECT_EQ(engine_->run("logits", one_row({5, 4096})).error().text, "a token id is not in [0, 4096)");
  EXPECT_EQ(engine_->run("generate", one_row({5})).error().text,
            "no entry 'generate'; there are logits and taps");
  EXPECT_EQ(engine_->run("logits", one_row({5}), {"loss"}).error().text, "no output 'loss'");
}

TEST(Hf, Fp8IsDequantisedByRule) {
  const auto full = started(EngineKind::hf, kExample, {.threads = 1});
  const auto fp8 =
      started(EngineKind::hf, TANDEM_SOURCE_DIR "/examples/tiny-deepseek-v3-fp8", {.threads = 1});
  ASSERT_TRUE(full && fp8);
  const auto a = full->run("logits", one_row({5, 6, 7})), b = fp8->run("logits", one_row({5, 6, 7}));
  ASSERT_TRUE(a.ok() && b.ok());
  const float difference = max_difference(floats(a.value().at("logits")), floats(b.value().at("logits")));
  EXPECT_GT(difference, 1e-3);  // really from other codes
  EXPECT_LT(difference, 1.5);   // of logits up to 15: e4m3 keeps 3 bits of mantissa
}

TEST(Hf, StreamedResultsAreTheSameBits) {
  for (const char* example : {"tiny-deepseek-v3", "tiny-deepseek-v3-fp8"}) {
    const std::string folder = std::string(TANDEM_SOURCE_DIR "/examples/") + example;
    const auto whole = started(EngineKind::hf, folder, {.threads = 1});
    const auto stream = started(EngineKind::hf, folder, {.threads = 1, .stream = true});
    ASSERT_TRUE(whole && stream);
    for (const std::vector<std::string>& outputs :
         {std::vector<std::string>{}, std::vector<std::string>{"logits", "experts", "router_margin"}}) {
      const std::string entry = outputs.empty() ? "taps" : "logits";
      const auto a = whole->run(entry, one_row({5, 6, 7, 8}), outputs);
      const auto b = stream->run(entry, one_row({5, 6, 7, 8}), outputs);
      ASSERT_TRUE(a.ok() && b.ok());
      EXPECT_EQ(a.value().size(), b.value().size());
      for (const auto& [name, tensor] : a.value()) EXPECT_EQ(tensor.data, b.value().at(name).data) << name;
    }
  }
}

TEST(Hf, MissingTransformersIsOneClearLine) {
  const ScopedVariable python("TANDEM_PYTHON", "/usr/bin/python3");
  const auto engine = Engine::start(EngineKind::hf, kExample);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(engine.error().message(), HasSubstr("`make venv` installs"));
}

}  // namespace
}  // namespace tandem
