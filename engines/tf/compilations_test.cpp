#include "engines/tf/compilations.h"

#include <gtest/gtest.h>

#include "arch/architecture.h"
#include "lower/tf/lower_tf.h"

namespace tandem {
namespace {

tensorflow::MetaGraphDef lowered(const Json& config, DType storage = DType::f32,
                                 DType matmul_precision = DType::f32) {
  const Model model = make_model(config).value();
  const Contract contract =
      model.contract(model.rules, DType::f32, [&](const std::string&) { return storage; }).value();
  const auto spec =
      lower_to_tensorflow(contract, expand(model.rules), {.matmul_precision = matmul_precision});
  return assemble(spec.value()).value().meta_graphs(0);
}

const Json kLlama{{"model_type", "llama"},       {"vocab_size", 11},        {"hidden_size", 8},
                  {"num_hidden_layers", 3},      {"intermediate_size", 12}, {"num_attention_heads", 4},
                  {"num_key_value_heads", 2},    {"attention_bias", false}, {"max_position_embeddings", 64},
                  {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6}};

TEST(Compilations, OneForAllLayersOfAKindAndEachNewShape) {
  Compilations compilations(lowered(kLlama));
  compilations.ran("prefill_xla", {{1, 64}});
  EXPECT_EQ(compilations.count(), 1u);
  compilations.ran("prefill_xla", {{1, 64}});
  EXPECT_EQ(compilations.count(), 1u);
  compilations.ran("prefill_xla", {{2, 64}});
  compilations.ran("decode_xla", {{1, 64}});
  EXPECT_EQ(compilations.count(), 3u);
}

TEST(Compilations, AHeadOfItsOwnIsCompiledOnceForABatch) {
  Compilations compilations(lowered(kLlama, DType::bf16, DType::bf16));
  compilations.ran("prefill_xla", {{1, 64}});
  EXPECT_EQ(compilations.count(), 1u);
  compilations.ran("decode_xla", {{1, 96}, {1, 1}});
  EXPECT_EQ(compilations.count(), 3u);
  compilations.ran("decode_xla", {{1, 128}, {1, 1}});
  EXPECT_EQ(compilations.count(), 4u);
  compilations.ran("decode_xla", {{2, 128}, {2, 1}});
  EXPECT_EQ(compilations.count(), 6u);
}

TEST(Compilations, WhatIsNotMarkedIsNotCompiled) {
  Compilations compilations(lowered(kLlama));
  for (const char* signature : {"prefill", "decode", "generate", "serving_default", "nobody"})
    compilations.ran(signature, {{1, 64}});
  EXPECT_EQ(compilations.count(), 0u);
}

}  // namespace
}  // namespace tandem
