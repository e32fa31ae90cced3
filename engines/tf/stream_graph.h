#pragma once
// A SavedModel's functions without its weights in memory: an entry as parts that are run one after another,
// each of which restores the variables that it needs, computes, and drops them.

#include <set>

#include "engines/tf/part_graph.h"

namespace tandem {

/// Where variables lie in the checkpoint.
struct CheckpointKeys {
  std::string prefix;                       ///< of the files: "model/variables/variables"
  std::map<std::string, std::string> keys;  ///< variables of the model's graph -> names in the checkpoint
  std::map<std::string, int> dtypes;        ///< tensorflow.DataType
};
/// What the model's own restore nodes say. Errors: tf_c13 (unsupported) a variable that none of them
/// restores.
Result<CheckpointKeys> checkpoint_keys(const tensorflow::MetaGraphDef& model, const std::string& folder);

/// One part of an entry.
struct StreamStep {
  PartGraph part;
  std::vector<std::string> outputs;
  std::set<std::string> finished;  ///< values that no later step needs, and that were not asked for
};

/// The steps that lead to what is asked for: one for each node that calls a layer, and one for each value
/// outside the layers that is needed. In the scope of a block there is one step. Errors: those of
/// make_part_graph.
Result<std::vector<StreamStep>> make_stream_steps(const tensorflow::MetaGraphDef& model,
                                                  const PartRequest& request);

/// Adds what restores the part's variables before its call, and drops them after it. Returns the nodes that
/// drop them, which must be run with it. The values are read straight into the variables.
std::vector<std::string> add_restoring(PartGraph& part, const CheckpointKeys& keys);

}  // namespace tandem
