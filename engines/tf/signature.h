#pragma once
// The signatures of a loaded SavedModel, as plain values.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engines/engine.h"

namespace tandem {

/// An input or output of a signature.
struct SignatureArgument {
  std::string tensor;  ///< "serving_default_input_ids:0"
  int dtype = 0;       ///< tensorflow.DataType
  bool any_rank = false;
  std::vector<int64_t> shape;  ///< -1: any size
};
struct Signature {
  std::map<std::string, SignatureArgument> inputs;
  std::map<std::string, SignatureArgument> outputs;
};
using Signatures = std::map<std::string, Signature>;

/// From a serialised MetaGraphDef. Errors: tf_c2 (corrupt) it does not parse.
Result<Signatures> signatures_of(std::span<const std::byte> meta_graph_def);

/// The signature that stands for an entry: "logits" is with_positions, any other goes by its own name.
/// Errors: tf_c3 (invalid) no such signature; those there are, are listed.
Result<const Signature*> signature_for(const Signatures& signatures, const std::string& entry);

/// Checks a run's inputs: all there, none too many, dtype, rank and fixed sizes as declared. All problems in
/// one error. Errors: tf_c4 (invalid), naming each argument.
Status check_inputs(const Signature& signature, const HostTensors& inputs);

/// The caches of a model with steps: the output of prefill and decode that each is, and the input of decode
/// that takes it. Empty unless the two signatures are those of docs/generation.md.
std::map<std::string, std::string> caches_of(const Signatures& signatures);

}  // namespace tandem
