// tandem sign: a signature under a certificate.

#include "cli/command.h"
#include "verify/certificate.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxKeyBytes = 100'000;

struct Flags {
  std::string certificate;
  std::string key;
  std::string out;
};

constexpr const char* kFooter =
    "Signs with ECDSA on the curve P-256 with SHA-256. A certificate may be signed by several keys, one "
    "after "
    "another;\n"
    "a second signature of one key takes the place of its first.\n"
    "\n"
    "Examples:\n"
    "  tandem sign certificate.json --key private.pem\n"
    "  tandem sign certificate.json --key private.pem --out signed.json\n"
    "\n"
    "A key is made by, and its public half for tandem check --key is taken by:\n"
    "  openssl ecparam -name prime256v1 -genkey -noout -out private.pem\n"
    "  openssl pkey -in private.pem -pubout -out public.pem";

Result<int> sign_command(const Flags& flags, bool json) {
  TANDEM_TRY(const std::string pem, read_text(real_files(), flags.key, kMaxKeyBytes));
  auto key = SigningKey::private_from_pem(pem);
  if (!key.ok()) return std::move(key).error().at(flags.key);
  const std::string& out = flags.out.empty() ? flags.certificate : flags.out;
  TANDEM_TRY(const Signed done, sign_certificate(real_files(), flags.certificate, key.value(), out));
  if (json)
    print_json(Json{{"certificate", out},
                    {"keyid", key.value().id()},
                    {"signatures", done.signatures},
                    {"replaced", done.replaced}});
  else
    fmt::print("signed by {}{}, written to {}\n", key.value().id(), done.replaced ? " again" : "",
               for_terminal(out));
  return 0;
}

}  // namespace

void add_sign(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(app, session, "sign", "Sign a certificate of verify", kFooter);
  command->add_option("CERTIFICATE", flags->certificate, "As verify --certificate writes it")->required();
  command->add_option("--key", flags->key, "The private key, a PEM file without a password")->required();
  command->add_option("--out", flags->out, "Write it there instead of in place");
  command->callback([flags, &session] { session.outcome = sign_command(*flags, session.json); });
}

}  // namespace tandem
