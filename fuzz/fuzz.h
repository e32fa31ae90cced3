#pragma once
// What a fuzzer of a parser consists of. A *_fuzz.cpp defines both functions; replay_main.cpp drives them,
// and so can any fuzzing engine that calls fuzz_one.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tandem::fuzz {

/// Parses hostile bytes. It must neither crash nor hang, and what it accepts must be readable.
/// `bytes` is a heap block of exactly that size, so that the sanitizer sees a read past it.
void fuzz_one(std::span<const std::byte> bytes);

/// Inputs to start from: good files, and past crashes.
std::vector<std::string> seeds();

}  // namespace tandem::fuzz
