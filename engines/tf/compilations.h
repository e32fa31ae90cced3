#pragma once
// What XLA compiles for a session, counted.

#include <map>
#include <set>
#include <string>

#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tandem {

/// XLA compiles a function whose calls are marked _XlaMustCompile once for each set of shapes, and inside a
/// signature of ours all shapes follow those of its inputs. So what is counted is: a signature run with
/// shapes that it has not had, times the different functions that it calls marked. tests/warm_up_test.py
/// holds the count to the modules that XLA itself dumps.
class Compilations {
 public:
  Compilations() = default;
  explicit Compilations(const tensorflow::MetaGraphDef& model);
  /// A signature has run; `shapes`: those of all inputs, as any text that tells them apart.
  void ran(const std::string& signature, const std::string& shapes);
  uint64_t count() const { return count_; }

 private:
  std::map<std::string, uint64_t> functions_;          ///< by signature: how many are compiled
  std::set<std::pair<std::string, std::string>> had_;  ///< signature and shapes
  uint64_t count_ = 0;
};

}  // namespace tandem
