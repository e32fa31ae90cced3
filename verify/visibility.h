#pragma once
// What a side lets us see. A foreign engine says it in its reply to op=load, in words of EngineInfo:
//   levels=layer,module,model   the levels that it can take part in
//   taps=model.norm,model.layers.*.mlp   the taps that it shows; * stands for the number of a layer
//   positions=counted           it takes no position_ids: rows have no padding, or padding on the right, and
//                               count from 0
// An engine without such a word can be asked everything. A tap that a side says it shows, and does not, is a
// difference; one that it does not name is left out of the comparison, and of what must be there.

#include "verify/probes.h"

namespace tandem {

struct Visibility {
  std::vector<std::string> levels;  ///< empty: all
  std::vector<std::string> taps;    ///< patterns; empty: all
  bool counts_positions = false;
};
Visibility visibility_of(const EngineInfo& info);

bool shows_level(const Visibility& visibility, std::string_view level);
bool shows_tap(const Visibility& visibility, std::string_view tap);
bool can_run(const Visibility& visibility, const Probe& probe);

/// The tap's name with * for the numbers of layers: "model.layers.*.mlp".
std::string tap_pattern(std::string_view tap);

}  // namespace tandem
