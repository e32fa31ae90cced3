#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The cosines and sines that rotary multiplies with, one a token and lane:
///
///   angle[b, t, i] = position_ids[b, t] * frequency[i]        i < dim / 2, in f32
///   cos, sin       = cos([angle, angle]) * attention_factor, sin([angle, angle]) * attention_factor
///
/// The frequencies are f32 numbers that belong to the model, not to an evaluation: rotary_frequencies below
/// makes them, and every target takes them as constants.
///
/// Shapes  position_ids: [batch, tokens]    cos, sin: [batch, tokens, dim]
/// Types   position_ids i32; angles f32 (also in f64 evaluation: they define the model); cos and sin are
/// rounded to dtype Units   angles in radians Errors  rotary_table_c1  position_ids is not i32[batch, tokens]
///         rotary_table_c2  dim is not even and positive (and above 2 for type dynamic)
///         rotary_table_c3  theta is not above 1
///         rotary_table_c4  type is unknown (unsupported)
///         rotary_table_c5  a field that the type needs is absent
///         rotary_table_c6  a field that the type does not read is present
///         rotary_table_c7  a field is out of its range: all are positive, high_freq_factor is above
///         low_freq_factor rotary_table_c8  dtype is not a float type
/// Source  modeling_rope_utils.py of transformers 5.23, and LlamaRotaryEmbedding.forward (modeling_llama.py)
extern const OpRow kRotaryTable;

/// How rotary frequencies are made; the attributes of a rotary_table node, under the names of config.json.
struct RotaryScaling {
  int64_t dim = 0;               ///< lanes of a head that are rotated
  double theta = 0;              ///< rope_theta
  std::string type;              ///< "default", "linear", "dynamic", "yarn", "llama3"
  std::optional<double> factor;  ///< all types but default
  std::optional<int64_t>
      original_max_position_embeddings;        ///< yarn, llama3; for dynamic: max_position_embeddings
  std::optional<double> attention_factor;      ///< yarn, may be absent: then from factor and the mscales
  std::optional<double> beta_fast, beta_slow;  ///< yarn, may be absent: 32 and 1
  std::optional<double> mscale,
      mscale_all_dim;            ///< yarn, may be absent; count only where both are there and not 0
  std::optional<bool> truncate;  ///< yarn, may be absent: true
  std::optional<double> low_freq_factor, high_freq_factor;  ///< llama3
};

/// The scaling that a node's attributes describe. Errors: rotary_table_c2 to c7.
Result<RotaryScaling> rotary_scaling(const Node& node);
/// The checks alone, for scalings made elsewhere.
Status check(const RotaryScaling& scaling);

struct RotaryFrequencies {
  std::vector<float> inverse_frequencies;  ///< dim / 2 radians a position
  double attention_factor = 1;             ///< multiplies cos and sin
};

/// The frequencies, computed in f32 in PyTorch's order of operations (equal to it, or off by one unit in the
/// last place where its vector power differs from a correctly rounded one).
///
/// Only type "dynamic" reads `length`, the longest position of the call plus one. Beyond
/// max_position_embeddings the base grows:
///   ratio = f32(factor) * f32(length) / f32(max_position_embeddings) - f32(factor - 1)
///   base  = f32(theta) * ratio ^ f32(dim / (dim - 2))                      each step rounded to f32
/// Up to there, and for 0, it is theta. transformers keeps the frequencies of the longest call so far until a
/// call is shorter than max_position_embeddings again; here each call stands alone, as in a fresh model.
/// Errors: rotary_table_c2 to c7.
Result<RotaryFrequencies> rotary_frequencies(const RotaryScaling& scaling, uint64_t length = 0);

/// YaRN's magnitude correction for a stretch by `factor`: 0.1 * mscale * ln(factor) + 1, and 1 where factor
/// <= 1. Its square for mscale_all_dim also multiplies the score scale of deepseek_v3.
double yarn_mscale(double factor, double mscale = 1);

}  // namespace tandem
