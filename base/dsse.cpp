#include "base/dsse.h"

#include "base/base64.h"
#include "base/hash.h"

namespace tandem {
namespace {

constexpr size_t kMaxSignatures = 100;

Result<std::string> text_field(const Json& json, const char* name, std::string_view where) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string())
    return corrupt("dsse_c1", "{} has no text \"{}\"", where, name);
  return found->get<std::string>();
}

Result<std::string> base64_field(const Json& json, const char* name, const std::string& where) {
  TANDEM_TRY(const std::string text, text_field(json, name, where));
  auto bytes = from_base64(text);
  if (!bytes.ok()) return Error(bytes.error()).because(fmt::format("in \"{}\" of {}", name, where));
  return bytes;
}

Result<DsseSignature> signature_from(const Json& json, size_t number) {
  const std::string where = fmt::format("signature {}", number);
  if (!json.is_object()) return corrupt("dsse_c1", "{} is no object", where);
  DsseSignature signature;
  if (json.contains("keyid")) {
    TANDEM_TRY(signature.keyid, text_field(json, "keyid", where));
  }
  TANDEM_TRY(signature.signature, base64_field(json, "sig", where));
  return signature;
}

Result<DsseEnvelope> envelope_from(const Json& json) {
  DsseEnvelope envelope;
  if (!json.is_object()) return corrupt("dsse_c1", "not a DSSE envelope: no JSON object");
  TANDEM_TRY(envelope.payload_type, text_field(json, "payloadType", "the envelope"));
  TANDEM_TRY(envelope.payload, base64_field(json, "payload", "the envelope"));
  const auto signatures = json.find("signatures");
  if (signatures == json.end() || !signatures->is_array())
    return corrupt("dsse_c1", "the envelope has no list \"signatures\"");
  if (signatures->size() > kMaxSignatures)
    return corrupt("dsse_c2", "{} signatures, at most {} are read", signatures->size(), kMaxSignatures);
  for (const Json& each : *signatures) {
    TANDEM_TRY(DsseSignature signature, signature_from(each, envelope.signatures.size()));
    envelope.signatures.push_back(std::move(signature));
  }
  return envelope;
}

Json to_json(const DsseSignature& signature) {
  return Json{{"keyid", signature.keyid}, {"sig", to_base64(as_bytes(signature.signature))}};
}

std::string text_of(const Json& json) { return json.dump(1) + "\n"; }

}  // namespace

std::string pre_authentication_encoding(std::string_view payload_type, std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", payload_type.size(), payload_type, payload.size(), payload);
}

std::string to_text(const DsseEnvelope& envelope) {
  Json json{{"payloadType", envelope.payload_type},
            {"payload", to_base64(as_bytes(envelope.payload))},
            {"signatures", Json::array()}};
  for (const DsseSignature& signature : envelope.signatures) json["signatures"].push_back(to_json(signature));
  return text_of(json);
}

Result<DsseEnvelope> envelope_from_text(std::string_view text, size_t max_bytes) {
  TANDEM_TRY(const Json json, parse_json(text, {.max_bytes = max_bytes}));
  return envelope_from(json);
}

Result<std::string> with_signature(std::string_view text, size_t max_bytes, const DsseSignature& signature) {
  TANDEM_TRY(Json json, parse_json(text, {.max_bytes = max_bytes}));
  TANDEM_CHECK(envelope_from(json));
  for (Json& each : json["signatures"]) {
    if (each.value("keyid", "") != signature.keyid) continue;
    each = to_json(signature);
    return text_of(json);
  }
  json["signatures"].push_back(to_json(signature));
  if (json["signatures"].size() > kMaxSignatures)
    return corrupt("dsse_c2", "{} signatures, at most {} are read", json["signatures"].size(),
                   kMaxSignatures);
  return text_of(json);
}

}  // namespace tandem
