#pragma once
// Proof that two tensors are equal under a layout: every element is compared.

#include "kinship/fingerprint.h"
#include "kinship/layout.h"

namespace tandem::kinship {

/// A whole tensor of one checkpoint.
struct Part {
  const Checkpoint* checkpoint;
  const Weight* weight;
};
/// A box of a tensor of the other checkpoint.
struct Place {
  const Checkpoint* checkpoint;
  const Weight* weight;
  Box box;
};

/// True if the part, in this layout, is the place's elements, both seen in one dtype. `everything` compares
/// all of them, otherwise a few runs do (a quick no). Reads in bounded memory.
Result<bool> equal(const Part& part, const Place& place, const Layout& layout, DType as, bool everything,
                   const Progress& progress);

struct Confirmed {
  Layout layout;
  DType as;
  bool only = true;  ///< no other layout fits (a symmetric matrix is equal to its transpose)
};
/// The first layout that fits, likely ones first (`hint`, of a neighbour, before all), or nothing.
Result<std::optional<Confirmed>> confirm(const Part& part, const Place& place,
                                         const std::optional<Layout>& hint, const Progress& progress);

}  // namespace tandem::kinship
