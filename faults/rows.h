#pragma once
// The rows of the table, by kind; registry.cpp puts them together. For this folder.

#include "faults/fault.h"

namespace tandem {

using Hypotheses = std::vector<Hypothesis>;

std::span<const FaultRow> norm_faults();       ///< epsilon, norm_gain
std::span<const FaultRow> rotary_faults();     ///< rotary, position
std::span<const FaultRow> attention_faults();  ///< scale, mask
std::span<const FaultRow> order_faults();      ///< heads, order
std::span<const FaultRow> kernel_faults();     ///< transposition, dropped_bias, head, activation
std::span<const FaultRow> mixture_faults();    ///< experts, routing
std::span<const FaultRow> dtype_faults();      ///< dtype
std::span<const FaultRow> scale_faults();      ///< dropped_scale
std::span<const FaultRow> other_faults();      ///< other: planted only

}  // namespace tandem
