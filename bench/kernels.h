#pragma once
// The two inner loops of measure_limits, in the widest vector instructions that the processor has.

#include <cstddef>
#include <string>

namespace tandem {

/// The sum of count floats, which is read once, its four quarters side by side. count must be a multiple of
/// 1024.
float sum_of(const float* values, size_t count);

/// Fused multiply-adds in registers alone, in `rounds` rounds. Returns how many floating-point operations it
/// was (a multiply-add is two).
double multiply_add(size_t rounds);

/// Highway's name of the instructions: "AVX2", "AVX3".
std::string instructions_name();

}  // namespace tandem
