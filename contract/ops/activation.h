#pragma once
// The one list of activations. What they compute in a framework stands beside that framework's rows
// (lower/tf/activation.h, lower/torch/activation.h).

#include "contract/graph.h"

namespace tandem {

/// An activation x -> act(x), by its name among transformers' (activations.py, ACT2FN).
struct Activation {
  std::string_view name;                  ///< what contracts write: attribute hidden_act
  std::vector<std::string_view> aliases;  ///< names that ACT2FN gives the same formula; configs may use them
  std::string_view formula;               ///< of act(x), for people
  double (*f64)(double);
  float (*f32)(float);  ///< each step rounded to f32

  double operator()(double x) const { return f64(x); }
  float operator()(float x) const { return f32(x); }
};
std::span<const Activation> activations();

/// The activation that contracts call so, or null.
const Activation* find_activation(std::string_view name);
/// The activation that configs call so, by name or alias, or null.
const Activation* published_activation(std::string_view hidden_act);
/// Every name that configs may use, quoted and separated by commas.
std::string published_activations();

/// For ops with the attribute hidden_act. Errors: `label` (unsupported) for a name that is no activation's.
Status check_activation(const Node& node, std::string_view label);

}  // namespace tandem
