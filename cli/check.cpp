// tandem check: does a certificate hold?

#include "cli/command.h"
#include "cli/progress.h"
#include "verify/check_certificate.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxKeyBytes = 100'000;
constexpr size_t kShownRegions = 20;

struct Flags {
  std::string certificate;
  std::string key;
  CheckOptions options;
};

constexpr const char* kFooter =
    "Hashes every file that the certificate covers, and says which tensor of which file is not what was "
    "verified.\n"
    "Without --key the signature is not checked, and the output says so.\n"
    "\n"
    "Examples:\n"
    "  tandem check certificate.json --key public.pem\n"
    "  tandem check certificate.json --key public.pem --left ./deepseek-v3 --right /models/v3.savedmodel\n"
    "\n"
    "Ends 0 when all files are as they were, the verdict was \"equal\", and (with --key) the signature is "
    "that "
    "key's;\n"
    "1 when one of these does not hold; 65 for a file that is no certificate, 66 where a side is not there, "
    "77 "
    "for names\n"
    "or links that leave a side's folder.";

std::string signature_in_words(const CertificateCheck& check) {
  switch (check.signature) {
    case SignatureState::none:
      return check.key_given ? "UNSIGNED" : "unsigned";
    case SignatureState::not_checked:
      return fmt::format("{} there, NOT CHECKED: --key PUBLIC.pem checks", check.keyids.size());
    case SignatureState::valid:
      return "valid, by key " + check.keyid;
    case SignatureState::wrong:
      return fmt::format("WRONG: key {} did not sign this content", check.keyid);
    case SignatureState::other_key:
      return fmt::format("NOT BY THIS KEY: {} is not among {}", check.keyid, fmt::join(check.keyids, ", "));
  }
  return {};
}

void print(std::string_view side, const ChangedFile& file) {
  if (file.bytes != file.bytes_now)
    fmt::print("  changed: {}: {} bytes, it had {}\n", for_terminal(fmt::format("{}/{}", side, file.name)),
               with_commas(file.bytes_now), with_commas(file.bytes));
  const size_t shown = std::min(file.regions.size(), kShownRegions);
  for (const FileRegion& region : std::span(file.regions).first(shown)) {
    std::string what(name(region.kind));
    if (region.kind == RegionKind::tensor) what += " " + region.name;
    if (region.kind == RegionKind::file) what = "the whole file";
    fmt::print("  changed: {}\n",
               for_terminal(fmt::format("{}/{}: {}, in bytes {} to {}", side, file.name, what, region.offset,
                                        region.offset + region.bytes)));
  }
  if (shown < file.regions.size())
    fmt::print("  and {} more regions of this file\n", with_commas(file.regions.size() - shown));
}

void print(std::string_view which, const SideCheck& side) {
  fmt::print("{:<12} {}: {}, {} files as they were\n", which, for_terminal(side.path),
             side.holds() ? "unchanged" : "CHANGED", with_commas(side.unchanged));
  for (const ChangedFile& file : side.changed) print(which, file);
  for (const std::string& each : side.missing) fmt::print("  missing: {}/{}\n", which, for_terminal(each));
  for (const std::string& each : side.extra) fmt::print("  extra: {}/{}\n", which, for_terminal(each));
}

void print(const CertificateCheck& check) {
  fmt::print("{:<12} tandem {}, {}\n", "made by", for_terminal(check.certificate.tandem_version),
             for_terminal(check.certificate.made));
  fmt::print("{:<12} {}\n", "verdict", check.certificate.equal ? "equal" : "NOT EQUAL");
  fmt::print("{:<12} {}\n", "signature", for_terminal(signature_in_words(check)));
  print("left", check.left);
  print("right", check.right);
  fmt::print("{}\n", check.holds() ? "the certificate holds" : "the certificate does NOT hold");
}

Result<int> check_command(Flags& flags, bool json) {
  if (!flags.key.empty()) {
    TANDEM_TRY(const std::string pem, read_text(real_files(), flags.key, kMaxKeyBytes));
    auto key = SigningKey::public_from_pem(pem);
    if (!key.ok()) return std::move(key).error().at(flags.key);
    flags.options.key = std::move(key).value();
  }
  std::optional<Progress> progress("hashing");
  flags.options.progress = [&progress](uint64_t done, uint64_t total) { progress->show(done, total); };
  const Result<CertificateCheck> check = check_certificate(real_files(), flags.certificate, flags.options);
  progress.reset();
  if (!check.ok()) return check.error();
  if (json)
    print_json(to_json(check.value()));
  else
    print(check.value());
  return check.value().holds() ? 0 : exit_code(ErrorKind::not_equal);
}

}  // namespace

void add_check(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(app, session, "check",
                                  "Check a certificate: its signature, and every file it covers", kFooter);
  command->add_option("CERTIFICATE", flags->certificate, "As verify --certificate writes it")->required();
  command->add_option("--key", flags->key, "The public key, a PEM file");
  command->add_option("--left", flags->options.left, "Where the left side is now (default: where it was)");
  command->add_option("--right", flags->options.right, "Where the right side is now");
  command->callback([flags, &session] { session.outcome = check_command(*flags, session.json); });
}

}  // namespace tandem
