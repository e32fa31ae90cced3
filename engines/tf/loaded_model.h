#pragma once
// A SavedModel in a session, as what runs several of them sees it.

#include <set>

#include "engines/serve.h"
#include "engines/tf/part_graph.h"
#include "engines/tf/steps.h"

namespace tandem {

class LoadedModel : public ServedModel {
 public:
  virtual const Signatures& signatures() const = 0;
  /// Runs a signature on tensors by input name; all outputs by name.
  virtual Result<TfTensors> run_signature(const std::string& key,
                                          const std::map<std::string, TF_Tensor*>& inputs) = 0;
  /// From now on compilations() counts what run_signature makes XLA compile. Errors: tf_c2.
  virtual Status count_compilations() = 0;
  /// The names of an entry's values and outputs, by its signature. Errors: tf_c10.
  virtual Result<std::set<std::string>> value_names(const std::string& signature) = 0;
  /// Of what a request gives, the names that it needs. Errors: those of values().
  virtual Result<std::set<std::string>> needs(const PartRequest& request) = 0;
  /// What a request asks for; `given` holds the names that it needs.
  virtual Result<HostTensors> values_of(const PartRequest& request, const HostTensors& given) = 0;
};

}  // namespace tandem
