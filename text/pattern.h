#pragma once
// Regular expressions of a tokenizer.json. The `tokenizers` library reads them as Oniguruma does (syntax of
// Ruby); here PCRE2 runs them, after the differences were written out (pattern.cpp lists them).

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/span.h"

namespace tandem::text {

class Pattern {
 public:
  /// Errors: tokenizer_c4 for what PCRE2 refuses, and for Oniguruma's syntax that has no counterpart here.
  static Result<Pattern> regex(std::string_view source);
  /// What PCRE2 reads, without translation (for patterns of ours).
  static Result<Pattern> pcre2(std::string_view source);
  static Pattern literal(std::string_view text);

  /// All matches that do not overlap, left to right, in bytes of valid UTF-8. Each call sees `subject` alone.
  /// Errors: invalid (tokenizer_c5) where a pattern would search too long or too deep.
  Status find_all(std::string_view subject, std::vector<Span>& matches) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::shared_ptr<void> code_;  ///< pcre2_code; null for a literal
};

/// The pattern in PCRE2's syntax, in Oniguruma's meaning.
Result<std::string> translate_from_oniguruma(std::string_view source);

}  // namespace tandem::text
