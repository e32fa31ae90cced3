#pragma once
// Base64 (RFC 4648), as JSON carries bytes.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

/// The standard alphabet, padded, on one line.
std::string to_base64(std::span<const std::byte> bytes);

/// The bytes of a padded text in the standard or the URL-safe alphabet. Errors: base64_c1 a length that is no
/// multiple of 4, another character (blanks and line ends too), padding within, or bits past the last byte
/// that are not 0: one sequence of bytes has one text in each alphabet.
Result<std::string> from_base64(std::string_view text);

}  // namespace tandem
