#pragma once
// What a conversion to TensorFlow decides before the first byte is written. For forward.cpp.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/open_model.h"
#include "convert/record.h"
#include "formats/saved_model/stage_manifest.h"
#include "lower/tf/lower_tf.h"
#include "rules/transform.h"

namespace tandem {

/// One SavedModel of the output: all of it, or a stage.
struct ForwardPart {
  std::string folder;                      ///< inside the output; empty for the whole
  std::vector<const TensorPlan*> tensors;  ///< in the order in which they lie
  Lowerable model;                         ///< of its graph
  std::vector<SavedAsset> assets;          ///< of a stage alone
  std::string graph;                       ///< the checkpoint's object graph
  size_t begin = 0, count = 0;             ///< its data shards among all
  size_t graph_shard = 0;                  ///< of these, the one that begins with the object graph
};

/// All that is decided before the first byte is written.
struct ForwardPlan {
  Model model;
  RuleTable rules;
  std::unique_ptr<ToTensorFlow> tensors;
  std::vector<TensorPlan> plans;
  std::vector<ForwardPart> parts;
  std::optional<StageManifest> stages;  ///< of several parts
  std::vector<SavedAsset> assets;       ///< of the whole, less the record, which is as long as the checkpoint
                                        ///< has tensors
  std::vector<std::string> ignored;     ///< tensors that a rule ignores
  std::vector<std::string> tied;        ///< tied copies, and what they are compared with
  std::vector<std::string> remarks;
};

/// Reads `source`, whose config --allow-tied-head may change, and an edited map. With `check_scales` every
/// fp8 scale is read and checked. Errors: those of the config, the rules, the map and the contract.
Result<std::unique_ptr<ForwardPlan>> make_forward_plan(const FileSystem& files, OpenedModel& source,
                                                       const ConvertOptions& options, bool check_scales);

/// The rules, and what the tensors of the source were, but for those of these names.
Record record_of(const OpenedModel& source, const RuleTable& rules, const std::vector<std::string>& ignored);

}  // namespace tandem
