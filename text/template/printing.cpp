// Values as text: str(), repr() and json.dumps() of Python.

#include <algorithm>
#include <cmath>

#include "text/template/interpreter.h"
#include "text/template/unicode.h"

namespace tandem::chat {

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // fmt's {} gives the shortest digits, but lays them out by its own rule: take digits and exponent from it.
  std::string text = fmt::format("{}", value);
  const bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  size_t point = text.find('.');
  if (point == std::string::npos) point = text.size();
  std::string digits = text;
  std::erase(digits, '.');
  exponent += static_cast<int>(point);  // the point stands before digits[exponent]
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  digits.erase(0, zeros);
  exponent -= static_cast<int>(zeros);
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  if (digits == "0") exponent = 1;
  std::string out = negative ? "-" : "";
  if (exponent > -4 && exponent <= 16) {
    if (exponent <= 0) return out + "0." + std::string(static_cast<size_t>(-exponent), '0') + digits;
    const auto whole = static_cast<size_t>(exponent);
    if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
    return out + digits.substr(0, whole) + "." + digits.substr(whole);
  }
  out += digits.substr(0, 1);
  if (digits.size() > 1) out += "." + digits.substr(1);
  const int power = exponent - 1;
  return out + fmt::format("e{}{:02}", power < 0 ? '-' : '+', std::abs(power));
}

std::string escape_html(std::string_view text) {
  constexpr std::string_view kSigns = "&<>'\"";
  constexpr std::string_view kSpelled[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  std::string out;
  for (char c : text) {
    const size_t sign = kSigns.find(c);
    if (sign == std::string_view::npos)
      out += c;
    else
      out += kSpelled[sign];
  }
  return out;
}

namespace {

std::string hex_escape(char32_t c) {
  if (c <= 0xFF) return fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  if (c <= 0xFFFF) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  return fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
}

void repr_text(Writer& out, std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out.put(quote);
  for (size_t at = 0; at < text.size() && !out.is_full();) {
    const size_t begin = at;
    const char32_t c = next(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.put('\\');
      out.put(static_cast<char>(c));
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.put(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (is_printable(c)) {
      out.put(text.substr(begin, at - begin));
    } else {
      out.put(hex_escape(c));
    }
  }
  out.put(quote);
}

class Printer {
 public:
  Printer(Interpreter& in, Writer& out) : in_(in), out_(out) {}

  /// How a value stands within a container.
  void repr(const Value& value) {
    if (out_.is_full() || !in_.work().take()) return;
    switch (value.kind()) {
      case Kind::undefined:
        return out_.put("Undefined");
      case Kind::text:
        if (value.is_markup()) out_.put("Markup(");
        repr_text(out_, value.text());
        if (value.is_markup()) out_.put(')');
        return;
      case Kind::sequence:
        return sequence(value.sequence());
      case Kind::dict:
        return dict(value.dict());
      case Kind::name_space:
        return name_space(*value.as<std::shared_ptr<Namespace>>());
      default:
        return out_.put(plain(value));
    }
  }

  static std::string plain(const Value& value) {
    switch (value.kind()) {
      case Kind::none:
        return "None";
      case Kind::boolean:
        return value.as<bool>() ? "True" : "False";
      case Kind::integer:
        return std::to_string(value.whole());
      case Kind::real:
        return print_real(value.number());
      case Kind::macro:
        return fmt::format("<Macro '{}'>", value.as<std::shared_ptr<const Macro>>()->name);
      case Kind::loop: {
        const Loop& loop = *value.as<std::shared_ptr<Loop>>();
        return fmt::format("<LoopContext {}/{}>", loop.at + 1, loop.items->items.size());
      }
      case Kind::function:
        return fmt::format("<function {}>", value.as<const Row*>()->name);
      case Kind::method:
        return fmt::format("<built-in method {} of {} object>", value.as<Method>().row->name,
                           type_name(*value.as<Method>().self));
      case Kind::iterator:
        return fmt::format("<{} object>", value.as<std::shared_ptr<Iterator>>()->kind);
      default:
        return {};
    }
  }

 private:
  void items(const std::vector<Value>& all) {
    for (size_t i = 0; i < all.size() && !out_.is_full(); ++i) {
      if (i > 0) out_.put(", ");
      repr(all[i]);
    }
  }

  void sequence(const Sequence& sequence) {
    constexpr std::string_view kOpen[] = {"[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    constexpr std::string_view kClose[] = {"]", ")", "", "])", "])", "])"};
    if (sequence.kind == SequenceKind::range) {
      out_.put(fmt::format("range({}, {}", sequence.start, sequence.stop));
      if (sequence.step != 1) out_.put(fmt::format(", {}", sequence.step));
      return out_.put(')');
    }
    const auto kind = static_cast<size_t>(sequence.kind);
    out_.put(kOpen[kind]);
    items(sequence.items);
    if (sequence.kind == SequenceKind::tuple && sequence.items.size() == 1) out_.put(',');
    out_.put(kClose[kind]);
  }

  void dict(const Dict& dict) {
    out_.put('{');
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (out_.is_full()) return;
      if (!first) out_.put(", ");
      first = false;
      repr(key);
      out_.put(": ");
      repr(value);
    }
    out_.put('}');
  }

  void name_space(const Namespace& name_space) {
    // A namespace may hold itself.
    if (++namespaces_ > kMaxValueDepth) return out_.put("...");
    out_.put("<Namespace {");
    bool first = true;
    for (const auto& [key, value] : name_space.entries) {
      if (out_.is_full()) break;
      if (!first) out_.put(", ");
      first = false;
      repr_text(out_, key);
      out_.put(": ");
      repr(value);
    }
    out_.put("}>");
    --namespaces_;
  }

  Interpreter& in_;
  Writer& out_;
  int namespaces_ = 0;
};

}  // namespace

Result<std::string> Interpreter::repr(const Value& value) {
  Writer out(*this);
  Printer(*this, out).repr(value);
  TANDEM_CHECK(step());
  return out.finish();
}

Result<std::string> Interpreter::str(const Value& value) {
  if (value.is(Kind::undefined)) return std::string();
  if (!value.is(Kind::text)) return repr(value);
  TANDEM_CHECK(handle_bytes(value.text().size()));
  return value.text();
}

namespace {

class JsonWriter {
 public:
  JsonWriter(Interpreter& in, Writer& out, const JsonStyle& style) : in_(in), out_(out), style_(style) {}

  Status write(const Value& value, int level) {
    TANDEM_CHECK(in_.step());
    switch (value.kind()) {
      case Kind::none:
        return put("null");
      case Kind::boolean:
        return put(value.as<bool>() ? "true" : "false");
      case Kind::integer:
        return put(std::to_string(value.whole()));
      case Kind::real:
        return put(real(value.number()));
      case Kind::text:
        text(value.text());
        return {};
      case Kind::sequence:
        if (value.is_list_or_tuple()) return list(value.sequence().items, level);
        break;
      case Kind::dict:
        return dict(value.dict(), level);
      default:
        break;
    }
    return invalid("chat_c3", "{} cannot be written as JSON", type_name(value));
  }

 private:
  Status put(std::string_view text) {
    out_.put(text);
    return {};
  }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return print_real(value);
  }

  void unit(char32_t unit) { out_.put(fmt::format("\\u{:04x}", static_cast<uint32_t>(unit))); }

  void text(std::string_view text) {
    constexpr std::string_view kSigns = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    out_.put('"');
    for (size_t at = 0; at < text.size() && !out_.is_full();) {
      const size_t begin = at;
      const char32_t c = next(text, at);
      const size_t sign = c < 0x80 ? kSigns.find(static_cast<char>(c)) : std::string_view::npos;
      if (sign != std::string_view::npos) {
        out_.put('\\');
        out_.put(kLetters[sign]);
      } else if (c < 0x20 || (style_.ensure_ascii && c > 0x7e && c < 0x10000)) {
        c == 0x7f ? out_.put('\x7f') : unit(c);
      } else if (style_.ensure_ascii && c >= 0x10000) {
        unit(0xD800 + ((c - 0x10000) >> 10));
        unit(0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        out_.put(text.substr(begin, at - begin));
      }
    }
    out_.put('"');
  }

  void new_line(int level) {
    if (!style_.indent) return;
    out_.put('\n');
    for (int i = 0; i < level; ++i) out_.put(*style_.indent);
  }

  /// Between a bracket and the items, and between them. With an indent, no blank stands at the line's end.
  void separate(bool first, int level) {
    if (!first) out_.put(style_.item_separator);
    new_line(level);
  }

  Status list(const std::vector<Value>& items, int level) {
    if (items.empty()) return put("[]");
    out_.put('[');
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0, level + 1);
      TANDEM_CHECK(write(items[i], level + 1));
    }
    new_line(level);
    return put("]");
  }

  Result<std::string> key(const Value& key) const {
    if (key.is(Kind::text)) return key.text();
    if (key.is(Kind::none)) return std::string("null");
    if (key.is(Kind::boolean)) return std::string(key.as<bool>() ? "true" : "false");
    if (key.is(Kind::integer)) return std::to_string(key.whole());
    if (key.is(Kind::real)) return real(key.number());
    return invalid("chat_c3", "{} cannot be a key in JSON", type_name(key));
  }

  Result<std::vector<const std::pair<Value, Value>*>> sorted(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (!style_.sort_keys) return entries;
    for (const auto* entry : entries)
      if (!entry->first.is(Kind::text))
        return unsupported("chat_c5", "sort_keys with keys that are no strings");
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto* a, const auto* b) { return a->first.text() < b->first.text(); });
    return entries;
  }

  Status dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return put("{}");
    out_.put('{');
    TANDEM_TRY(const auto entries, sorted(dict));
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0, level + 1);
      TANDEM_TRY(const std::string name, key(entries[i]->first));
      text(name);
      out_.put(style_.key_separator);
      TANDEM_CHECK(write(entries[i]->second, level + 1));
    }
    new_line(level);
    return put("}");
  }

  Interpreter& in_;
  Writer& out_;
  const JsonStyle& style_;
};

}  // namespace

Result<std::string> to_json(Interpreter& in, const Value& value, const JsonStyle& style) {
  Writer out(in);
  TANDEM_CHECK(JsonWriter(in, out, style).write(value, 0));
  return out.finish();
}

}  // namespace tandem::chat
