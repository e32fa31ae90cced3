#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace tandem {
namespace {

/// What the kernel says of the first processor; empty where it says nothing.
std::set<std::string> kernel_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(HighwayTargets, AreWhatTheKernelSaysOfTheProcessor) {
  const std::set<std::string> flags = kernel_flags();
  if (flags.empty()) GTEST_SKIP() << "the kernel names no flags";
  const int64_t targets = hwy::SupportedTargets();
  EXPECT_TRUE(targets & HWY_STATIC_TARGET);
#if HWY_ARCH_X86
  const auto has = [&](const char* flag) { return flags.contains(flag); };
  EXPECT_EQ((targets & HWY_AVX2) != 0, has("avx2") && has("bmi2") && has("fma"));
  EXPECT_EQ((targets & HWY_AVX3) != 0, has("avx512bw") && has("avx512vl") && has("avx512dq"));
  EXPECT_EQ((targets & HWY_AVX3_DL) != 0,
            has("vpclmulqdq") && has("avx512_vbmi2") && has("avx512_bitalg") && has("avx512_vnni"));
#endif
}

}  // namespace
}  // namespace tandem
