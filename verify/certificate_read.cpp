// Certificates are bytes from outside: every field is checked before it is used.

#include <set>

#include "verify/certificate.h"

namespace tandem {
namespace {

Error wrong(std::string_view at, std::string_view expected) {
  return corrupt("certificate_c2", "{} is not {}", at, expected);
}

/// A value in the document, and the way to it, for errors.
struct Field {
  const Json& json;
  std::string at;

  Result<Field> operator[](const char* key) const {
    const std::string way = at.empty() ? key : fmt::format("{}.{}", at, key);
    if (!json.is_object()) return wrong(at.empty() ? "the payload" : at, "an object");
    const auto found = json.find(key);
    if (found == json.end()) return corrupt("certificate_c2", "{} is missing", way);
    return Field{*found, way};
  }
  Field item(size_t number) const { return {json[number], fmt::format("{}[{}]", at, number)}; }
};

Result<std::string> text_at(const Field& parent, const char* key) {
  TANDEM_TRY(const Field field, parent[key]);
  if (!field.json.is_string()) return wrong(field.at, "a text");
  return field.json.get<std::string>();
}

Result<uint64_t> number_at(const Field& parent, const char* key) {
  TANDEM_TRY(const Field field, parent[key]);
  if (!field.json.is_number_unsigned()) return wrong(field.at, "a whole number from 0");
  return field.json.get<uint64_t>();
}

Result<std::string> sha256_at(const Field& parent, const char* key) {
  TANDEM_TRY(std::string text, text_at(parent, key));
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != text.npos)
    return wrong(parent.at + "." + key, "64 hex digits");
  return text;
}

Result<Field> list_at(const Field& parent, const char* key) {
  TANDEM_TRY(const Field field, parent[key]);
  if (!field.json.is_array()) return wrong(field.at, "a list");
  return field;
}

Status expect_text(const Field& parent, const char* key, std::string_view expected) {
  TANDEM_TRY(const std::string text, text_at(parent, key));
  if (text == expected) return {};
  return corrupt("certificate_c2", "{} is \"{}\", expected \"{}\"", key, text.substr(0, 80), expected);
}

Result<FileRegion> region_from(const Field& field) {
  FileRegion region;
  TANDEM_TRY(const std::string kind, text_at(field, "kind"));
  const auto known = region_kind_named(kind);
  if (!known) return wrong(field.at + ".kind", "tensor, header, padding or file");
  region.kind = *known;
  if (region.kind == RegionKind::tensor) {
    TANDEM_TRY(region.name, text_at(field, "name"));
  }
  TANDEM_TRY(region.offset, number_at(field, "offset"));
  TANDEM_TRY(region.bytes, number_at(field, "bytes"));
  TANDEM_TRY(region.sha256, sha256_at(field, "sha256"));
  return region;
}

Result<CoveredFile> file_from(const Field& field) {
  CoveredFile file;
  TANDEM_TRY(file.name, text_at(field, "name"));
  if (Status plain = stays_inside(file.name); !plain.ok()) return std::move(plain).error().at(field.at);
  TANDEM_TRY(file.bytes, number_at(field, "bytes"));
  TANDEM_TRY(file.sha256, sha256_at(field, "sha256"));
  TANDEM_TRY(const Field regions, list_at(field, "regions"));
  uint64_t at = 0;
  for (size_t i = 0; i < regions.json.size(); ++i) {
    TANDEM_TRY(FileRegion region, region_from(regions.item(i)));
    if (region.offset != at || region.bytes == 0 || region.bytes > file.bytes - at)
      return corrupt("certificate_c4", "{} is bytes {} and {} more, expected it to begin at {} of {}",
                     regions.item(i).at, region.offset, region.bytes, at, file.bytes);
    at += region.bytes;
    file.regions.push_back(std::move(region));
  }
  if (at != file.bytes)
    return corrupt("certificate_c4", "{} end at byte {}, the file has {}", regions.at, at, file.bytes);
  return file;
}

Result<CoveredSide> side_from(const Field& field) {
  CoveredSide side;
  TANDEM_TRY(side.path, text_at(field, "path"));
  TANDEM_TRY(const std::string covers, text_at(field, "covers"));
  const auto known = covers_named(covers);
  if (!known) return wrong(field.at + ".covers", "folder, file or checkpoint");
  side.covers = *known;
  TANDEM_TRY(const Field files, list_at(field, "files"));
  std::set<std::string> names;
  for (size_t i = 0; i < files.json.size(); ++i) {
    TANDEM_TRY(CoveredFile file, file_from(files.item(i)));
    if (!names.insert(file.name).second)
      return corrupt("certificate_c3", "{}: the file {} stands twice", files.at, file.name);
    side.files.push_back(std::move(file));
  }
  if (side.files.empty()) return corrupt("certificate_c3", "{}: no file is covered", files.at);
  if (side.covers == Covers::file && side.files.size() != 1)
    return corrupt("certificate_c3", "{}: one file is covered, and {} are listed", files.at,
                   side.files.size());
  return side;
}

using Subjects = std::set<std::pair<std::string, std::string>>;  // name, sha256

Result<Subjects> subjects_from(const Field& statement) {
  TANDEM_TRY(const Field list, list_at(statement, "subject"));
  Subjects subjects;
  for (size_t i = 0; i < list.json.size(); ++i) {
    const Field subject = list.item(i);
    TANDEM_TRY(std::string name, text_at(subject, "name"));
    TANDEM_TRY(const Field digest, subject["digest"]);
    TANDEM_TRY(std::string sha256, sha256_at(digest, "sha256"));
    if (!subjects.emplace(std::move(name), std::move(sha256)).second)
      return corrupt("certificate_c3", "{} stands twice", subject.at);
  }
  return subjects;
}

void add_files(const CoveredSide& side, std::string_view prefix, Subjects& subjects) {
  for (const CoveredFile& file : side.files)
    subjects.emplace(fmt::format("{}/{}", prefix, file.name), file.sha256);
}

}  // namespace

Result<Certificate> certificate_of(const DsseEnvelope& envelope) {
  if (envelope.payload_type != kPayloadType)
    return corrupt("certificate_c1", "payloadType is \"{}\", expected \"{}\"",
                   envelope.payload_type.substr(0, 80), kPayloadType);
  TANDEM_TRY(const Json json, parse_json(envelope.payload, {.max_bytes = kMaxCertificateBytes}));
  const Field statement{json, ""};
  TANDEM_CHECK(expect_text(statement, "_type", kStatementType));
  TANDEM_CHECK(expect_text(statement, "predicateType", kPredicateType));
  TANDEM_TRY(const Field predicate, statement["predicate"]);
  Certificate certificate;
  TANDEM_TRY(certificate.tandem_version, text_at(predicate, "tandem"));
  TANDEM_TRY(certificate.made, text_at(predicate, "made"));
  TANDEM_TRY(const Field results, predicate["results"]);
  TANDEM_TRY(const Field equal, results["equal"]);
  if (!equal.json.is_boolean()) return wrong(equal.at, "true or false");
  certificate.equal = equal.json.get<bool>();
  TANDEM_TRY(const Field sides, predicate["sides"]);
  TANDEM_TRY(const Field left, sides["left"]);
  TANDEM_TRY(certificate.left, side_from(left));
  TANDEM_TRY(const Field right, sides["right"]);
  TANDEM_TRY(certificate.right, side_from(right));
  TANDEM_TRY(const Subjects subjects, subjects_from(statement));
  Subjects covered;
  add_files(certificate.left, "left", covered);
  add_files(certificate.right, "right", covered);
  if (subjects != covered)
    return corrupt("certificate_c3", "subject and predicate.sides name other files or hashes");
  return certificate;
}

}  // namespace tandem
