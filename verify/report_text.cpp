#include "verify/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace tandem {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// U+202A to U+202E and U+2066 to U+2069: three bytes each.
bool turns_direction(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xe2') return false;
  const auto second = static_cast<unsigned char>(text[1]), third = static_cast<unsigned char>(text[2]);
  return (second == 0x80 && third >= 0xaa && third <= 0xae) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

std::string_view reference(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string html(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (const std::string_view as = reference(text[i]); !as.empty()) {
      out += as;
    } else if (turns_direction(text.substr(i))) {
      out += kReplacement;
      i += 2;
    } else if (control) {
      out += kReplacement;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string json_for_script(const Json& json) {
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&')  // in JSON these stand inside strings alone
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string_view>>& holes) {
  std::string out;
  for (size_t open = text.find("{{"); open != text.npos; open = text.find("{{")) {
    const size_t close = text.find("}}", open);
    assert(close != text.npos);
    const std::string_view name = text.substr(open + 2, close - open - 2);
    const auto hole =
        std::find_if(holes.begin(), holes.end(), [&](const auto& each) { return each.first == name; });
    assert(hole != holes.end());
    out += text.substr(0, open);
    out += hole->second;
    text.remove_prefix(close + 2);
  }
  return out += text;
}

}  // namespace tandem
