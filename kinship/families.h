#pragma once
// Names that differ in their numbers alone, put together: "layers.0.up", "layers.1.up" are
// "layers.{layer}.up" for layers 0 to 1.

#include <map>
#include <string>
#include <vector>

#include "rules/rules.h"

namespace tandem::kinship {

/// Names that belong together (a Hugging Face and a TensorFlow name), and what must be the same in a family.
/// Text in braces is kept as it is.
struct Named {
  std::vector<std::string> names;
  std::string key;
};

struct Family {
  std::vector<std::string> patterns;       ///< as many as a member has names
  std::map<std::string, HoleRange> holes;  ///< each stands in every pattern; every value occurs
  std::vector<size_t> members;             ///< into the list given
};

/// Puts every item into one family. A number that varies becomes a hole where it has the same value in all
/// names of an item, named by the word before it ("layers.3": layer). Where numbers of two names go their
/// own ways (one counts from 1) each item stays by itself. A single item takes a hole that others have at
/// the same place: layer 0 alone is {layer} in [0, 1) if there are other layers.
std::vector<Family> families(const std::vector<Named>& items);

/// The number in which names differ, replaced by a hole: "e.0.up", "e.1.up" make "e.{e}.up", begin 0. Nothing
/// unless the numbers are consecutive, in order, and the only difference. Of a single name it is the number
/// behind the word "expert" or "experts".
struct Numbered {
  std::string pattern, hole;
  uint64_t begin = 0;
};
std::optional<Numbered> numbered(const std::vector<std::string>& names);

}  // namespace tandem::kinship
