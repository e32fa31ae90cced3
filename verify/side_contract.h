#pragma once
// What a side's model is said to compute: its contract, and its weights as the TensorFlow side keeps them.

#include "faults/fault.h"
#include "rules/transform.h"
#include "verify/side.h"

namespace tandem {

/// The contract of a side that has one: made from the config of a Hugging Face folder or of a dump (which has
/// no weights), or read from a SavedModel of ours. Its sources are those of the side, which must outlive it.
/// Not movable.
class SideContract {
 public:
  /// Errors: those of the config, the rules and the contract's text; unsupported (verify_c7) a checkpoint
  /// without either.
  static Result<std::unique_ptr<SideContract>> open(const Side& side, const ArchOptions& options);

  const Contract& contract() const { return contract_; }
  FaultContext faults() const;
  /// A whole weight by its contract name, or an fp8 scale by its Hugging Face name. Errors: missing.
  Result<HostTensor> weight(const std::string& name) const;

 private:
  Contract contract_;
  RuleTable rules_;
  std::vector<TensorPlan> plans_;
  const TensorSource* files_ = nullptr;          ///< as they are on disk
  std::unique_ptr<ToTensorFlow> as_tensorflow_;  ///< of a Hugging Face folder
};

}  // namespace tandem
