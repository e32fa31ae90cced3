#pragma once
// What was found, as a rule table where the language of rules can say it, and in words where it cannot.

#include "kinship/kinship.h"

namespace tandem::kinship {

struct Written {
  RuleTable table;                 ///< architecture "unknown"; keeps the checks of rules.h
  std::vector<std::string> words;  ///< a line each: reshapes, concatenations, copies on the tf side
};

/// Rows for all links and ties of the hf side; with_guesses adds what doubts guess. Sizes stand in numbers
/// (there is no config to name them). A row whose tensors have another dtype than most on the tf side names
/// it. Fields that values cannot tell keep their defaults: trainable, in_graph, optional.
Written write_rules(const Kinship& kinship, bool with_guesses);

/// How parts make the joined tensor: "transpose(1,0)", "stack(24), transpose(1,0)", "concatenate on axis 1".
std::string in_words(const Link& link);

}  // namespace tandem::kinship
