#pragma once
// Rules at work: a TensorSource of one side seen as a TensorSource of the other, piece by piece, in bounded
// memory.

#include <memory>

#include "rules/rules.h"

namespace tandem {

struct TransformOptions {
  /// Storage dtype of "keep" rows on the TensorFlow side; nothing keeps each source's own (fp8 becomes
  /// fp8_dtype).
  std::optional<DType> dtype;
  DType fp8_dtype = DType::bf16;  ///< what "keep" means for fp8 weights: the config's own dtype
  uint64_t memory = 64ull << 20;  ///< bound on the buffers of one read, give or take 2 MiB
  bool check_scales = true;       ///< read all fp8 scales now; else each is checked when it is used
};

/// Success if the checkpoint is complete for the table. Errors: those of check; transform_c1 (invalid), with
/// everything that match found, one a line.
Status fits(const RuleTable& table, const TensorSource& checkpoint);

/// The TensorFlow tensors of `table`, computed on the fly from a Hugging Face checkpoint. A read of any byte
/// range costs memory for that range, not for the tensor; ranges in order cost least. Casts count what they
/// lost: see counts(). Both arguments must outlive the source. An optional row that the checkpoint lacks
/// makes no tensor. Errors of make: those of fits; transform_c2 a stack of several dtypes under "keep";
/// transform_c3 a dtype that is no wide float; scale_c1 a scale that is not a positive finite number. All bad
/// scales and stacks at once, one a line.
class ToTensorFlow : public TensorSource {
 public:
  static Result<std::unique_ptr<ToTensorFlow>> make(const RuleTable& table, const TensorSource& checkpoint,
                                                    TransformOptions options);
  virtual CastCounts counts(std::string_view tensor) const = 0;  ///< of all reads so far
  /// Gives up what is kept for the next read: memory, and a window on a file. Not while one reads.
  virtual void release() const = 0;
};

/// The way back: the Hugging Face tensors of `table`, computed from TensorFlow tensors by the inverse steps.
struct BackOptions {
  /// Gives each tensor's dtype (and fp8 scales) on the Hugging Face side; nothing keeps the TensorFlow side's
  /// dtypes.
  const TensorSource* like = nullptr;
  std::optional<DType> dtype;  ///< of "keep" rows, where there is no `like`
  uint64_t memory = 64ull << 20;
};
/// Tied tensors are written under the names that `like` has; without it, once, under the name of the row that
/// is not tied.
class ToHuggingFace : public TensorSource {
 public:
  /// fp8 weights of `like` are remade: each code is the e4m3 number nearest to value / scale, with like's
  /// scale; where a value does not fit (trained further) the block's scale is remade as amax / 448 and the
  /// tensor is named in remade_scales(). Those weights are read once more, before their first read. Errors:
  /// those of fits for `like`; transform_c3; transform_c4 TensorFlow tensors that are missing or of a wrong
  /// shape or dtype, all at once. Scales of like are checked when they are read (scale_c1).
  static Result<std::unique_ptr<ToHuggingFace>> make(const RuleTable& table, const TensorSource& tensorflow,
                                                     BackOptions options);
  virtual std::vector<std::string> remade_scales() const = 0;  ///< weights, of all reads so far
  virtual std::vector<std::string> copied()
      const = 0;  ///< tensors that no row makes, copied from `like` (derived buffers)
  virtual std::vector<std::string> unused()
      const = 0;  ///< TensorFlow tensors that no Hugging Face tensor is made of
  virtual CastCounts counts(std::string_view tensor) const = 0;
};

}  // namespace tandem
