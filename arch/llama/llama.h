#pragma once
// model_type llama: deepseek-llm, deepseek-coder, R1-Distill-Llama, SmolLM2, Llama 2 and 3.
// Source: transformers models/llama/modeling_llama.py.

#include "arch/architecture.h"

namespace tandem {

/// Errors: C1 with every config problem at once.
Result<Model> make_llama(const Json& config, const ArchOptions& options);

}  // namespace tandem
