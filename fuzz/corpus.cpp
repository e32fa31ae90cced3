#include "fuzz/corpus.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "base/base64.h"

namespace tandem::fuzz {

std::vector<std::string> corpus() {
  std::vector<std::string> found;
  std::ifstream file(TANDEM_FUZZ_CORPUS);
  for (std::string line; std::getline(file, line);) {
    auto bytes = from_base64(line);
    if (!bytes.ok()) {
      fmt::print(stderr, "{}, line {}: {}\n", TANDEM_FUZZ_CORPUS, found.size() + 1, bytes.error().message());
      std::abort();
    }
    found.push_back(std::move(bytes).value());
  }
  return found;
}

}  // namespace tandem::fuzz
