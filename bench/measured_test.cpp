#include "bench/measured.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

namespace tandem {
namespace {

TEST(MeasureInChild, SecondsAreTheWorksOwnIfItKnowsThem) {
  EXPECT_EQ(measure_in_child([]() -> Result<double> { return 2.5; }).value().seconds, 2.5);
  const auto sleep = []() -> Result<double> {
    ::usleep(20'000);
    return 0.0;
  };
  EXPECT_GE(measure_in_child(sleep).value().seconds, 0.02);
}

TEST(MeasureInChild, PeakIsThatOfTheChild) {
  const auto work = []() -> Result<double> {
    const std::vector<char> memory(64 << 20, 1);
    return memory.back() == 1 ? 0.0 : 1.0;
  };
  EXPECT_GT(measure_in_child(work).value().peak_bytes, 64u << 20);
}

TEST(MeasureInChild, AnErrorArrivesWhole) {
  const Error error = io_error("write", "a/b", ENOSPC).because("make room");
  const auto failed = measure_in_child([&]() -> Result<double> { return error; });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  EXPECT_EQ(failed.error().message(), error.message());
}

TEST(MeasureInChild, ADeathIsTold) {
  const auto died = measure_in_child([]() -> Result<double> {
    ::raise(SIGKILL);
    return 0.0;
  });
  ASSERT_FALSE(died.ok());
  EXPECT_EQ(died.error().text, "the measured process died (Killed)");
}

}  // namespace
}  // namespace tandem
