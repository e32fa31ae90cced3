#include "bench/passes.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <set>
#include <thread>

namespace tandem {
namespace {

TEST(Passes, EachThreadHasAProcessorOfItsOwn) {
  const auto processors = processors_by_core();
  ASSERT_FALSE(processors.empty());
  std::vector<std::set<int>> seen(processors.size());
  const auto rate = rate_of_passes(
      {static_cast<int>(processors.size()), 0, 5}, 1, [](int) {},
      [&](int thread, size_t) { seen[static_cast<size_t>(thread)].insert(sched_getcpu()); });
  ASSERT_TRUE(rate.ok());
  EXPECT_EQ(rate.value().passes, 5u);
  std::vector<int> found;
  for (const auto& processors_of_one : seen) {
    ASSERT_EQ(processors_of_one.size(), 1u);
    found.push_back(*processors_of_one.begin());
  }
  EXPECT_EQ(found, processors);
}

TEST(Passes, ARateIsOfTheSlowestThread) {
  const auto rate = rate_of_passes(
      {2, 0, 3}, 10, [](int) {},
      [](int thread, size_t) {
        if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      });
  ASSERT_TRUE(rate.ok());
  EXPECT_LE(rate.value().best, 10 / 0.020);
}

TEST(Passes, GoOnForAsLongAsIsAsked) {
  size_t passes = 0;
  const auto rate = rate_of_passes(
      {1, 0.05, 1}, 1, [](int) {},
      [&](int, size_t pass) {
        EXPECT_EQ(pass, passes++);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
  ASSERT_TRUE(rate.ok());
  EXPECT_EQ(rate.value().passes, passes);
  EXPECT_GT(passes, 2u);
}

}  // namespace
}  // namespace tandem
