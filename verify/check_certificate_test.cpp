#include "verify/check_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/fault_files.h"
#include "base/test_folder.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const FileSystem& files = real_files();

CoveredSide covered(const std::string& path) {
  CoveredSide side = cover(files, path).value();
  EXPECT_TRUE(hash(files, side).ok());
  return side;
}

std::string certificate_for(const CoveredSide& left, const CoveredSide& right) {
  CertificateFacts facts;
  facts.tandem_version = "1.2.3";
  facts.left = left;
  facts.right = right;
  facts.report.basis.left_rules_sha256 = facts.report.basis.right_rules_sha256 = std::string(64, '0');
  return certificate_text(facts);
}

class CheckCertificate : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* side : {"a", "b"}) {
      std::filesystem::create_directory(folder_ / side);
      ASSERT_TRUE(write_text(files, folder_ / side + "/config.json", "{}").ok());
    }
    certificate_ = folder_ / "c.json";
    ASSERT_TRUE(
        write_text(files, certificate_, certificate_for(covered(folder_ / "a"), covered(folder_ / "b")))
            .ok());
  }
  TestFolder folder_;
  std::string certificate_;
};

TEST_F(CheckCertificate, WhatWasWrittenIsRead) {
  const auto check = check_certificate(files, certificate_, {}).value();
  EXPECT_EQ(check.certificate.tandem_version, "1.2.3");
  EXPECT_EQ(check.signature, SignatureState::none);
  EXPECT_TRUE(check.unchanged());
  EXPECT_EQ(check.left.unchanged, 1u);
}

TEST_F(CheckCertificate, NothingComparedIsNotEqual) {
  const auto check = check_certificate(files, certificate_, {}).value();  // of an empty report
  EXPECT_FALSE(check.certificate.equal);
  EXPECT_FALSE(check.holds());
}

TEST_F(CheckCertificate, AWholeFileIsNamed) {
  ASSERT_TRUE(write_text(files, folder_ / "b/config.json", "[]").ok());
  const auto check = check_certificate(files, certificate_, {}).value();
  EXPECT_TRUE(check.left.holds());
  ASSERT_EQ(check.right.changed.size(), 1u);
  EXPECT_EQ(check.right.changed[0].regions.at(0).kind, RegionKind::file);
}

TEST_F(CheckCertificate, AFailedReadIsAnErrorAndNoFinding) {
  FaultyFiles faulty;
  const uint64_t reads = [&] {
    EXPECT_TRUE(check_certificate(faulty, certificate_, {}).ok());
    return faulty.count(FileCall::read);
  }();
  ASSERT_GE(reads, 3u);
  for (uint64_t k = 1; k <= reads; ++k) {
    faulty.fail(FileCall::read, k, EIO);
    const auto check = check_certificate(faulty, certificate_, {});
    ASSERT_FALSE(check.ok()) << k;
    EXPECT_EQ(check.error().kind, ErrorKind::io);
  }
}

TEST_F(CheckCertificate, ExtraAndMissingFiles) {
  std::filesystem::rename(folder_ / "a/config.json", folder_ / "a/new.json");
  const auto side = check_certificate(files, certificate_, {}).value().left;
  EXPECT_THAT(side.missing, ElementsAre("config.json"));
  EXPECT_THAT(side.extra, ElementsAre("new.json"));
  EXPECT_FALSE(side.holds());
}

TEST_F(CheckCertificate, ASideThatIsGoneSaysWhichFlagMovesIt) {
  std::filesystem::rename(folder_ / "b", folder_ / "moved");
  const auto gone = check_certificate(files, certificate_, {});
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, ErrorKind::missing);
  EXPECT_THAT(gone.error().message(), HasSubstr("--right PATH says where the right side is now"));
  CheckOptions options;
  options.right = folder_ / "moved";
  EXPECT_TRUE(check_certificate(files, certificate_, options).value().unchanged());
}

TEST(SignatureState, EveryStateHasItsName) {
  EXPECT_EQ(name(SignatureState::none), "unsigned");
  EXPECT_EQ(name(SignatureState::other_key), "other key");
}

}  // namespace
}  // namespace tandem
