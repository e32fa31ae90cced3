#pragma once
// Writing contract blocks and rule rows: thin helpers that keep the architecture files as short as the papers
// they follow.

#include <functional>

#include "contract/graph.h"
#include "rules/rules.h"

namespace tandem {

/// Grows one block (or entry) node by node. Value names are chosen by the caller and appear in the text form.
class BlockBuilder {
 public:
  explicit BlockBuilder(std::string name) { block_.name = std::move(name); }

  std::string input(std::string name, TensorType type);
  /// A weight parameter; `type` is what it is computed with.
  Operand weight(std::string name, TensorType type);
  /// A weight of the whole contract, for entries.
  static Operand model_weight(std::string name) { return {std::move(name), true}; }
  /// One op with one output. `tap` is the Hugging Face module path relative to the block, or empty.
  std::string op(std::string_view op, std::string output, std::vector<Operand> inputs,
                 Attributes attributes = {}, std::string tap = {});
  /// One op with several outputs; outputs[0] carries the tap.
  void multi(std::string_view op, std::vector<std::string> outputs, std::vector<Operand> inputs,
             Attributes attributes = {}, std::string tap = {});
  Block finish(std::vector<std::string> results);

 private:
  Block block_;
};

/// A value operand.
inline Operand value(std::string name) { return {std::move(name), false}; }

/// What blocks need to know besides their sizes: the arithmetic type, and how each kernel lies.
struct Layout {
  const RuleTable& rules;
  DType compute;
  /// "in_out" if the row of this Hugging Face name (with its holes) is transposed on its way, else "out_in".
  std::string of(std::string_view hf_pattern) const;
};

/// A dense kernel's type under a layout: [in, out] or [out, in].
TensorType kernel_type(DType dtype, const std::string& layout, uint64_t in, uint64_t out);

/// linear(x, @name.weight[, @name.bias]) with its weight parameters declared; tap = name. `layer_path` is the
/// pattern of the block's place in the rules ("model.layers.{layer}.").
std::string linear(BlockBuilder& block, const Layout& layout, std::string_view layer_path,
                   const std::string& name, std::string output, const std::string& x, uint64_t in,
                   uint64_t out, bool bias);

/// rms_norm(x, @name.weight), tap = name.
std::string norm(BlockBuilder& block, const Layout& layout, const std::string& name, std::string output,
                 const std::string& x, uint64_t width, double epsilon);

/// down_proj(act(gate_proj(x)) * up_proj(x)) under `path` ("mlp"), act by its name in the contract; tap =
/// path.
std::string gated_mlp(BlockBuilder& block, const Layout& layout, std::string_view layer_path,
                      const std::string& path, const std::string& output, const std::string& x,
                      uint64_t hidden_size, uint64_t intermediate_size, bool bias,
                      const std::string& hidden_act);

/// Contract name of a weight ("model.layers.3.mlp.experts.up_proj.weight.0") and storage, from the expanded
/// rules.
std::vector<WeightEntry> weight_entries(const RuleTable& rules,
                                        const std::function<DType(const std::string&)>& storage);

// Rule rows. `words` is the shape in config words, "a,b".
RuleRow dense_row(std::string hf, std::vector<std::string> words, Shape sizes);  ///< .../kernel, transposed
RuleRow plain_row(std::string hf, std::vector<std::string> words,
                  Shape sizes);  ///< as it is; the TensorFlow name keeps the last word

}  // namespace tandem
