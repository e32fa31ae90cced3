#pragma once
// model_type deepseek_v3: DeepSeek-V3, V3-0324, V3.1, R1. Multi-head latent attention, first layers dense,
// then a mixture of experts with sigmoid noaux_tc routing; multi-token-prediction layers are carried, or the
// first of them drafts. Source: transformers models/deepseek_v3/modeling_deepseek_v3.py;
// deepseek-ai/DeepSeek-V3 README_WEIGHTS.md.

#include "arch/architecture.h"

namespace tandem {

/// Errors: C1 with every config problem at once.
Result<Model> make_deepseek_v3(const Json& config, const ArchOptions& options);

}  // namespace tandem
