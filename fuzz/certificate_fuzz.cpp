#include <cstdlib>

#include "base/base64.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "verify/certificate.h"

namespace tandem::fuzz {
namespace {

constexpr size_t kEnough = 1 << 20;

void check_accepted(const CoveredSide& side) {
  if (side.files.empty()) std::abort();
  for (const CoveredFile& file : side.files) {
    uint64_t at = 0;
    for (const FileRegion& region : file.regions) {
      if (region.offset != at) std::abort();
      at += region.bytes;
    }
    if (at != file.bytes || !stays_inside(file.name).ok()) std::abort();
  }
}

const std::string kHash(64, 'a');

std::string statement() {
  const Json region{{"kind", "tensor"}, {"name", "w"}, {"offset", 0}, {"bytes", 3}, {"sha256", kHash}};
  const Json file{{"name", "f"}, {"bytes", 3}, {"sha256", kHash}, {"regions", {region}}};
  const Json side{{"path", "p"}, {"covers", "folder"}, {"files", {file}}};
  Json subjects = Json::array();
  for (const char* name : {"left/f", "right/f"})
    subjects.push_back(Json{{"name", name}, {"digest", {{"sha256", kHash}}}});
  return Json{{"_type", kStatementType},
              {"subject", subjects},
              {"predicateType", kPredicateType},
              {"predicate",
               {{"tandem", "1"},
                {"made", "now"},
                {"sides", {{"left", side}, {"right", side}}},
                {"results", {{"equal", true}}}}}}
      .dump();
}

}  // namespace

/// An envelope; or, behind a blank, the statement in one.
void fuzz_one(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  DsseEnvelope envelope{std::string(kPayloadType), text, {}};
  if (!text.starts_with(' ')) {
    auto read = envelope_from_text(text, kEnough);
    if (!read.ok()) return;
    envelope = std::move(read).value();
    if (envelope_from_text(to_text(envelope), kEnough * 2).value().payload != envelope.payload) std::abort();
    if (!with_signature(text, kEnough, {"k", "s"}).ok() && envelope.signatures.size() < 100) std::abort();
  }
  const auto certificate = certificate_of(envelope);
  if (!certificate.ok()) return;
  check_accepted(certificate.value().left);
  check_accepted(certificate.value().right);
}

std::vector<std::string> seeds() {
  return {to_text({std::string(kPayloadType), statement(), {{"key", "signature"}}}), " " + statement(),
          R"({"payloadType":"t","payload":"QQ==","signatures":[]})"};
}

}  // namespace tandem::fuzz
