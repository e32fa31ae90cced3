#pragma once
// The structure contract of a model: its rules, and all its tensors written out. `tandem map` prints, keeps
// and checks it.

#include "convert/open_model.h"

namespace tandem {

/// One TensorFlow tensor and what it is made of.
struct MappedTensor {
  std::vector<std::string> hf;
  DType hf_dtype;
  Shape hf_shape;
  std::string tf;
  DType tf_dtype;
  Shape tf_shape;
  std::vector<std::string> steps;  ///< in words: "transposed", "stacked 12"
  bool trainable;
  bool in_graph;
};

struct StructureMap {
  RuleTable rules;
  std::vector<MappedTensor> tensors;
  std::vector<std::string> tied;  ///< "lm_head.weight is model.embed_tokens.weight"
};

/// The steps of a plan in words.
std::vector<std::string> in_words(const TensorPlan& plan);

/// The map of a model, with the dtypes that a plain conversion keeps. Errors: open_c2, those of make_model;
/// all_problems (map_c1) if there are weights that do not fit the rules.
Result<StructureMap> structure_map(const OpenedModel& opened, const ArchOptions& options);

std::string to_text(const StructureMap& map);
/// Errors: json_c1..5; rules_c2..5; map_c2 not a map.
Result<StructureMap> map_from_text(std::string_view text);

/// Every difference between a stored map and a checkpoint, a line each: names, shapes, dtypes.
std::vector<std::string> differences_from(const StructureMap& stored, const OpenedModel& opened);

}  // namespace tandem
