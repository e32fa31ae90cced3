#include "base/result.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace tandem {
namespace {

struct KindRow {
  ErrorKind kind;
  std::string_view name;
  int exit_code;
};

constexpr std::array<KindRow, 14> kKinds{{
    {ErrorKind::not_equal, "not_equal", 1},
    {ErrorKind::usage, "usage", 2},
    {ErrorKind::corrupt, "corrupt", 65},
    {ErrorKind::unsupported, "unsupported", 65},
    {ErrorKind::invalid, "invalid", 65},
    {ErrorKind::missing, "missing", 66},
    {ErrorKind::unavailable, "unavailable", 69},
    {ErrorKind::bug, "bug", 70},
    {ErrorKind::memory, "memory", 71},
    {ErrorKind::exists, "exists", 73},
    {ErrorKind::io, "io", 74},
    {ErrorKind::locked, "locked", 75},
    {ErrorKind::unsafe, "unsafe", 77},
    {ErrorKind::config, "config", 78},
}};

const KindRow& row(ErrorKind kind) {
  for (const KindRow& r : kKinds)
    if (r.kind == kind) return r;
  assert(false);
  return kKinds[0];
}

}  // namespace

int exit_code(ErrorKind kind) { return row(kind).exit_code; }
std::string_view name(ErrorKind kind) { return row(kind).name; }

std::string Error::message() const {
  std::string line;
  if (!where.empty()) line += where;
  if (offset) line += fmt::format("{}byte {}", line.empty() ? "" : ", ", *offset);
  if (!line.empty()) line += ": ";
  if (!rule.empty()) line += rule + ": ";
  line += text;
  if (!hint.empty()) line += " (" + hint + ")";
  return line;
}

Error Error::at(std::string place) && {
  if (where.empty()) where = std::move(place);
  return std::move(*this);
}

Error Error::at(std::string place, uint64_t byte) && {
  if (where.empty()) {
    where = std::move(place);
    offset = byte;
  }
  return std::move(*this);
}

Error Error::because(std::string likely_cause) && {
  hint = std::move(likely_cause);
  return std::move(*this);
}

Error io_error(std::string_view action, std::string_view path, int errno_value) {
  const bool absent = errno_value == ENOENT || errno_value == ENOTDIR;
  Error error{absent ? ErrorKind::missing : ErrorKind::io, {}, {}, std::string(path), {}, {}};
  error.text = fmt::format("cannot {}: {}", action, std::strerror(errno_value));
  return error;
}

}  // namespace tandem
