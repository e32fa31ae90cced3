#include "verify/check_certificate.h"

#include <algorithm>
#include <set>

#include "base/signals.h"

namespace tandem {
namespace {

struct StateRow {
  SignatureState state;
  std::string_view name;
};
constexpr StateRow kStates[] = {{SignatureState::none, "unsigned"},
                                {SignatureState::not_checked, "not checked"},
                                {SignatureState::valid, "valid"},
                                {SignatureState::wrong, "wrong"},
                                {SignatureState::other_key, "other key"}};

/// What of a file is not as it was.
Result<ChangedFile> changed_file(const ReadableFile& file, const CoveredFile& covered,
                                 const OnBytes& on_bytes) {
  ChangedFile changed{covered.name, covered.bytes, file.size(), {}};
  TANDEM_TRY(const FileDigests now, digests_of(file, covered.regions, on_bytes));
  for (size_t i = 0; i < covered.regions.size(); ++i)
    if (now.regions[i] != covered.regions[i].sha256) changed.regions.push_back(covered.regions[i]);
  return changed;
}

Status check_file(const FileSystem& files, const CoveredFile& covered, const std::string& path,
                  const OnBytes& on_bytes, SideCheck& side) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::absent) {
    side.missing.push_back(covered.name);
    return {};
  }
  TANDEM_TRY(const auto file, files.open(path));
  if (file->size() == covered.bytes) {
    TANDEM_TRY(const FileDigests now, digests_of(*file, {}, on_bytes));
    side.unchanged += now.whole == covered.sha256;
    if (now.whole == covered.sha256) return {};
  }
  TANDEM_TRY(ChangedFile changed, changed_file(*file, covered, on_bytes));
  side.changed.push_back(std::move(changed));
  return {};
}

Json to_json(const ChangedFile& file) {
  Json regions = Json::array();
  for (const FileRegion& region : file.regions) {
    Json json{{"kind", name(region.kind)}, {"offset", region.offset}, {"bytes", region.bytes}};
    if (!region.name.empty()) json["name"] = region.name;
    regions.push_back(std::move(json));
  }
  return Json{{"file", file.name},
              {"bytes", file.bytes},
              {"bytes_now", file.bytes_now},
              {"regions", std::move(regions)}};
}

Json to_json(const SideCheck& side) {
  Json changed = Json::array();
  for (const ChangedFile& file : side.changed) changed.push_back(to_json(file));
  return Json{{"path", side.path},
              {"unchanged", side.unchanged},
              {"changed", std::move(changed)},
              {"missing", side.missing},
              {"extra", side.extra}};
}

Result<SideCheck> check_named_side(const FileSystem& files, const CoveredSide& side,
                                   const std::string& moved_to, std::string_view which,
                                   const OnBytes& on_bytes) {
  auto checked = check_side(files, side, moved_to.empty() ? side.path : moved_to, on_bytes);
  if (!checked.ok() && checked.error().kind == ErrorKind::missing && moved_to.empty())
    return Error(checked.error())
        .because(fmt::format("--{} PATH says where the {} side is now", which, which));
  return checked;
}

}  // namespace

std::string_view name(SignatureState state) {
  return std::find_if(std::begin(kStates), std::end(kStates),
                      [&](const StateRow& row) { return row.state == state; })
      ->name;
}

SignatureState check_signature(const DsseEnvelope& envelope, const SigningKey* key) {
  if (envelope.signatures.empty()) return SignatureState::none;
  if (!key) return SignatureState::not_checked;
  const std::string message = pre_authentication_encoding(envelope.payload_type, envelope.payload);
  bool is_named = false;
  for (const DsseSignature& each : envelope.signatures) {  // keyid is a hint alone: all are tried
    if (key->verifies(message, each.signature)) return SignatureState::valid;
    is_named |= each.keyid == key->id();
  }
  return is_named ? SignatureState::wrong : SignatureState::other_key;
}

Result<SideCheck> check_side(const FileSystem& files, const CoveredSide& side, const std::string& path,
                             const OnBytes& on_bytes) {
  SideCheck check;
  check.path = path;
  TANDEM_TRY(const CoveredPlace place, place_of(files, side, path));
  std::set<std::string> known;
  for (const CoveredFile& file : side.files) {
    TANDEM_TRY(const std::string at, path_of(files, place, file.name));
    TANDEM_CHECK(check_file(files, file, at, on_bytes, check));
    known.insert(file.name);
  }
  TANDEM_TRY(const std::vector<std::string> names, names_at(files, place, side));
  for (const std::string& each : names)
    if (!known.contains(each)) check.extra.push_back(each);
  return check;
}

bool CertificateCheck::holds() const {
  return unchanged() && certificate.equal && (!key_given || signature == SignatureState::valid);
}

Json to_json(const CertificateCheck& check) {
  Json signature{{"state", name(check.signature)}, {"keyids", check.keyids}};
  if (check.key_given) signature["key"] = check.keyid;
  return Json{{"holds", check.holds()},
              {"unchanged", check.unchanged()},
              {"equal", check.certificate.equal},
              {"tandem", check.certificate.tandem_version},
              {"made", check.certificate.made},
              {"signature", std::move(signature)},
              {"sides", {{"left", to_json(check.left)}, {"right", to_json(check.right)}}}};
}

Result<CertificateCheck> check_certificate(const FileSystem& files, const std::string& path,
                                           const CheckOptions& options) {
  TANDEM_TRY(const std::string text, read_text(files, path, kMaxCertificateBytes));
  auto envelope = envelope_from_text(text, kMaxCertificateBytes);
  if (!envelope.ok()) return std::move(envelope).error().at(path);
  CertificateCheck check;
  auto certificate = certificate_of(envelope.value());
  if (!certificate.ok()) return std::move(certificate).error().at(path);
  check.certificate = std::move(certificate).value();
  check.key_given = options.key.has_value();
  check.keyid = options.key ? options.key->id() : "";
  for (const DsseSignature& each : envelope.value().signatures) check.keyids.push_back(each.keyid);
  check.signature = check_signature(envelope.value(), options.key ? &*options.key : nullptr);

  const CoveredSide &left = check.certificate.left, &right = check.certificate.right;
  uint64_t done = 0;
  const OnBytes on_bytes = [&, total = total_bytes(left) + total_bytes(right)](uint64_t bytes) -> Status {
    done += bytes;
    if (interrupted()) return unavailable("", "stopped by a signal");
    if (options.progress) options.progress(std::min(done, total), total);
    return {};
  };
  TANDEM_TRY(check.left, check_named_side(files, left, options.left, "left", on_bytes));
  TANDEM_TRY(check.right, check_named_side(files, right, options.right, "right", on_bytes));
  return check;
}

}  // namespace tandem
