#pragma once
// A chat template as tokens, with the white space rules that transformers sets: trim_blocks (the newline
// after a block tag goes), lstrip_blocks (blanks before a block tag at the start of a line go), and the signs
// `{%-`, `-%}`, `{%+`, `+%}`.
//
//   data        text between tags, as it will be written
//   name        also keywords; string (unescaped), integer, real, symbol
//   begin/end   of a variable `{{ }}` or a block `{% %}`
// Source: the template language of Jinja, version 3.1.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::chat {

enum class TokenKind : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  symbol,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  ///< the data, the name, the string's value, the symbol
  int64_t integer = 0;
  double real = 0;
  int line = 1;
};

/// The tokens, and one `end` behind them.
/// Errors: chat_c1 for a character or a tag that cannot be, with its line.
Result<std::vector<Token>> tokenize(std::string_view source);

/// chat_c1 at a line.
Error syntax_error(int line, std::string text);

}  // namespace tandem::chat
