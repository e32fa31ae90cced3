#pragma once
// A part of a SavedModel's functions as a graph of its own: any value of an entry or of a layer, with any
// others given from outside. The functions are those that the signatures run; only what the wanted values
// need is kept. Values are found by the attribute that our lowering leaves in each function
// (lower/tf/function_builder.h).

#include <map>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tandem {

/// What is asked for: see Engine::values.
struct PartRequest {
  std::string signature;  ///< "layer_3"
  Scope scope = Scope::entry;
  std::map<std::string, int> given;  ///< names and their tensorflow.DataType
  std::vector<std::string> outputs;
};

/// A graph to import beside the model's own.
struct PartGraph {
  tensorflow::GraphDef
      graph;  ///< placeholders "given/NAME", and one call "part" whose outputs are those asked for
  std::map<std::string, std::string>
      handles;                     ///< nodes that the graph refers to -> variables of the model's graph
  std::vector<std::string> feeds;  ///< of `given`, those that are needed
};

/// The values of an entry in the order in which they are computed.
struct EntryValue {
  std::string name;
  int dtype;         ///< tensorflow.DataType
  std::string node;  ///< of the function, that makes it
};
struct EntryValues {
  std::vector<EntryValue> values;
  std::map<std::string, std::string> results;  ///< the function's own outputs and the nodes that make them
};
/// Errors: tf_c10.
Result<EntryValues> entry_values(const tensorflow::MetaGraphDef& model, const std::string& signature);

/// Names in a request are of values, and in an entry of its outputs too (taps inside a layer are no values of
/// the entry). Errors: tf_c10 (unsupported) the functions behind the signature do not say where their values
/// are; tf_c11 (invalid) no value of that name; tf_c12 (invalid) an input that is needed is not given.
Result<PartGraph> make_part_graph(const tensorflow::MetaGraphDef& model, const PartRequest& request);

}  // namespace tandem
