#include "generate/philox.h"

namespace tandem {
namespace {

uint32_t low(uint64_t number) { return static_cast<uint32_t>(number); }
uint32_t high(uint64_t number) { return static_cast<uint32_t>(number >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double uniform(uint64_t seed, uint64_t row, uint64_t step) {
  const auto words = philox({low(step), high(step), low(row), high(row)}, {low(seed), high(seed)});
  const uint64_t bits = uint64_t{words[1]} << 32 | words[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace tandem
