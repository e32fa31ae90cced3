#pragma once
// TensorFlow SavedModel (TF2), assembled and read back without TensorFlow.
// docs/formats/saved_model.md has the format.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/tensor_source.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"

namespace tandem {

/// A declared input or output. Unknown axes are -1; axis 0 is the batch.
struct TensorSpec {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

/// A variable of the graph. Its path is its place in the object tree
/// ("model/layers/0/mlp/gate/kernel"), its name, its VarHandleOp's shared_name
/// and (with kValueSuffix) its checkpoint key.
struct SavedVariable {
  std::string path;
  DType dtype;
  Shape shape;
  bool trainable = true;
};

/// A function that Python or a client can call: a library function whose
/// explicit inputs come first, in sorted order by name, then one resource a
/// captured variable.
struct SavedFunction {
  std::string function;             ///< its name in `library`
  std::vector<TensorSpec> inputs;   ///< sorted by name
  std::vector<TensorSpec> outputs;  ///< sorted by name
  std::vector<size_t> captures;     ///< indices into variables, in the function's argument order
  bool inlined = false;  ///< of a signature: it is nodes of the main graph, without a call (inline.h)
};

struct SavedAsset {
  std::string name;  ///< attribute name of the root, and file name in assets/:
                     ///< "config.json" becomes attribute config_json
  std::string content;
};

/// All that a SavedModel of ours holds but the variables' values.
struct SavedModelSpec {
  std::vector<tensorflow::FunctionDef> library;
  std::vector<SavedVariable> variables;
  std::map<std::string, SavedFunction> signatures;  ///< by key: "serving_default"
  /// Attributes of the root that Python can call: "__call__", "logits". Their
  /// inputs are parameters by position or keyword, input_ids (or hidden_states)
  /// first and the rest by name: model(input_ids, attention_mask). One output is returned bare,
  /// several as a dict.
  std::map<std::string, SavedFunction> methods;
  std::vector<SavedAsset> assets;
};

/// The graph file holds no weights; more than this is no model of ours, and a
/// risk to parse.
inline constexpr uint64_t kMaxSavedModelBytes = 512ull << 20;

/// The proto, complete for the C API, tf.saved_model.load, Keras' TFSMLayer,
/// saved_model_cli and Serving: top-level nodes, signature defs, saver, object
/// graph, asset defs. Works in TensorFlow 2.12 and later. Errors:
/// saved_model_c1 unsorted inputs or outputs, c2 two variables (or root
/// attributes) of one path, c3 a capture out of range, c4 an unknown function
/// or one whose arguments are not the declared ones, c5 over
/// kMaxSavedModelBytes, c6 an asset name that is not a plain file name or makes
/// an attribute that exists, c7 two top-level nodes of one name, c8 an inlined
/// function that has a loop.
Result<tensorflow::SavedModel> assemble(SavedModelSpec spec);

/// The bytes of saved_model.pb: the same spec gives the same. Of assets the names alone matter. Errors: of
/// assemble.
Result<std::string> saved_model_bytes(SavedModelSpec spec);

/// Writes saved_model.pb and assets/ into an existing folder, and makes
/// variables/ there, whose files are the caller's: a TensorBundleWriter at
/// `folder/variables/variables` that adds each variable under value_key(path),
/// and then checkpoint_object_graph of them under kObjectGraphKey.
Status write_saved_model(const FileSystem& files, const std::string& folder, std::string_view bytes,
                         const std::vector<SavedAsset>& assets);
Status write_saved_model(const FileSystem& files, const std::string& folder, SavedModelSpec spec);

/// The object graph for the bundle of these variables.
std::string checkpoint_object_graph(const std::vector<SavedVariable>& variables);

/// A SavedModel on disk, read under limits and checked statically; nothing is
/// run.
struct SavedModelFolder {
  tensorflow::SavedModel proto;
  std::map<std::string, std::string> assets;  ///< file name to content, of at most 64 MiB together
  std::string variables_prefix;               ///< for TensorBundle::open
};
/// Errors: T1 truncated, too large or too deep proto; T2 self-calling function,
/// cycle, Const without value, wrong attribute type; T7 asset name outside the
/// folder, both .pb and .pbtxt; C26 no variables index; missing.
Result<SavedModelFolder> open_saved_model(const FileSystem& files, const std::string& folder);

}  // namespace tandem
