#pragma once
// The first divergence and its cause: the first tap out of line, the op inside its block, and the known fault
// that makes the difference vanish. A wrong cause is worse than none: what no fault explains is "unknown".

#include <functional>

#include "faults/fault.h"
#include "verify/layer_level.h"
#include "verify/module_level.h"

namespace tandem {

/// A fault that was tried.
struct TriedFault {
  std::string fault, cause, words;
  bool explains = false;        ///< the op's difference vanishes
  bool explains_layer = false;  ///< and that of every tap of the layer
  double left = 0;              ///< RMS of (other - float64 with the fault), as a share of the RMS without
};

struct Divergence {
  std::string level;   ///< that showed it: "layer" or "module"
  std::string tap;     ///< the first out of line
  std::string place;   ///< "model.layers.3"; empty outside the layers
  std::string op;      ///< "rms_norm"; empty where the side cannot be looked into and nothing explains it
  std::string value;   ///< its first output in the contract: "h"
  std::string module;  ///< the Hugging Face module that the op belongs to
  std::string probe;
  std::string cause = "unknown";
  std::string words;              ///< of the fault that explains it
  bool explains_layer = false;    ///< nothing else in this layer differs
  std::vector<std::string> also;  ///< other causes that explain it as well, and further ops out of line
  std::vector<TriedFault> tried;  ///< in order, those that explain it first
};
Json to_json(const Divergence& divergence);

/// What the search needs besides the sides.
struct DiagnosisInputs {
  /// The contract by PyTorch in float32: says what error an op may have. Null: only kExactFloor counts.
  Engine* float32 = nullptr;
  FaultContext context;
  /// A weight of the reference as the TensorFlow side keeps it, or an fp8 scale by its Hugging Face name.
  std::function<Result<HostTensor>(const std::string& name)> weight;
};

/// Walks to the first tap out of line, then through its block op by op with the reference's inputs, and tries
/// the known faults at the op. Nothing where neither level has a tap that differs. Needs sides.exact. Errors:
/// those of the engines.
Result<std::optional<Divergence>> diagnose(const Sides& sides, const std::vector<Probe>& probes,
                                           const LayerLevel* layers, const ModuleLevel* modules,
                                           const DiagnosisInputs& inputs);

}  // namespace tandem
