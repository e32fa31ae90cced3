// Runs a fuzzer without a fuzzing engine: over the files that are named, or else over its seeds, its corpus
// and mutants of the seeds. The mutants are the same in every run; `--seconds N [SEED]` makes others for that
// long, and leaves the input of the moment in ./NAME.last, where a crash finds it.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz/corpus.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

void run(const std::string& input) {
  std::vector<std::byte> block(input.size());
  if (!input.empty()) std::memcpy(block.data(), input.data(), input.size());
  fuzz_one(block);
}

std::string mutant(std::string input, const std::vector<std::string>& all, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  for (uint64_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(input.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(random());
        break;
      case 2:
        input.resize(at);
        break;
      case 3:
        input.insert(at, 1 + below(8), static_cast<char>(random()));
        break;
      case 4:
        input.erase(at, below(16));
        break;
      default: {
        const std::string& other = all[below(all.size())];
        input.insert(at, other, below(other.size() + 1), below(32));
      }
    }
  }
  return input;
}

/// Mutants of mutants too: each seed's line goes on until it is dropped at random.
int run_for(double seconds, uint64_t seed, const std::string& last) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const auto all = seeds();
  std::mt19937_64 random(seed);
  std::string input;
  uint64_t count = 0;
  double slowest = 0;
  for (; Clock::now() < end; ++count) {
    if (input.empty() || random() % 8 == 0) input = all[random() % all.size()];
    input = mutant(std::move(input), all, random);
    std::ofstream(last, std::ios::binary) << input;
    const auto began = Clock::now();
    run(input);
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - began).count());
  }
  fmt::print("{} inputs in {} s from seed {}, the slowest {:.2f} s\n", count, seconds, seed, slowest);
  return 0;
}

}  // namespace
}  // namespace tandem::fuzz

int main(int argc, char** argv) {
  using namespace tandem::fuzz;
  if (argc > 2 && std::string_view(argv[1]) == "--seconds") {
    const std::string program = argv[0];
    return run_for(std::atof(argv[2]), argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1,
                   program.substr(program.rfind('/') + 1) + ".last");
  }
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      fmt::print(stderr, "cannot read {}\n", argv[i]);
      return 66;
    }
    run({std::istreambuf_iterator<char>(file), {}});
  }
  if (argc > 1) return 0;
  const auto all = seeds();
  constexpr int kMutantsPerSeed = 20'000;
  std::mt19937_64 random(1);
  for (const std::string& seed : all) {
    run(seed);
    for (int i = 0; i < kMutantsPerSeed; ++i) run(mutant(seed, all, random));
  }
  const auto found = corpus();
  for (const std::string& input : found) run(input);
  fmt::print("{} seeds, {} mutants, {} inputs of the corpus\n", all.size(), all.size() * kMutantsPerSeed,
             found.size());
  return 0;
}
