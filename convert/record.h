#pragma once
// What rides along with a converted model, as the asset tandem_rules.json: enough to go back without the
// original at hand.
//
//   {"tandem_record": 1, "rules": {...}, "original": [{"name": ..., "dtype": "bf16", "shape": [2, 3],
//   "shard": ...}, ...]}

#include "rules/rules.h"

namespace tandem {

inline constexpr std::string_view kRecordFile = "tandem_rules.json";
inline constexpr std::string_view kContractFile = "tandem_contract.txt";

/// One tensor of the Hugging Face checkpoint that a model was made from.
struct OriginalTensor {
  TensorInfo info;
  std::string shard;  ///< file name it lay in
  bool operator==(const OriginalTensor& other) const {
    return info.name == other.info.name && info.dtype == other.info.dtype && info.shape == other.info.shape &&
           shard == other.shard;
  }
};

struct Record {
  RuleTable rules;
  std::vector<OriginalTensor> original;  ///< in canonical order; ignored tensors are not in it
};

std::string to_text(const Record& record);
/// Errors: record_c1 not a record of ours, or of a later version; json_c1..5; rules_c2..5.
Result<Record> record_from_text(std::string_view text);

}  // namespace tandem
