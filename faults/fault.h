#pragma once
// The one table of known faults of a port: what a wrong converter or a wrong implementation does to a model,
// as edits of its contract and of its weights. `tandem plant` makes faulty copies from it, and the diagnosis
// of `tandem verify` tries its rows as hypotheses. docs/faults.md lists it; to add a fault, add a row to the
// file of its kind.
//
// Every edit keeps the names of all values and taps of the block, so that a right and a wrong model can be
// compared value by value; it may add values of its own.

#include <functional>
#include <set>
#include <span>

#include "base/host_tensor.h"
#include "contract/check.h"
#include "rules/rules.h"

namespace tandem {

/// How one weight is changed. Names are those of WeightEntry; tensors are as stored on the TensorFlow side
/// (dense kernels [in, out] under the default layout).
struct WeightEdit {
  std::string weight;
  /// What `make` reads, in this order. Besides weights of the contract: for a checkpoint in fp8, scales under
  /// their Hugging Face name ("model.layers.0.self_attn.o_proj.weight_scale_inv").
  std::vector<std::string> sources;
  /// The new tensor, of the weight's own dtype and shape. Sources are the right model's, never edited ones.
  std::function<Result<HostTensor>(std::span<const HostTensor> sources)> make;
};

using BlockEdit = std::function<void(Block&)>;

/// One concrete wrong model: what the wrong side might have done at one place.
struct Hypothesis {
  std::string fault;                ///< name of its row
  std::string words;                ///< "epsilon 1e-06 where the reference has 1e-05"
  BlockEdit edit;                   ///< of the block (or entry) it was made for; empty: the graph stays
  std::vector<WeightEdit> weights;  ///< empty: the weights stay
};

/// What is known besides the contract.
struct FaultContext {
  const RuleTable* rules = nullptr;  ///< of the checkpoint; without them no fault of fp8 scales applies
  std::set<std::string> scales;      ///< Hugging Face names of the fp8 scales that the checkpoint holds
};

/// A node at its place: what a row is asked about. All references must outlive it.
struct FaultSite {
  const Contract& contract;
  const Block& block;        ///< a block, or an entry
  const std::string& place;  ///< of the call: "model.layers.3"; empty in an entry
  const Node& node;
  const ValueTypes& types;  ///< of the block's values
  const FaultContext& context;
};

/// One known fault. `at` gives the wrong forms of this node (or of it and its near neighbours) that the fault
/// means, the commonest first; none where it does not apply, or would change nothing. Of a fault that touches
/// several nodes together (queries and keys), the first of them is its site.
struct FaultRow {
  std::string_view name;   ///< "mask.causal": family, point, variant
  std::string_view cause;  ///< what a report calls it: "mask"; one for the whole family
  std::string_view help;   ///< one line for people
  std::vector<Hypothesis> (*at)(const FaultSite& site);
  bool hypothesis = true;  ///< false: can be planted, but is not among the causes tried
  bool once = false;       ///< true: planted at one place unless told otherwise; else wherever it applies
};
std::span<const FaultRow> faults();

/// The rows that a name means: the one of that name, or all of a family ("mask"). Empty if there is none.
std::vector<const FaultRow*> faults_named(std::string_view name);

/// What a row says of a site, with the row's name filled in.
std::vector<Hypothesis> hypotheses_of(const FaultRow& row, const FaultSite& site);
/// What all rows that are hypotheses say of it, in the table's order.
std::vector<Hypothesis> hypotheses_at(const FaultSite& site);

/// Every node of every block at every place that it is called from, then those of the entries.
Status for_each_site(const Contract& contract, const FaultContext& context,
                     const std::function<void(const FaultSite&)>& visit);

/// The contract with a hypothesis in force at one place: the block of that place's call is cloned, edited,
/// and called there, in every entry. For an empty place `block` names the entry that is edited. Weights are
/// the caller's.
Contract with_hypothesis(const Contract& contract, const std::string& block, const std::string& place,
                         const Hypothesis& hypothesis);

/// The block of the call at a place, for editing: a clone of it under a name of its own, unless no other
/// place calls it. The place must exist.
Block& own_block(Contract& contract, const std::string& place);
/// The name of the block that is called at a place; empty if none is.
std::string block_at(const Contract& contract, const std::string& place);

/// The contract weight that an operand is at a place.
std::string weight_name(const std::string& place, const Operand& operand);

/// The Hugging Face module that a node belongs to, as people name it with --at: its tap at its place, or that
/// of the first module that its value enters.
std::string module_of(const FaultSite& site);

}  // namespace tandem
