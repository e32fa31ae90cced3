#include "verify/certificate.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/signals.h"

namespace tandem {
namespace {

/// The processor's name, as Linux tells it.
std::string processor_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string now() {
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds));
}

Json to_json(const FileRegion& region) {
  Json json{{"kind", name(region.kind)}};
  if (!region.name.empty()) json["name"] = region.name;
  json["offset"] = region.offset;
  json["bytes"] = region.bytes;
  json["sha256"] = region.sha256;
  return json;
}

Json to_json(const CoveredSide& side) {
  Json files = Json::array();
  for (const CoveredFile& file : side.files) {
    Json regions = Json::array();
    for (const FileRegion& region : file.regions) regions.push_back(to_json(region));
    files.push_back(Json{{"name", file.name},
                         {"bytes", file.bytes},
                         {"sha256", file.sha256},
                         {"regions", std::move(regions)}});
  }
  return Json{{"path", side.path}, {"covers", name(side.covers)}, {"files", std::move(files)}};
}

void add_subjects(const CoveredSide& side, std::string_view prefix, Json& subjects) {
  for (const CoveredFile& file : side.files)
    subjects.push_back(
        Json{{"name", fmt::format("{}/{}", prefix, file.name)}, {"digest", {{"sha256", file.sha256}}}});
}

Json bars() {
  Json rows = Json::array();
  for (const Tolerance& tolerance : kTolerances)
    rows.push_back(Json{{"dtype", row(tolerance.dtype).long_name},
                        {"max_abs_error", tolerance.max_abs_error},
                        {"max_kl", tolerance.max_kl},
                        {"top1_gap", tolerance.top1_gap},
                        {"routing_margin", tolerance.routing_margin},
                        {"routing_share", tolerance.routing_share},
                        {"reason", tolerance.reason}});
  return Json{{"by_dtype", std::move(rows)},
              {"from_float64",
               {{"factor", kExactFactor}, {"floor", kExactFloor}, {"reference_share", kReferenceShare}}}};
}

Json how(const CertificateFacts& facts) {
  const VerifyReport& report = facts.report;
  Json prompts = Json::array();
  for (const PromptSet& set : report.basis.prompts) prompts.push_back(to_json(set));
  return Json{{"rules",
               {{"left", {{"sha256", report.basis.left_rules_sha256}}},
                {"right", {{"sha256", report.basis.right_rules_sha256}}}}},
              {"engines", {{"left", report.left}, {"right", report.right}}},
              {"processor", processor_model()},
              {"processors", std::thread::hardware_concurrency()},
              {"threads", facts.threads ? Json(facts.threads) : Json()},
              {"tf32", "off"},
              {"prompts", std::move(prompts)},
              {"bars", bars()}};
}

std::string payload_of(const CertificateFacts& facts) {
  Json subjects = Json::array();
  add_subjects(facts.left, "left", subjects);
  add_subjects(facts.right, "right", subjects);
  const Json statement{{"_type", kStatementType},
                       {"subject", std::move(subjects)},
                       {"predicateType", kPredicateType},
                       {"predicate",
                        {{"tandem", facts.tandem_version},
                         {"made", now()},
                         {"sides", {{"left", to_json(facts.left)}, {"right", to_json(facts.right)}}},
                         {"how", how(facts)},
                         {"results", to_json(facts.report)}}}};
  // Names of tensors may hold any bytes; those of files are UTF-8 (covered_c1).
  return statement.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The real path of what a path stands for; of a prefix or a new file, that of its folder and its name.
std::string real_path(const FileSystem& files, const std::string& path) {
  if (const auto real = files.resolve(path); real.ok()) return real.value();
  const size_t slash = path.rfind('/');
  const auto folder = files.resolve(slash == path.npos ? "." : path.substr(0, slash + 1));
  return join(folder.ok() ? folder.value() : ".", path.substr(slash + 1));
}

Status lies_outside(const FileSystem& files, const std::string& out, const CoveredSide& side) {
  TANDEM_TRY(const CoveredPlace place, place_of(files, side, side.path));
  const std::string real = real_path(files, out), folder = real_path(files, place.folder);
  const bool is_a_file = std::any_of(side.files.begin(), side.files.end(), [&](const CoveredFile& file) {
    return real_path(files, join(folder, file.name)) == real;
  });
  if (!is_a_file && (side.covers != Covers::folder || !real.starts_with(folder + "/"))) return {};
  return usage("certificate_c5", "the certificate {} would be a file of what it covers, {}", out, side.path)
      .because("write it beside the model, not into it");
}

/// Found before hours of comparing: no folder to write into, or a folder in the way.
Status can_be_written(const FileSystem& files, const std::string& out) {
  const size_t slash = out.rfind('/');
  TANDEM_TRY(const PathKind folder, files.kind(slash == out.npos ? "." : out.substr(0, slash + 1)));
  if (folder != PathKind::directory) return exists("", "cannot create: there is no such folder").at(out);
  TANDEM_TRY(const PathKind kind, files.kind(out));
  if (kind == PathKind::directory) return exists("", "is a folder").at(out);
  return {};
}

}  // namespace

std::string certificate_text(const CertificateFacts& facts) {
  return to_text(DsseEnvelope{std::string(kPayloadType), payload_of(facts), {}});
}

Result<VerifyReport> verify_and_certify(const FileSystem& files, const SideSpec& left, const SideSpec& right,
                                        const VerifyOptions& options, const CertifyOptions& certify) {
  TANDEM_CHECK(can_be_written(files, certify.out));
  CertificateFacts facts;
  facts.tandem_version = certify.tandem_version;
  facts.threads = options.engine.threads;
  TANDEM_TRY(facts.left, cover(files, left.path, options.limits));
  TANDEM_TRY(facts.right, cover(files, right.path, options.limits));
  TANDEM_CHECK(lies_outside(files, certify.out, facts.left));
  TANDEM_CHECK(lies_outside(files, certify.out, facts.right));
  TANDEM_TRY(facts.report, verify(files, left, right, options));
  const uint64_t total = total_bytes(facts.left) + total_bytes(facts.right);
  uint64_t done = 0;
  const OnBytes on_bytes = [&](uint64_t bytes) -> Status {
    done += bytes;
    if (interrupted()) return unavailable("", "stopped by a signal; no certificate was written");
    if (certify.progress) certify.progress(done, total);
    return {};
  };
  TANDEM_CHECK(hash(files, facts.left, on_bytes));
  TANDEM_CHECK(hash(files, facts.right, on_bytes));
  Status written = replace_text(files, certify.out, certificate_text(facts));
  if (!written.ok()) return cannot_create(std::move(written).error());
  return std::move(facts.report);
}

Result<Signed> sign_certificate(const FileSystem& files, const std::string& path, const SigningKey& key,
                                const std::string& out) {
  TANDEM_TRY(const std::string text, read_text(files, path, kMaxCertificateBytes));
  auto envelope = envelope_from_text(text, kMaxCertificateBytes);
  if (!envelope.ok()) return std::move(envelope).error().at(path);
  const DsseEnvelope& before = envelope.value();
  if (auto certificate = certificate_of(before); !certificate.ok())
    return Error(certificate.error()).at(path);
  TANDEM_TRY(const std::string signature,
             key.sign(pre_authentication_encoding(before.payload_type, before.payload)));
  Signed result;
  result.replaced = std::any_of(before.signatures.begin(), before.signatures.end(),
                                [&](const DsseSignature& each) { return each.keyid == key.id(); });
  result.signatures = before.signatures.size() + !result.replaced;
  auto after = with_signature(text, kMaxCertificateBytes, {key.id(), signature});
  if (!after.ok()) return std::move(after).error().at(path);
  Status written = replace_text(files, out, after.value());
  if (!written.ok()) return cannot_create(std::move(written).error());
  return result;
}

}  // namespace tandem
