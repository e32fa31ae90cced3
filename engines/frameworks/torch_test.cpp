#include "engines/frameworks/testing.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

const std::string kExamples = TANDEM_SOURCE_DIR "/examples/";

/// The largest difference of two engines' logits on real tokens, over 8 and 300 tokens with one padded row.
float largest_difference(Engine& a, Engine& b) {
  float worst = 0;
  for (const int32_t tokens : {8, 300}) {
    std::vector<int32_t> ids, mask, positions;
    for (int32_t i = 0; i < tokens; ++i) {
      ids.push_back((i * 977 + 5) % 4096);
      mask.push_back(i >= 2);
      positions.push_back(std::max(0, i - 2));
    }
    const Shape shape{1, static_cast<uint64_t>(tokens)};
    const HostTensors inputs{{"input_ids", i32_tensor(shape, ids)},
                             {"attention_mask", i32_tensor(shape, mask)},
                             {"position_ids", i32_tensor(shape, positions)}};
    const auto left = a.run("logits", inputs, {"logits"}), right = b.run("logits", inputs, {"logits"});
    EXPECT_TRUE(left.ok()) << left.error().message();
    EXPECT_TRUE(right.ok()) << right.error().message();
    if (!left.ok() || !right.ok()) return 1e30f;
    const auto x = floats(left.value().at("logits")), y = floats(right.value().at("logits"));
    EXPECT_EQ(x.size(), tokens * 4096u);
    worst = std::max(worst, max_difference(std::span(x).subspan(2 * 4096), std::span(y).subspan(2 * 4096)));
  }
  return worst;
}

// Logits reach 15: float32 rounding alone leaves about 1e-5 after five layers, on either side (the float64
// run says so).
constexpr float kRounding = 3e-5f;

TEST(Torch, AgreesWithTransformersOnTheEmbeddedExamples) {
  for (const char* example : {"tiny-deepseek-v3", "tiny-deepseek-v3-fp8"}) {
    const auto torch = started(EngineKind::torch, kExamples + example, {.threads = 1});
    const auto hf = started(EngineKind::hf, kExamples + example, {.threads = 1});
    ASSERT_TRUE(torch && hf);
    EXPECT_EQ(torch->info().at("engine"), "torch");
    EXPECT_LT(largest_difference(*torch, *hf), kRounding) << example;
  }
}

TEST(Torch, Float64ModeReturnsFloat64AndIsCloseToFloat32) {
  const auto narrow = started(EngineKind::torch, kExamples + "tiny-deepseek-v3", {.threads = 1});
  const auto wide =
      started(EngineKind::torch, kExamples + "tiny-deepseek-v3", {.threads = 1, .dtype = "float64"});
  ASSERT_TRUE(narrow && wide);
  const auto a = narrow->run("logits", one_row({5, 6, 7})), b = wide->run("logits", one_row({5, 6, 7}));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(b.value().at("logits").dtype, DType::f64);
  std::vector<double> doubles(b.value().at("logits").data.size() / sizeof(double));
  memcpy(doubles.data(), b.value().at("logits").data.data(), b.value().at("logits").data.size());
  const float difference =
      max_difference(floats(a.value().at("logits")), std::vector<float>(doubles.begin(), doubles.end()));
  EXPECT_LT(difference, kRounding);
  EXPECT_GT(difference, 0);
}

TEST(Torch, TapsHaveTheValuesOfTransformersModules) {
  const auto torch = started(EngineKind::torch, kExamples + "tiny-deepseek-v3", {.threads = 1});
  const auto hf = started(EngineKind::hf, kExamples + "tiny-deepseek-v3", {.threads = 1});
  ASSERT_TRUE(torch && hf);
  const auto ours = torch->run("taps", one_row({5, 6, 7, 8})),
             theirs = hf->run("taps", one_row({5, 6, 7, 8}));
  ASSERT_TRUE(ours.ok() && theirs.ok());
  EXPECT_GT(ours.value().size(), 70u);
  for (const auto& [name, tensor] : ours.value()) {
    ASSERT_TRUE(theirs.value().contains(name)) << name;
    const HostTensor& other = theirs.value().at(name);
    ASSERT_EQ(other.shape, tensor.shape) << name;
    ASSERT_EQ(other.dtype, tensor.dtype) << name;
    if (tensor.dtype == DType::f32)
      EXPECT_LT(max_difference(floats(tensor), floats(other)), kRounding) << name;
    else
      EXPECT_EQ(tensor.data, other.data) << name;  // the chosen experts, best first
  }
}

TEST(Torch, ForcedExpertsAreTaken) {
  const auto torch = started(EngineKind::torch, kExamples + "tiny-deepseek-v3", {.threads = 1});
  const auto hf = started(EngineKind::hf, kExamples + "tiny-deepseek-v3", {.threads = 1});
  ASSERT_TRUE(torch && hf);
  HostTensors inputs = one_row({5, 6, 7, 8});
  const auto golden = hf->run("logits", inputs, {"logits", "experts"});
  ASSERT_TRUE(golden.ok());
  inputs["forced_experts"] = golden.value().at("experts");
  const auto same = torch->run("logits_forced", inputs);
  ASSERT_TRUE(same.ok()) << same.error().message();
  EXPECT_LT(max_difference(floats(same.value().at("logits")), floats(golden.value().at("logits"))),
            kRounding);

  std::vector<int32_t> others(inputs["forced_experts"].data.size() / sizeof(int32_t));
  for (size_t i = 0; i < others.size(); ++i) others[i] = static_cast<int32_t>(i % 6);
  inputs["forced_experts"] = i32_tensor({1, 3, 4, 6}, others);
  const auto different = torch->run("logits_forced", inputs);
  ASSERT_TRUE(different.ok());
  EXPECT_GT(max_difference(floats(different.value().at("logits")), floats(golden.value().at("logits"))),
            0.01);

  others[0] = 24;
  inputs["forced_experts"] = i32_tensor({1, 3, 4, 6}, others);
  EXPECT_THAT(torch->run("logits_forced", inputs).error().text,
              HasSubstr("forced expert 24 is not one of 24"));
}

TEST(Torch, BadRequestsAreNamed) {
  const auto torch = started(EngineKind::torch, kExamples + "tiny-deepseek-v3", {.threads = 1});
  ASSERT_TRUE(torch);
  HostTensors inputs = one_row({5, 6, 7});
  inputs["input_ids"] = {DType::i64, {1, 3}, std::vector<std::byte>(24)};
  EXPECT_THAT(torch->run("logits", inputs).error().text, HasSubstr("input 'input_ids' is Long of rank 2"));
  EXPECT_THAT(torch->run("generate", inputs).error().text, HasSubstr("no entry 'generate'"));
  EXPECT_THAT(torch->run("logits", one_row({5}), {"loss"}).error().text, HasSubstr("no output 'loss'"));
  EXPECT_THAT(torch->run("logits", one_row({4096})).error().text, HasSubstr("out of range"));
  EXPECT_TRUE(torch->run("logits", one_row({5})).ok());
}

TEST(Torch, StreamedResultsAreTheSameBits) {
  for (const char* dtype : {"float32", "float64"}) {
    const auto whole =
        started(EngineKind::torch, kExamples + "tiny-deepseek-v3", {.threads = 1, .dtype = dtype});
    const auto stream = started(EngineKind::torch, kExamples + "tiny-deepseek-v3",
                                {.threads = 1, .dtype = dtype, .stream = true});
    ASSERT_TRUE(whole && stream);
    EXPECT_EQ(stream->info().at("stream"), "1");
    EXPECT_FALSE(whole->info().contains("stream"));
    const auto a = whole->run("taps", one_row({5, 6, 7, 8})), b = stream->run("taps", one_row({5, 6, 7, 8}));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_GT(a.value().size(), 70u);
    for (const auto& [name, tensor] : a.value()) EXPECT_EQ(tensor.data, b.value().at(name).data) << name;
  }
}

TEST(Torch, FolderWithoutAModel) {
  const auto engine = Engine::start(EngineKind::torch, TANDEM_SOURCE_DIR "/docs");
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().text, HasSubstr("has neither saved_model.pb nor config.json"));
}

}  // namespace
}  // namespace tandem
