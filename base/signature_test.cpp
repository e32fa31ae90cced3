#include "base/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/base64.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Made once with `openssl ecparam -name prime256v1 -genkey`; the private half was thrown away after
// `printf 'DSSEv1 1 t 1 x' | openssl dgst -sha256 -sign`. The id is `openssl pkey -outform DER | sha256sum`.
constexpr std::string_view kPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGcXDbMISKvNERxpkPZobUWqRG4LK\n"
    "Z05Enf/AXn0QW+OW/sVTqfKR1p/JgQ250BHJ5SoeIL/DyqMl4pPuMo4Sfg==\n"
    "-----END PUBLIC KEY-----\n";
constexpr std::string_view kId = "321be5ef7a43c08167e05d12807a7e6cc4c13eabdf865edf3f5e19db3b97334c";
constexpr std::string_view kMessage = "DSSEv1 1 t 1 x";
constexpr std::string_view kSignature =
    "MEYCIQDSGlWatjyOUyIWYPH2nljl1WC/N+m0m6htax9uavfoMAIhANRJZt9mbGffb2O+LUs0JVuc1eC579aWSPIrq+8MPqGa";

enum class Half { private_half, public_half, encrypted };

/// The PEM text of a key, which is freed.
std::string pem_of(EVP_PKEY* key, Half half) {
  BIO* bio = BIO_new(BIO_s_mem());
  unsigned char password[] = "p";
  if (half == Half::public_half)
    PEM_write_bio_PUBKEY(bio, key);
  else
    PEM_write_bio_PrivateKey(bio, key, half == Half::encrypted ? EVP_aes_128_cbc() : nullptr,
                             half == Half::encrypted ? password : nullptr, 1, nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return text;
}

std::string private_error(std::string_view pem) {
  const auto key = SigningKey::private_from_pem(pem);
  return key.ok() ? "accepted" : key.error().message();
}
std::string public_error(std::string_view pem) {
  const auto key = SigningKey::public_from_pem(pem);
  return key.ok() ? "accepted" : key.error().message();
}

TEST(Signature, OpensslsSignatureIsAccepted) {
  const auto key = SigningKey::public_from_pem(kPublic).value();
  EXPECT_EQ(key.id(), kId);
  EXPECT_TRUE(key.verifies(kMessage, from_base64(kSignature).value()));
}

TEST(Signature, AFlippedBitOfMessageOrSignatureIsFound) {
  const auto key = SigningKey::public_from_pem(kPublic).value();
  const std::string signature = from_base64(kSignature).value();
  for (size_t bit = 0; bit < 8 * signature.size(); ++bit) {
    std::string wrong = signature;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(key.verifies(kMessage, wrong)) << bit;
  }
  for (size_t bit = 0; bit < 8 * kMessage.size(); ++bit) {
    std::string wrong(kMessage);
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(key.verifies(wrong, signature)) << bit;
  }
  EXPECT_FALSE(key.verifies(kMessage, ""));
  EXPECT_FALSE(key.verifies(kMessage, signature + "x"));
}

TEST(Signature, OneHalfSignsAndTheOtherChecks) {
  EVP_PKEY* made = EVP_EC_gen("P-256");
  EVP_PKEY_up_ref(made);
  const auto signer = SigningKey::private_from_pem(pem_of(made, Half::private_half)).value();
  const auto checker = SigningKey::public_from_pem(pem_of(made, Half::public_half)).value();
  EXPECT_EQ(signer.id(), checker.id());
  const std::string message(100'000, 'm');
  const std::string signature = signer.sign(message).value();
  EXPECT_TRUE(checker.verifies(message, signature));
  EXPECT_FALSE(SigningKey::public_from_pem(kPublic).value().verifies(message, signature));
}

TEST(Signature, C1WhatIsNoKeyIsNamedAndNotQuoted) {
  EXPECT_THAT(private_error(""), HasSubstr("signature_c1: no private key in PEM form"));
  EXPECT_THAT(private_error("secret"), Not(HasSubstr("secret")));
  EXPECT_THAT(private_error(kPublic), HasSubstr("no private key but a PEM block \"PUBLIC KEY\""));
  const std::string secret = pem_of(EVP_EC_gen("P-256"), Half::private_half);
  EXPECT_THAT(public_error(secret), HasSubstr("no public key but a PEM block \"PRIVATE KEY\""));
  EXPECT_THAT(public_error(secret), HasSubstr("-pubout"));
  EXPECT_THAT(public_error("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
              HasSubstr("signature_c1"));
}

TEST(Signature, C2AnEncryptedKeyIsSaidToBeSo) {
  EXPECT_THAT(private_error(pem_of(EVP_EC_gen("P-256"), Half::encrypted)),
              HasSubstr("signature_c2: the private key is encrypted (openssl pkey"));
}

TEST(Signature, C3OtherAlgorithmsAndCurvesAreNamed) {
  EXPECT_THAT(private_error(pem_of(EVP_EC_gen("P-384"), Half::private_half)),
              HasSubstr("signature_c3: an EC key on the curve secp384r1, expected an EC key on the curve "
                        "prime256v1"));
  EXPECT_THAT(public_error(pem_of(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), Half::public_half)),
              HasSubstr("signature_c3: an ED25519 key"));
  EXPECT_THAT(private_error(pem_of(EVP_RSA_gen(1024), Half::private_half)),
              HasSubstr("signature_c3: an RSA key"));
}

}  // namespace
}  // namespace tandem
