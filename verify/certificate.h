#pragma once
// The certificate of a verification: an in-toto statement in a DSSE envelope. It says what was compared, how,
// and with what result, so that others can check the signature and every byte of the files.
// docs/certificate.md has the format, docs/schemas/certificate.schema.json its schema.

#include "base/dsse.h"
#include "base/signature.h"
#include "verify/covered_files.h"
#include "verify/verify.h"

namespace tandem {

inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
inline constexpr std::string_view kPredicateType = "https://tandem.dev/verification/v1";
/// A certificate takes about 200 bytes a tensor and side.
inline constexpr uint64_t kMaxCertificateBytes = 200'000'000;

/// What a certificate is made of.
struct CertificateFacts {
  std::string tandem_version;
  CoveredSide left, right;  ///< hashed
  VerifyReport report;
  int threads = 0;  ///< that each engine was given; 0: the framework's default
};
/// An unsigned envelope, as text.
std::string certificate_text(const CertificateFacts& facts);

/// What a certificate says, as far as it can be checked.
struct Certificate {
  std::string tandem_version;
  std::string made;  ///< UTC, RFC 3339
  bool equal = false;
  CoveredSide left, right;
};
/// Reads and checks an envelope. Errors: those of envelope_from_text; certificate_c1 a payload of another
/// type; certificate_c2 a statement or predicate of another type or version, or a field that is missing or
/// wrong, by its path; certificate_c3 subjects and files of the sides differ; certificate_c4 regions do not
/// cover their file; X1 (unsafe) a name that leaves its folder.
Result<Certificate> certificate_of(const DsseEnvelope& envelope);

/// Verifies, and writes the certificate to `out`, whatever the verdict. Files are listed before they are
/// compared, and hashed after; one that was written to in between is an error, as is an `out` that lies
/// inside a side's folder (it would be a file of the side). `out` holds its old content or all of the new.
/// Errors: those of verify, cover and hash; usage (certificate_c5) for such an `out`; exists.
struct CertifyOptions {
  std::string out;
  std::string tandem_version;
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< bytes hashed
};
Result<VerifyReport> verify_and_certify(const FileSystem& files, const SideSpec& left, const SideSpec& right,
                                        const VerifyOptions& options, const CertifyOptions& certify);

/// Signs the certificate at `path`, into `out` (which may be `path`). A signature of the same key is
/// replaced. Errors: those of read_text, certificate_of and replace_text.
struct Signed {
  size_t signatures = 0;  ///< there now
  bool replaced = false;
};
Result<Signed> sign_certificate(const FileSystem& files, const std::string& path, const SigningKey& key,
                                const std::string& out);

}  // namespace tandem
