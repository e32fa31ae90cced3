#pragma once
// What a verification stands on besides the files, for its certificate: the rules and the prompts.

#include "rules/rules.h"
#include "verify/probes.h"

namespace tandem {

/// The prompts of one level.
struct PromptSet {
  std::string level;  ///< "model"
  std::string
      source;  ///< "built in" (generated ids, and texts of the program), or the file they were read from
  std::optional<uint64_t> seed;  ///< of generated ones
  uint64_t probes = 0, prompts = 0, tokens = 0;
  std::string sha256;  ///< of ids, mask and positions: see prompt_set
};

struct VerifyBasis {
  std::string left_rules_sha256, right_rules_sha256;  ///< of the rules as `tandem map` writes them
  std::vector<PromptSet> prompts;                     ///< one a level that runs models
};

/// SHA-256 of a rule table's JSON without blanks.
std::string rules_sha256(const RuleTable& rules);

/// Counts and hashes probes. The hash is over a line of text a probe, row by row: "NAME BATCH TOKENS", then
/// ids, mask and positions as decimal numbers, all with one blank between, and a line end.
/// `seed` is that of the ids, unless they come from a file.
PromptSet prompt_set(std::string level, const std::vector<Probe>& probes, const std::string& tokens_file,
                     uint64_t seed);

Json to_json(const PromptSet& prompts);

}  // namespace tandem
