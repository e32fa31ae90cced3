#pragma once
// What a model was last asked for, to know when the next call asks for one token more.

#include "engines/engine.h"

namespace tandem {

/// Rows of ids with their mask, padded on the left, as last_logits takes them.
class SeenRows {
 public:
  /// Whether `inputs` (input_ids, attention_mask, position_ids: i32 [batch, tokens]) are these rows and one
  /// more token in each.
  bool are_continued_by(const HostTensors& inputs) const;
  void remember(const HostTensors& inputs);
  void forget() { tokens_ = 0; }

 private:
  uint64_t batch_ = 0, tokens_ = 0;  ///< no tokens: nothing was seen
  std::vector<int32_t> ids_, mask_;
};

/// Whether each position is that of the token in its own row, padding not counted: what a model finds out by
/// itself from the mask. False too for inputs that are not three equal i32 [batch, tokens] with a token.
bool positions_follow_mask(const HostTensors& inputs);

/// Of a tensor [batch, tokens] its last column, [batch, 1].
HostTensor last_column(const HostTensor& tensor);

}  // namespace tandem
