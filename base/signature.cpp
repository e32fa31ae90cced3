#include "base/signature.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <climits>
#include <vector>

#include "base/hash.h"

namespace tandem {
namespace {

constexpr std::string_view kCurve = "prime256v1";  // OpenSSL's name of P-256

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

EVP_PKEY* raw(const std::shared_ptr<void>& key) { return static_cast<EVP_PKEY*>(key.get()); }
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// What the first PEM block calls itself: "EC PRIVATE KEY"; empty if there is none.
std::string_view label_of(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  const size_t at = pem.find(kBegin);
  if (at == pem.npos) return {};
  pem.remove_prefix(at + kBegin.size());
  constexpr size_t kLongest = 40;
  const size_t end = pem.substr(0, kLongest).find("-----");
  return end == pem.npos ? std::string_view() : pem.substr(0, end);
}

Error no_key(std::string_view pem, std::string_view half, std::string_view hint) {
  const std::string_view label = label_of(pem);
  if (label.empty()) return invalid("signature_c1", "no {} key in PEM form", half).because(std::string(hint));
  return invalid("signature_c1", "no {} key but a PEM block \"{}\"", half, label).because(std::string(hint));
}

/// OpenSSL's question for the password of an encrypted key: noted, and not answered.
int note_encrypted(char*, int, int, void* encrypted) {
  *static_cast<bool*>(encrypted) = true;
  return -1;
}

std::shared_ptr<void> owned(EVP_PKEY* key) {
  return {key, [](void* k) { EVP_PKEY_free(static_cast<EVP_PKEY*>(k)); }};
}

std::string kind_of(EVP_PKEY* key) {
  const char* type = EVP_PKEY_get0_type_name(key);
  std::array<char, 80> group{};
  size_t length = 0;
  if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
      EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) == 1)
    return fmt::format("EC key on the curve {}", std::string_view(group.data(), length));
  return fmt::format("{} key", type ? type : "unknown");
}

std::string public_der(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return {};
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return bytes;
}

Bio memory(std::string_view pem) {
  const size_t size = std::min<size_t>(pem.size(), INT_MAX);
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(size)), &BIO_free};
}

}  // namespace

Result<SigningKey> SigningKey::checked(std::shared_ptr<void> key) {
  const std::string kind = kind_of(raw(key));
  if (kind != fmt::format("EC key on the curve {}", kCurve))
    return unsupported("signature_c3", "an {}, expected an EC key on the curve {}", kind, kCurve)
        .because("openssl ecparam -name prime256v1 -genkey -noout -out private.pem makes one");
  const std::string der = public_der(raw(key));
  if (der.empty()) return invalid("signature_c1", "the key has no public half");
  return SigningKey(std::move(key), sha256_hex(as_bytes(der)));
}

Result<SigningKey> SigningKey::private_from_pem(std::string_view pem) {
  const Bio bio = memory(pem);
  bool encrypted = false;
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio.get(), nullptr, note_encrypted, &encrypted);
  ERR_clear_error();
  if (encrypted)
    return unsupported("signature_c2", "the private key is encrypted")
        .because("openssl pkey -in KEY -out PLAIN.pem decrypts it");
  if (!key) return no_key(pem, "private", "the key that signs, as openssl ecparam -genkey writes it");
  return checked(owned(key));
}

Result<SigningKey> SigningKey::public_from_pem(std::string_view pem) {
  const Bio bio = memory(pem);
  EVP_PKEY* key = PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr);
  ERR_clear_error();
  if (!key) return no_key(pem, "public", "openssl pkey -in PRIVATE.pem -pubout writes the public half");
  return checked(owned(key));
}

Result<std::string> SigningKey::sign(std::string_view message) const {
  const Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  size_t size = 0;
  std::string signature;
  bool done = EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, raw(key_)) == 1 &&
              EVP_DigestSign(context.get(), nullptr, &size, bytes_of(message), message.size()) == 1;
  if (done) {
    signature.resize(size);
    done = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                          bytes_of(message), message.size()) == 1;
    signature.resize(size);
  }
  ERR_clear_error();
  if (!done) return bug("", "OpenSSL could not sign with key {}", id_);
  return signature;
}

bool SigningKey::verifies(std::string_view message, std::string_view signature) const {
  const Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const bool valid = EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, raw(key_)) == 1 &&
                     EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                                      message.size()) == 1;
  ERR_clear_error();
  return valid;
}

}  // namespace tandem
