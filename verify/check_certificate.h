#pragma once
// Does a certificate hold? Its signature, and every byte that it covers.

#include "verify/certificate.h"

namespace tandem {

enum class SignatureState {
  none,         ///< unsigned
  not_checked,  ///< signed, and no key was given
  valid,        ///< by the key that was given
  wrong,        ///< the key is named, but its signature is not one of this payload
  other_key,    ///< signed by other keys only
};
std::string_view name(SignatureState state);  ///< "unsigned", "not checked", "valid", "wrong", "other key"
SignatureState check_signature(const DsseEnvelope& envelope, const SigningKey* key);

struct ChangedFile {
  std::string name;
  uint64_t bytes = 0, bytes_now = 0;
  std::vector<FileRegion> regions;  ///< those that differ or are cut off; none where bytes were added only
};

struct SideCheck {
  std::string path;  ///< where it was looked for
  uint64_t unchanged = 0;
  std::vector<ChangedFile> changed;
  std::vector<std::string> missing, extra;
  bool holds() const { return changed.empty() && missing.empty() && extra.empty(); }
};

/// Hashes every covered file at `path` and says what is different. Files that are as they were are read once,
/// others twice. Errors: those of place_of, path_of and open, but a missing file is a finding; those of
/// `on_bytes`.
Result<SideCheck> check_side(const FileSystem& files, const CoveredSide& side, const std::string& path,
                             const OnBytes& on_bytes = {});

struct CertificateCheck {
  Certificate certificate;
  SignatureState signature = SignatureState::none;
  bool key_given = false;
  std::vector<std::string> keyids;  ///< as the envelope has them
  std::string keyid;                ///< of the key that was given, or empty
  SideCheck left, right;
  bool unchanged() const { return left.holds() && right.holds(); }
  /// What exit code 0 stands for: all files are as they were, signed by the key if one was given, and the
  /// verdict was "equal".
  bool holds() const;
};
Json to_json(const CertificateCheck& check);

struct CheckOptions {
  std::optional<SigningKey> key;
  std::string left, right;  ///< where the sides are now; empty: where they were
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< bytes hashed
};
/// Errors: those of read_text, certificate_of and check_side.
Result<CertificateCheck> check_certificate(const FileSystem& files, const std::string& path,
                                           const CheckOptions& options);

}  // namespace tandem
