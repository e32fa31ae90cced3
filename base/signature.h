#pragma once
// Signatures: ECDSA over the curve P-256 with SHA-256, by OpenSSL. Keys as PEM, signatures as DER, so that
// the openssl program makes and checks the same ones.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

/// A key of either half. Copies share it; calls may come from several threads.
class SigningKey {
 public:
  /// Errors: signature_c1 no key of that half in the text (another thing in PEM is named); signature_c2 an
  /// encrypted private key; signature_c3 another algorithm or curve, named. No error quotes the text.
  static Result<SigningKey> private_from_pem(std::string_view pem);
  static Result<SigningKey> public_from_pem(std::string_view pem);

  /// SHA-256 of the public half's SubjectPublicKeyInfo in DER, 64 hex digits.
  const std::string& id() const { return id_; }
  /// DER of a fresh signature. Only with the private half. Errors: bug.
  Result<std::string> sign(std::string_view message) const;
  /// The signature is one of this message by this key.
  bool verifies(std::string_view message, std::string_view signature) const;

 private:
  SigningKey(std::shared_ptr<void> key, std::string id) : key_(std::move(key)), id_(std::move(id)) {}
  static Result<SigningKey> checked(std::shared_ptr<void> key);
  std::shared_ptr<void> key_;  // EVP_PKEY
  std::string id_;
};

}  // namespace tandem
