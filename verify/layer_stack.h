#pragma once
// A contract as the levels walk over it: what comes before the layers, the layers, and what comes after.

#include <span>
#include <string>
#include <vector>

#include "contract/graph.h"

namespace tandem {

/// A value of a scope that is a tap: both its names.
struct TapPlace {
  std::string tap;        ///< in the whole model: "model.layers.3.self_attn.q_proj"
  std::string value;      ///< in its scope: "q"
  const Node* node;       ///< that makes it
  size_t token_axis = 1;  ///< of the value
};

/// One layer of the model.
struct LayerPlace {
  std::string entry;            ///< "layer_3"
  std::string place;            ///< "model.layers.3"
  const Block* block;           ///< what it calls
  std::string input_tap;        ///< the tap that goes in: "model.layers.2", or the embedding's
  std::vector<TapPlace> taps;   ///< inside the block, in order, and its result last
  const Node* route = nullptr;  ///< the node that chooses experts; null for a dense layer
  std::string route_tap;        ///< its tap, "" if it has none
};

/// The entry "logits".
struct LayerStack {
  const Block* entry;
  TapPlace rotary;  ///< cosines (their node makes the sines too)
  TapPlace embedding;
  std::vector<LayerPlace> layers;
  TapPlace norm;
  TapPlace head;
};

/// Errors: unsupported (verify_c6) the contract is no stack of layers: an entry "logits" with an embedding,
/// calls, a last norm and a head, and one entry "layer_N" for each call. The contract must outlive it.
Result<LayerStack> layer_stack_of(const Contract& contract);

/// Every tap of the stack by name, in order.
std::vector<std::string> tap_names(const LayerStack& stack);

/// The input of a router that names the experts it has to choose (-1: its own choice).
const std::string& forced_operand(const Node& route);

/// The axis that runs over tokens, 1 if none is named so.
size_t token_axis(const TensorType& type);

}  // namespace tandem
