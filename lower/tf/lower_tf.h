#pragma once
// Contract to TensorFlow: the library functions, signatures and variables of a SavedModel. Knows no files and
// no weights.

#include <optional>

#include "contract/stages.h"
#include "formats/saved_model/saved_model.h"
#include "rules/rules.h"

namespace tandem {

struct LowerTfOptions {
  uint64_t query_chunk =
      1024;  ///< the inference signatures compute attention for this many queries at a time
  std::vector<int64_t> eos_token_ids = {};  ///< what ends a row of generate_greedy
  bool inlined = false;  ///< serving_default stands in the main graph, so its attention is in one piece
  std::optional<LayerSpan> layers = {};  ///< these alone: one stage (contract/stages.h)
  /// bf16: where decode_xla multiplies with a kernel [out, in] that is stored as bf16, it rounds what the
  /// kernel is multiplied with to bf16 and sums in f32. All other products and signatures are as ever.
  DType matmul_precision = DType::f32;
};

/// A model that can be lowered: whatever could be refused has been.
struct Lowerable {
  Contract contract;  ///< with the entries that keep a cache; of a stage, its own part
  LowerTfOptions options;
  std::vector<SavedVariable> variables;  ///< one a weight of the contract, in its order
};

/// The cheap part of lowering, with all that can go wrong. `plans` names the TensorFlow variable of each
/// contract weight. Errors: lower_tf_c1 (unsupported) ops without a row here; lower_tf_c2 (bug) no entry
/// "logits"; lower_tf_c3 (unsupported) a weight of 2^31 elements or more.
Result<Lowerable> lowerable(const Contract& contract, const std::vector<TensorPlan>& plans,
                            const LowerTfOptions& options = {});

/// Lowers every entry and block of a checked contract. Signatures: serving_default, input_ids_only,
/// with_positions, score, taps, layer_N (and logits_forced for mixtures); prefill, decode, generate,
/// generate_greedy, next_logits, next_tokens, prefill_xla and decode_xla where the model can be cut into
/// steps (contract/cached.h); draft and generate_greedy_speculative where the contract drafts. Methods:
/// __call__ and logits (differentiable, attention unchunked). A stage has these as far as it computes them;
/// score, the loops and the method logits need the whole, input_ids_only the first layer.
SavedModelSpec lower(Lowerable model);

/// Both in one.
Result<SavedModelSpec> lower_to_tensorflow(const Contract& contract, const std::vector<TensorPlan>& plans,
                                           const LowerTfOptions& options = {});

/// Ops that have a TensorFlow lowering, for the status table.
std::vector<std::string_view> tensorflow_ops();

}  // namespace tandem
