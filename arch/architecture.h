#pragma once
// The one list of architectures. An architecture turns config.json into rules (names and layout of all
// weights) and a contract (what is computed); it knows no file format and no framework.

#include <functional>
#include <set>
#include <span>

#include "base/json.h"
#include "contract/graph.h"
#include "rules/rules.h"

namespace tandem {

struct ArchOptions {
  std::set<std::string> accepted_keys;  ///< config keys that the user accepts though nobody reads them
  bool with_mtp = false;  ///< the first layer of multi-token prediction is run, not carried: see `draft`
};

/// A configured model.
struct Model {
  std::string architecture;  ///< "llama"
  RuleTable rules;           ///< the default layout
  uint64_t vocab_size = 0;
  uint64_t hidden_size = 0;
  uint64_t num_hidden_layers = 0;
  uint64_t moe_layers = 0;  ///< layers with a router, in order; 0 for a dense model
  uint64_t num_experts_per_tok = 0;
  uint64_t max_position_embeddings = 0;
  std::vector<uint64_t> scaling_boundaries;  ///< positions where the rotary scaling changes behaviour
  uint64_t parameters = 0;  ///< of the model that is run (tied weights once, what is carried not counted)
  uint64_t active_parameters = 0;   ///< used for one token
  uint64_t carried_parameters = 0;  ///< carried but not run (MTP)
  DType dtype = DType::f32;         ///< the config's torch_dtype / dtype
  bool dynamic_rope = false;        ///< frequencies depend on the longest position of the call
  std::vector<int64_t> eos_token_ids;
  /// The contract for a layout (`rules`, or an edited copy) and an arithmetic type. `storage` gives each
  /// TensorFlow tensor's dtype by its TensorFlow name. Entries: logits (input_ids, attention_mask,
  /// position_ids), and for mixtures logits_forced; draft where the layout's rows put a layer of multi-token
  /// prediction into the graph (contract/cached.h says what is made of it).
  std::function<Result<Contract>(const RuleTable& layout, DType compute,
                                 const std::function<DType(const std::string&)>& storage)>
      contract;
};

struct ArchitectureRow {
  std::string_view model_type;
  Result<Model> (*make)(const Json& config, const ArchOptions& options);
};
std::span<const ArchitectureRow> architectures();

/// Finds the row by config.model_type. Errors: arch_c1 no model_type, arch_c2 unknown (the known ones are
/// listed), then the row's own.
Result<Model> make_model(const Json& config, const ArchOptions& options = {});

}  // namespace tandem
