#pragma once
// What XLA compiles for a session, counted.

#include <map>
#include <set>
#include <string>

#include "base/shape.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tandem {

/// XLA compiles a function whose calls are marked _XlaMustCompile once for each set of shapes, and inside a
/// signature of ours all shapes follow those of its inputs. So what is counted is: a signature run with
/// shapes that it has not had, times the different functions that it calls marked; for functions whose
/// arguments vary in the batch alone (the head), with a batch that it has not had. tests/warm_up_test.py and
/// tests/matmul_precision_test.py hold the count to the modules that XLA itself dumps.
class Compilations {
 public:
  Compilations() = default;
  explicit Compilations(const tensorflow::MetaGraphDef& model);
  /// A signature has run; `shapes`: those of all inputs, in any order that stays, batch first in each.
  void ran(const std::string& signature, const std::vector<Shape>& shapes);
  uint64_t count() const { return count_; }

 private:
  /// How many functions are compiled for each set of shapes, and how many for each batch.
  struct Marked {
    uint64_t for_shapes = 0, for_batch = 0;
  };
  std::map<std::string, Marked> functions_;                   ///< by signature
  std::set<std::pair<std::string, std::vector<Shape>>> had_;  ///< signature and shapes
  std::set<std::pair<std::string, uint64_t>> had_batch_;
  uint64_t count_ = 0;
};

}  // namespace tandem
