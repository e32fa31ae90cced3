#pragma once
// The tensors of a TensorFlow checkpoint under the names of the rules, whatever Python put in front of them.

#include "convert/tensor_view.h"
#include "rules/rules.h"

namespace tandem {

/// A tensor that the graph does not use (MTP) and that is not there: saving from Python keeps variables only.
struct MissingCarried {
  std::string tf;
  std::string hf;         ///< its Hugging Face name (the first, of a stack)
  bool optional = false;  ///< the original may have lacked it too
};

struct NamedTensors {
  TensorView view;  ///< of those that are there and fit
  std::vector<std::string>
      wrong;  ///< a line for each that the graph needs and that is missing, and each of another shape
  std::vector<MissingCarried> carried;
};

/// Finds every tensor of a table. Names may all stand under one prefix ("model/" for a checkpoint of a
/// tracked model). `bundle` must outlive the result.
NamedTensors find_named(const TensorSource& bundle, const RuleTable& rules);

/// The rows that are, or are not, in the graph.
RuleTable rows_where(const RuleTable& table, bool in_graph);

}  // namespace tandem
