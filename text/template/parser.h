#pragma once
// Template text to a tree.

#include <string_view>

#include "base/result.h"
#include "text/template/syntax_tree.h"

namespace tandem::chat {

constexpr size_t kMaxTemplateBytes = 4'000'000;
constexpr int kMaxTreeDepth = 150;  ///< of nested statements and expressions together

/// Errors, with the line: chat_c1 syntax; chat_c2 too long, or nested deeper than kMaxTreeDepth; chat_c5 a
/// statement of Jinja that chat templates may not use (include, import, extends, block).
Result<SyntaxTree> parse_template(std::string_view source);

}  // namespace tandem::chat
