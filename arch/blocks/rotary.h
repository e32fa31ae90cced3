#pragma once
// Rotary position scaling as config.json spells it: rope_theta with rope_scaling (old), or rope_parameters
// (new).

#include "arch/config_reader.h"
#include "contract/graph.h"

namespace tandem {

/// A model's rotary scaling. Source: transformers modeling_rope_utils.py, standardize_rope_params and
/// ROPE_INIT_FUNCTIONS.
struct RotaryConfig {
  std::string type = "default";      ///< default, linear, dynamic, yarn, llama3
  Attributes attributes;             ///< of the contract's rotary_table, but dim and dtype
  std::vector<uint64_t> boundaries;  ///< positions where the behaviour changes, ascending
  double latent_score_multiplier =
      1;  ///< m(factor, mscale_all_dim)^2: multi-head latent attention's scores are scaled by it
};

/// Reads every rotary key of a config; problems are noted in the reader.
RotaryConfig read_rotary(ConfigReader& config, uint64_t max_position_embeddings);

/// Notes the key of the rotated width in the reader, if no table is that wide (the contract's
/// rotary_table_c2): an odd one, and 2 with dynamic scaling, which raises its base to dim / (dim - 2).
void expect_rotary_dim(ConfigReader& config, std::string_view key, uint64_t dim, const RotaryConfig& rotary);

}  // namespace tandem
