#pragma once
// What filters and methods of strings share: Python's str methods over UTF-8.

#include "text/template/interpreter.h"

namespace tandem::chat {

/// All occurrences, or the first `count`. An empty `old` stands between all characters.
Result<std::string> replace(Interpreter& in, std::string_view text, std::string_view old, std::string_view by,
                            int64_t count = -1);
/// At runs of white space; at most `most` splits, or all.
std::vector<std::string_view> split_at_space(std::string_view text, int64_t most, bool from_right);
/// At a separator that is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t most,
                                       bool from_right);
/// str.splitlines() without the ends.
std::vector<std::string_view> split_lines(std::string_view text);
/// float(text), or nothing.
std::optional<double> parse_real(std::string_view text);
/// int(text, base), or nothing. Errors: chat_c5 beyond 64 bits.
Result<std::optional<int64_t>> parse_whole(std::string_view text, int base);
/// `format % values`; %(name)s looks into the container, where it is a mapping. Without one (null) all values
/// must be used.
Result<std::string> percent_format(Interpreter& in, std::string_view format, const std::vector<Value>& values,
                                   const Value* container);
/// format.format(...), fields without attributes, indices, conversions and specifications.
Result<std::string> brace_format(Interpreter& in, std::string_view format, const Arguments& arguments);
/// Pieces of one text as a list.
Result<Value> list_of(Interpreter& in, const std::vector<std::string_view>& pieces, bool is_markup = false);

}  // namespace tandem::chat
