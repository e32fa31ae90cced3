#pragma once
// A fault of the graph as an edit of config.json. For this folder.

#include "base/json.h"
#include "contract/graph.h"

namespace tandem {

/// The config with every key changed that says what `wrong` does differently from `right`, as far as keys
/// say it: rms_norm_eps, the rotary keys, rope_interleave, hidden_act and the routing keys. Equal to `config`
/// if none does.
Json config_of_fault(const Json& config, const Contract& right, const Contract& wrong);

/// True if the graph is `right` with some (at least one) of the differences that `wrong` has, and no others.
bool is_between(const Contract& graph, const Contract& right, const Contract& wrong);

/// Keys that two configs differ in, "rope_scaling.factor" for one inside.
std::vector<std::string> different_keys(const Json& a, const Json& b);

}  // namespace tandem
