#pragma once
// Error and Result<T>: how every library of ours reports failure. Libraries neither print, abort nor exit;
// only cli/ turns an Error into words and an exit code.

#include <fmt/format.h>

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tandem {

/// What kind of thing went wrong. Each kind has one exit code (exit_code below).
enum class ErrorKind {
  not_equal,    ///< checked, and not equal: a finding, not a failure of ours (1)
  usage,        ///< the command line is wrong (2)
  corrupt,      ///< the bytes are not what their format says (65)
  unsupported,  ///< well formed, but a dtype, op, key or layer that we do not know (65)
  invalid,      ///< a value breaks a constraint (65)
  missing,      ///< a file or directory that was named does not exist (66)
  unavailable,  ///< a worker, framework or service cannot be had (69)
  bug,          ///< a mistake of ours (70)
  memory,       ///< out of memory (71)
  exists,       ///< the output exists already or cannot be created (73)
  io,           ///< the operating system failed a read or write (74)
  locked,       ///< another process works on the same output; try again (75)
  unsafe,       ///< refused: a path leaves its folder, a special file, code in data (77)
  config,       ///< the tool's own settings are wrong (78)
};

/// The exit code of a program that ends with this kind of error.
int exit_code(ErrorKind kind);
/// The kind's name as it stands in --json output ("corrupt").
std::string_view name(ErrorKind kind);

/// One failure: where, what was expected and found, and the likely cause.
struct Error {
  ErrorKind kind = ErrorKind::bug;
  std::string rule;                ///< label of the broken rule or constraint ("rms_norm_c2"), or empty
  std::string text;                ///< what was expected and what was found; one line
  std::string where;               ///< file (and entry in it), or empty
  std::optional<uint64_t> offset;  ///< byte offset in `where`
  std::string hint;                ///< likely cause or next step, or empty

  /// One line: `where, byte N: rule: text (hint)`, empty parts left out.
  std::string message() const;
  Error at(std::string place) &&;  ///< the same error with `where` set, unless it is set already
  Error at(std::string place, uint64_t byte) &&;
  Error because(std::string likely_cause) &&;  ///< the same error with a hint
};

template <class... Args>
Error make_error(ErrorKind kind, std::string rule, fmt::format_string<Args...> format, Args&&... args) {
  return Error{kind, std::move(rule), fmt::format(format, std::forward<Args>(args)...), {}, {}, {}};
}

// corrupt("S2", "header length is {}, the file has {} bytes", a, b) and its siblings, one a kind.
#define TANDEM_ERROR_MAKER(kind_name)                                                              \
  template <class... Args>                                                                         \
  Error kind_name(std::string rule, fmt::format_string<Args...> format, Args&&... args) {          \
    return make_error(ErrorKind::kind_name, std::move(rule), format, std::forward<Args>(args)...); \
  }
TANDEM_ERROR_MAKER(not_equal)
TANDEM_ERROR_MAKER(usage)
TANDEM_ERROR_MAKER(corrupt)
TANDEM_ERROR_MAKER(unsupported)
TANDEM_ERROR_MAKER(invalid)
TANDEM_ERROR_MAKER(missing)
TANDEM_ERROR_MAKER(unavailable)
TANDEM_ERROR_MAKER(bug)
TANDEM_ERROR_MAKER(exists)
TANDEM_ERROR_MAKER(locked)
TANDEM_ERROR_MAKER(unsafe)
#undef TANDEM_ERROR_MAKER
/// The operating system's reason (errno) for a failed call on a path.
Error io_error(std::string_view action, std::string_view path, int errno_value);

/// A value or an Error. Test ok() before value() or error().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    assert(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    assert(ok());
    return std::get<0>(state_);
  }
  /// By value, so that `for (x : f().value())` does not walk a dead temporary.
  T value() && {
    assert(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const& {
    assert(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    assert(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    assert(!ok());
    return *error_;
  }
  Error&& error() && {
    assert(!ok());
    return *std::move(error_);
  }

 private:
  std::optional<Error> error_;
};
using Status = Result<void>;

#define TANDEM_CONCAT_(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_(a, b)
/// TANDEM_TRY(const auto header, read_header(file)); returns the error, or declares the value.
#define TANDEM_TRY(declaration, expression) \
  TANDEM_TRY_(declaration, expression, TANDEM_CONCAT(tandem_try_, __LINE__))
#define TANDEM_TRY_(declaration, expression, name) \
  auto name = (expression);                        \
  if (!name.ok()) return std::move(name).error();  \
  declaration = std::move(name).value()
/// TANDEM_CHECK(write(file, bytes)); returns the error, or goes on.
#define TANDEM_CHECK(expression) TANDEM_CHECK_(expression, TANDEM_CONCAT(tandem_check_, __LINE__))
#define TANDEM_CHECK_(expression, name) \
  if (auto name = (expression); !name.ok()) return std::move(name).error()

}  // namespace tandem
