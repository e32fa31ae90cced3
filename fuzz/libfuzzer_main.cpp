// What libFuzzer calls, in place of replay_main.cpp. `--seeds FOLDER` writes seeds and corpus to files and
// ends.

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "fuzz/corpus.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  using namespace tandem::fuzz;
  if (*count != 3 || std::strcmp((*words)[1], "--seeds") != 0) return 0;
  const std::string folder = (*words)[2];
  auto inputs = seeds();
  for (std::string& found : corpus()) inputs.push_back(std::move(found));
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::ofstream file(folder + "/" + std::to_string(i), std::ios::binary);
    file << inputs[i];
    if (!file.flush()) std::exit(74);
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  tandem::fuzz::fuzz_one({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
