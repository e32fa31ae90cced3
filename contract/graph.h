#pragma once
// The contract: a model as entry points over blocks over semantic ops. It names no framework and no file.
//
//   contract 1
//   compute f32
//   weight model.layers.0.input_layernorm.weight: bf16[160]
//   weight model.layers.3.mlp.gate.e_score_correction_bias: f32[24] frozen
//   block decoder_layer(x: f32[batch, tokens, 160], ...) weights (input_layernorm.weight: f32[160], ...) {
//     h = rms_norm(x, @input_layernorm.weight, epsilon=1e-06)  # tap input_layernorm
//     ...
//     return y
//   }
//   entry logits(input_ids: i32[batch, tokens], attention_mask: i32[batch, tokens]) {
//     x_0 = embedding(input_ids, @model.embed_tokens.weight)
//     x_1 = call(x_0, ..., block="decoder_layer", at="model.layers.0")
//     ...
//     return logits
//   }
//
// Values are assigned once, by name, in order. "@name" is a weight: in a block one of its weight parameters,
// in an entry one of the contract's weights. A call stands in an entry and binds a block's weight parameter
// `p` to the contract's weight `at + "." + p`. Names are letters, digits and "_.-"; "frozen" marks a weight
// that is not trained.

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "contract/type.h"

namespace tandem {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, Attribute>;

/// An input of a node: a value of the same block, or a weight.
struct Operand {
  std::string name;
  bool is_weight = false;
  bool operator==(const Operand&) const = default;
};

/// One op applied: outputs = op(inputs, attributes).
struct Node {
  std::string op;  ///< a name of the op registry (contract/ops/registry.h), or "call"
  std::vector<Operand> inputs;
  Attributes attributes;             ///< for "call": block (string), at (string, the weights' prefix)
  std::vector<std::string> outputs;  ///< value names, in the op's order
  std::string tap;  ///< the Hugging Face module path whose output outputs[0] is, relative to the block's
                    ///< place; empty for none
  bool operator==(const Node&) const = default;
};

/// A named and typed input, weight parameter or result.
struct Parameter {
  std::string name;
  TensorType type;
  bool operator==(const Parameter&) const = default;
};

struct Block {
  std::string name;
  std::vector<Parameter> inputs;
  std::vector<Parameter>
      weights;  ///< types as computed with (see WeightEntry for storage); empty in an entry
  std::vector<Node> nodes;
  std::vector<std::string> results;  ///< names of values; in an entry they name the outputs
  bool operator==(const Block&) const = default;
};

/// A weight of the whole model.
struct WeightEntry {
  std::string name;  ///< Hugging Face path, without the hole of a stacked axis:
                     ///< "model.layers.3.mlp.experts.up_proj.weight"
  DType storage;     ///< as it is kept; cast to `compute` (or to the parameter's own dtype) where it is used
  Shape shape;       ///< as kept on the TensorFlow side: dense kernels [in, out] under the default layout
  bool trainable = true;
  bool operator==(const WeightEntry&) const = default;
};

struct Contract {
  DType compute = DType::f32;  ///< the dtype of the arithmetic
  std::vector<WeightEntry> weights;
  std::vector<Block> blocks;
  std::vector<Block> entries;
  bool operator==(const Contract&) const = default;
};

const Block* find_block(const Contract& contract, std::string_view name);
const Block* find_entry(const Contract& contract, std::string_view name);
const WeightEntry* find_weight(const Contract& contract, std::string_view name);

/// The name that a block's weight parameter or tap has in the whole model: place + "." + name (name alone for
/// an empty place).
std::string full_name(std::string_view place, std::string_view name);

/// An attribute, or nullptr: for those that an op does not require.
const Attribute* find_attribute(const Node& node, std::string_view name);

// Typed access to attributes; the checker has made sure that they are there. A number may be written as an
// integer.
int64_t int_attribute(const Node& node, std::string_view name);
double float_attribute(const Node& node, std::string_view name);
bool bool_attribute(const Node& node, std::string_view name);
const std::string& string_attribute(const Node& node, std::string_view name);
const std::vector<int64_t>& ints_attribute(const Node& node, std::string_view name);

}  // namespace tandem
