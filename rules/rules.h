#pragma once
// The weight-rule language: one table of reversible rows says how every tensor of a checkpoint lies on each
// side.
//
// A row, in JSON:
//   { "hf": "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", "tf":
//   "model/layers/{layer}/mlp/experts/up_proj/kernel",
//     "shape": ["moe_intermediate_size", "hidden_size"], "sizes": [36, 160], "holes": {"layer": [2, 5],
//     "expert": [0, 24]}, "steps": ["transpose(1,0)", "stack(expert,24)"], "dtype": "keep", "trainable":
//     true, "in_graph": true }
//
// Holes range over config values, never over what happens to be in the file. Steps lead from Hugging Face to
// TensorFlow; each has an inverse, so the same row reads both ways.

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/tensor_source.h"

namespace tandem {

/// A half-open range of a hole.
struct HoleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const HoleRange&) const = default;
};

// The steps. Each is a bijection on elements except cast and block_dequantize.
struct Transpose {
  std::vector<uint64_t> axes;
  bool operator==(const Transpose&) const = default;
};
/// Joins the tensors of a hole along a new first axis, cut into chunks of at most `chunk` tensors
/// (tensors "name" if one chunk is enough, else "name_0", "name_1", ...).
struct Stack {
  std::string hole;
  uint64_t chunk;
  bool operator==(const Stack&) const = default;
};
/// fp8 e4m3 codes times f32 scales, one a block of rows x columns; the scales are the tensor named hf +
/// scale_suffix, of shape [ceil(rows/block_rows), ceil(columns/block_columns)]. Applied only where the source
/// is fp8. First step of its row.
struct BlockDequantize {
  uint64_t block_rows, block_columns;
  std::string scale_suffix;
  bool operator==(const BlockDequantize&) const = default;
};
using Step = std::variant<BlockDequantize, Transpose, Stack>;

std::string to_string(
    const Step& step);  ///< "transpose(1,0)", "stack(expert,24)", "block_dequantize(128,128,_scale_inv)"
Result<Step> parse_step(std::string_view text);  ///< Errors: rules_c1

struct RuleRow {
  std::string hf;  ///< Hugging Face name with holes
  std::string tf;  ///< TensorFlow name with holes; a stacked hole does not stand in it
  std::vector<std::string>
      shape;    ///< the Hugging Face shape in config words ("num_attention_heads*head_dim")
  Shape sizes;  ///< the same in numbers
  std::map<std::string, HoleRange> holes;  ///< every hole of hf
  std::vector<Step> steps;                 ///< Hugging Face to TensorFlow
  std::string dtype =
      "keep";  ///< "keep" (follows --dtype), or a dtype that no flag changes ("f32": e_score_correction_bias)
  bool trainable = true;
  bool in_graph = true;  ///< false: carried in the bundle without a variable (MTP)
  std::string
      tied_to;  ///< hf name of the row whose tensor this one shares; such a row makes no TensorFlow tensor
  bool optional = false;  ///< may be absent from the checkpoint (a derived buffer, a tied copy). Optional
                          ///< rows that are not in the graph (MTP) are there all or none
  std::string ignore;     ///< not empty: the tensor is read by nobody, and this is why ("derived buffer")
  bool operator==(const RuleRow&) const = default;
};

struct RuleTable {
  std::string architecture;  ///< "llama"
  std::vector<RuleRow> rows;
  bool operator==(const RuleTable&) const = default;
};

Json to_json(const RuleTable& table);
/// Errors: rules_c2 unknown or missing field, or a name that TensorFlow cannot hold, rules_c3 a hole without
/// a range (or a range without a hole), rules_c4 steps that do not fit the shape (block_dequantize comes
/// first and stack last), rules_c5 two rows that make the same name on one side, rules_c6 a tied row whose
/// partner is not there, is of another shape, or has holes. All at once, one a line.
Result<RuleTable> rules_from_json(const Json& json);
/// The checks that rules_from_json makes, for tables that were built.
Status check(const RuleTable& table);

/// One TensorFlow tensor and the Hugging Face tensors it is made of.
struct TensorPlan {
  const RuleRow* row;
  std::string tf;               ///< "model/layers/2/mlp/experts/up_proj/kernel"
  std::string contract_name;    ///< row.hf with its holes filled, stacked holes left out:
                                ///< "model.layers.2.mlp.experts.up_proj.weight" (with ".0", ".1" behind it
                                ///< where a stack is cut into several chunks)
  std::vector<std::string> hf;  ///< sources in stack order; one where there is no stack
  Shape hf_shape;               ///< of each source
  Shape tf_shape;               ///< after the steps
  bool operator==(const TensorPlan&) const = default;
};

/// All TensorFlow tensors of a table, in canonical order. Rows that are tied or ignored make none. The table
/// must outlive it.
std::vector<TensorPlan> expand(const RuleTable& table);

/// What a checkpoint has against what the table expects; see match.
struct Match {
  std::vector<std::string> missing;     ///< expected, not there
  std::vector<std::string> unexpected;  ///< there, matched by no row
  std::vector<std::string> ignored;     ///< matched by an ignoring row, each "name: why"
  std::vector<std::string>
      wrong;  ///< "name: shape [3, 4], expected [4, 3]", wrong dtype, missing or bad scale
  std::vector<std::string>
      tied;  ///< present beside the tensor they are tied to (different bytes are in wrong), each by name
  bool complete() const { return missing.empty() && unexpected.empty() && wrong.empty(); }
};

/// Compares the names, shapes and dtypes of a Hugging Face checkpoint with a table: every difference, nothing
/// hidden.
Match match(const RuleTable& table, const TensorSource& checkpoint);

}  // namespace tandem
