#pragma once
// A signed document: the DSSE envelope. It carries bytes of any type, and signatures of them.
//
//   {"payloadType": TYPE, "payload": BASE64, "signatures": [{"keyid": ID, "sig": BASE64}, ...]}
//
// Signed is not the JSON but the pre-authentication encoding of type and bytes, so that nothing has to be
// parsed before a signature was checked.
// Source: https://github.com/secure-systems-lab/dsse, envelope.md and protocol.md, version 1.

#include "base/json.h"

namespace tandem {

struct DsseSignature {
  std::string keyid;      ///< a hint which key to try; proves nothing
  std::string signature;  ///< its bytes
};

struct DsseEnvelope {
  std::string payload_type;
  std::string payload;  ///< its bytes
  std::vector<DsseSignature> signatures;
};

/// "DSSEv1 SP LENGTH SP type SP LENGTH SP payload": lengths in bytes, decimal. What is signed.
std::string pre_authentication_encoding(std::string_view payload_type, std::string_view payload);

std::string to_text(const DsseEnvelope& envelope);

/// Errors: json_c1..5; dsse_c1 a field that is missing or of another kind; dsse_c2 more than 100 signatures;
/// base64_c1. Fields that the format does not have are ignored, as its text asks.
Result<DsseEnvelope> envelope_from_text(std::string_view text, size_t max_bytes);

/// The text of an envelope with one more signature, or with that of the same keyid replaced; all else as it
/// stands. Errors: as envelope_from_text.
Result<std::string> with_signature(std::string_view text, size_t max_bytes, const DsseSignature& signature);

}  // namespace tandem
