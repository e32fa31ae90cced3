#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tandem {
namespace {

TEST(Error, MessageLeavesEmptyPartsOut) {
  EXPECT_EQ(corrupt({}, "bad {}", 7).message(), "bad 7");
  EXPECT_EQ(corrupt("S2", "too long").at("f.safetensors", 8).because("cut off?").message(),
            "f.safetensors, byte 8: S2: too long (cut off?)");
  EXPECT_EQ(corrupt("S2", "too long").at("inner").at("outer").message(), "inner: S2: too long");
}

TEST(Error, ExitCodesOfKinds) {
  EXPECT_EQ(exit_code(ErrorKind::not_equal), 1);
  EXPECT_EQ(exit_code(ErrorKind::unsupported), 65);
  EXPECT_EQ(exit_code(ErrorKind::unsafe), 77);
  EXPECT_EQ(name(ErrorKind::missing), "missing");
}

TEST(Error, AbsentFilesAreMissingOthersAreIo) {
  EXPECT_EQ(io_error("open", "f", ENOENT).kind, ErrorKind::missing);
  EXPECT_EQ(io_error("open", "f", EACCES).message(), "f: cannot open: Permission denied");
  EXPECT_EQ(io_error("open", "f", EACCES).kind, ErrorKind::io);
}

Result<int> half(int number) {
  if (number % 2) return invalid("odd", "{} is odd", number);
  return number / 2;
}

Result<int> quarter(int number) {
  TANDEM_TRY(const int once, half(number));
  TANDEM_CHECK(half(once));
  return once / 2;
}

TEST(Result, TryAndCheckPassErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().text, "7 is odd");
  EXPECT_EQ(quarter(6).error().text, "3 is odd");
}

}  // namespace
}  // namespace tandem
