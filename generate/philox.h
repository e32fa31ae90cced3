#pragma once
// Philox 4x32-10: numbers by counter, with no state (Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", 2011). docs/sampling.md writes it down.

#include <array>
#include <cstdint>

namespace tandem {

/// Four independent uniform 32-bit numbers for a counter of 128 bits and a key of 64, both least significant
/// word first.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A number of [0, 1), a multiple of 2^-53, for a row's step under a seed.
double uniform(uint64_t seed, uint64_t row, uint64_t step);

}  // namespace tandem
