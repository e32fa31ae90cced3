#include "bench/limits.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "bench/kernels.h"

namespace tandem {
namespace {

TEST(Kernels, TheSumIsOfAllValues) {
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
  float expected = 0;
  for (const float value : values) expected += value;
  EXPECT_EQ(sum_of(values.data(), values.size()), expected);  // small whole numbers: exact in any order
}

TEST(Kernels, OperationsGrowWithRounds) {
  EXPECT_EQ(multiply_add(20), 2 * multiply_add(10));
  EXPECT_GE(multiply_add(1), 2.0 * 10 * 4);  // four lanes at least
}

TEST(Limits, AreMeasuredAndPlausible) {
  const LimitOptions options{1, testing::TempDir(), 64 << 20, 16 << 20, {}};
  const auto limits = measure_limits(options);
  ASSERT_TRUE(limits.ok()) << limits.error().message();
  EXPECT_EQ(limits.value().threads, 1);
  EXPECT_FALSE(limits.value().instructions.empty());
  // From the slowest machine that anybody has to one that nobody has.
  EXPECT_GT(limits.value().memory_bytes_per_s, 1e8);
  EXPECT_LT(limits.value().memory_bytes_per_s, 1e13);
  EXPECT_GT(limits.value().float32_per_s, 1e8);
  EXPECT_LT(limits.value().float32_per_s, 1e13);
  EXPECT_GT(limits.value().disk_write_bytes_per_s, 1e5);
  EXPECT_GT(limits.value().disk_read_bytes_per_s, 1e5);
  EXPECT_GT(limits.value().sha256_bytes_per_s, 1e6);
  EXPECT_LT(limits.value().sha256_bytes_per_s, 1e11);
}

TEST(Limits, AreReadAsTheyAreWritten) {
  Limits limits;
  limits.disk_read_bytes_per_s = 2.5e9;
  limits.sha256_bytes_per_s = 1e9;
  EXPECT_EQ(limits_from_text(to_json(limits).dump()).value().disk_read_bytes_per_s, 2.5e9);
  Json older = to_json(limits);
  older.erase("sha256_bytes_per_s");
  EXPECT_EQ(limits_from_text(older.dump()).value().sha256_bytes_per_s, 0);
  older["disk_write_bytes_per_s"] = -1;
  EXPECT_EQ(limits_from_text(older.dump()).error().message(),
            "bench_c3: not the limits of a machine: \"disk_write_bytes_per_s\" is no number from 0 (tandem "
            "bench limits --json)");
  EXPECT_EQ(limits_from_text("[]").error().rule, "bench_c3");
}

TEST(Limits, TheBestPassIsNotSlowerThanTheMedian) {
  const auto limits = measure_limits({1, ".", 64 << 20, 0, {}});
  ASSERT_TRUE(limits.ok()) << limits.error().message();
  EXPECT_GT(limits.value().memory_median, 0);
  EXPECT_GT(limits.value().float32_median, 0);
  EXPECT_GE(limits.value().memory_bytes_per_s, limits.value().memory_median);
  EXPECT_GE(limits.value().float32_per_s, limits.value().float32_median);
}

/// A kernel's folder of processors, as text: {"cpu0/cache/index3/size", "32768K"}.
std::string processors_folder(const std::string& name, const std::map<std::string, std::string>& files) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  for (const auto& [path, text] : files) {
    std::filesystem::create_directories((folder / path).parent_path());
    std::ofstream(folder / path) << text << "\n";
  }
  return folder.string();
}

std::map<std::string, std::string> cache(const std::string& processor, int index, int level, const char* size,
                                         const char* shared) {
  const std::string folder = processor + "/cache/index" + std::to_string(index);
  return {{folder + "/level", std::to_string(level)},
          {folder + "/size", size},
          {folder + "/shared_cpu_list", shared}};
}

TEST(Limits, MemoryIsFarLargerThanAllLastLevelCaches) {
  std::map<std::string, std::string> files;
  for (const auto& some : {cache("cpu0", 0, 1, "48K", "0"), cache("cpu0", 3, 3, "98304K", "0-1"),
                           cache("cpu1", 3, 3, "98304K", "0-1"), cache("cpu2", 3, 3, "65536K", "2"),
                           cache("cpu2", 2, 2, "1024K", "2")})
    files.insert(some.begin(), some.end());
  files["cpufreq/boost"] = "1";
  EXPECT_EQ(cache_bytes(processors_folder("limits-caches", files)), (96u + 64) << 20);
  EXPECT_EQ(cache_bytes("/nowhere"), 0u);
  EXPECT_EQ(memory_to_read(0), 512u << 20);
  EXPECT_EQ(memory_to_read(160 << 20), uint64_t{1280} << 20);
}

TEST(Limits, NoDiskIsMeasuredWithoutBytes) {
  const auto limits = measure_limits({1, "/nowhere", 8 << 20, 0, {}});
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits.value().disk_read_bytes_per_s, 0);
}

TEST(Limits, AFolderThatIsNotThereIsNamed) {
  const auto limits = measure_limits({1, "/nowhere", 8 << 20, 1 << 20, {}});
  ASSERT_FALSE(limits.ok());
  EXPECT_THAT(limits.error().message(), testing::HasSubstr("/nowhere"));
}

TEST(Limits, OptionsOutOfRange) {
  EXPECT_EQ(measure_limits({-1, ".", 8 << 20, 0, {}}).error().rule, "bench_c1");
  EXPECT_EQ(measure_limits({64, ".", 8 << 20, 0, {}}).error().rule, "bench_c1");
}

}  // namespace
}  // namespace tandem
