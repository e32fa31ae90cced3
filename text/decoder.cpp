#include "text/decoder.h"

#include "text/byte_level.h"
#include "text/kinds.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word;
  return text;
}

Result<MadeDecoder> make_byte_level(Fields& fields) {
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.ignore(key);
  const auto decode = [](Words& words) {
    std::string bytes;
    for (const std::string& word : words) bytes += bytes_of_token(word);
    words = {valid_utf8(bytes)};
  };
  return MadeDecoder{decode, true};
}

std::optional<char> byte_of(std::string_view word) {
  if (word.size() != 6 || !word.starts_with("<0x") || word.back() != '>') return std::nullopt;
  const std::string digits(word.substr(3, 2));
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) return std::nullopt;
  return char(std::stoi(digits, nullptr, 16));
}

/// A run of byte tokens is the text that it spells, or one U+FFFD a byte.
void flush(std::string& bytes, Words& out) {
  if (bytes.empty()) return;
  if (valid_utf8(bytes) == bytes)
    out.push_back(bytes);
  else
    out.insert(out.end(), bytes.size(), std::string(kReplacement));
  bytes.clear();
}

void decode_byte_fallback(Words& words) {
  Words out;
  std::string bytes;
  for (std::string& word : words) {
    if (const auto byte = byte_of(word)) {
      bytes += *byte;
      continue;
    }
    flush(bytes, out);
    out.push_back(std::move(word));
  }
  flush(bytes, out);
  words = std::move(out);
}

Result<MadeDecoder> make_byte_fallback(Fields&) { return MadeDecoder{decode_byte_fallback}; }

Result<MadeDecoder> make_fuse(Fields&) {
  return MadeDecoder{[](Words& words) { words = {joined(words)}; }};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = out.append(text, done);
}

// Source: transformers, tokenization_utils_base.py, clean_up_tokenization.
constexpr std::pair<std::string_view, std::string_view> kCleanUp[] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

Result<MadeDecoder> make_word_piece(Fields& fields) {
  TANDEM_TRY(const std::string prefix, fields.string("prefix", "##"));
  TANDEM_TRY(const bool cleanup, fields.boolean("cleanup", true));
  return MadeDecoder{[prefix, cleanup](Words& words) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (i > 0) words[i] = words[i].starts_with(prefix) ? words[i].substr(prefix.size()) : " " + words[i];
      if (!cleanup) continue;
      for (const auto& [from, to] : kCleanUp) replace_all(words[i], from, to);
    }
  }};
}

Result<MadeDecoder> make_metaspace(Fields& fields) {
  TANDEM_TRY(const Metaspace metaspace, metaspace_of(fields));
  std::string mark;
  append_utf8(mark, metaspace.replacement);
  const bool added = metaspace.prepend != Metaspace::Prepend::never;
  return MadeDecoder{[mark, added](Words& words) {
    for (size_t i = 0; i < words.size(); ++i) replace_all(words[i], mark, i == 0 && added ? "" : " ");
  }};
}

Result<MadeDecoder> make_replace(Fields& fields) {
  TANDEM_TRY(const Pattern pattern, pattern_of(fields));
  TANDEM_TRY(const std::string content, short_string(fields, "content"));
  return MadeDecoder{[pattern, content](Words& words) {
    std::vector<Span> matches;
    for (std::string& word : words) {
      if (!pattern.find_all(word, matches).ok()) continue;  // a token is short: its search does not fail
      std::string out;
      size_t done = 0;
      for (const Span& match : matches) {
        out.append(word, done, match.begin - done).append(content);
        done = match.end;
      }
      word = out.append(word, done);
    }
  }};
}

Result<MadeDecoder> make_strip(Fields& fields) {
  TANDEM_TRY(const char32_t content, fields.character("content"));
  TANDEM_TRY(const uint64_t start, fields.number("start"));
  TANDEM_TRY(const uint64_t stop, fields.number("stop"));
  return MadeDecoder{[content, start, stop](Words& words) {
    for (std::string& word : words) {
      std::string_view rest = word;
      for (uint64_t i = 0; i < start && !rest.empty(); ++i) {
        const CodePoint point = code_point_at(rest, 0);
        if (point.code != content) break;
        rest.remove_prefix(point.size);
      }
      for (uint64_t i = 0; i < stop && !rest.empty(); ++i) {
        const CodePoint point = code_point_before(rest, rest.size());
        if (point.code != content) break;
        rest.remove_suffix(point.size);
      }
      word = std::string(rest);
    }
  }};
}

Result<MadeDecoder> make_sequence(Fields& fields) {
  TANDEM_TRY(const std::vector<MadeDecoder> all, make_each(fields, "decoders", make_decoder));
  if (all.size() == 1) return all[0];
  return MadeDecoder{[all](Words& words) {
    for (const MadeDecoder& one : all) one.decode(words);
  }};
}

constexpr Kind<MadeDecoder> kKinds[] = {
    {"ByteFallback", make_byte_fallback},
    {"ByteLevel", make_byte_level},
    {"Fuse", make_fuse},
    {"Metaspace", make_metaspace},
    {"Replace", make_replace},
    {"Sequence", make_sequence},
    {"Strip", make_strip},
    {"WordPiece", make_word_piece},
};

}  // namespace

std::string bytes_of_token(std::string_view token) {
  auto bytes = bytes_spelled(token);
  return bytes ? std::move(*bytes) : std::string(token);
}

Result<MadeDecoder> make_decoder(const Json& json, const std::string& place) {
  return make_kind<MadeDecoder>(kKinds, json, place);
}
std::vector<std::string_view> decoder_types() { return types_of<MadeDecoder>(kKinds); }

}  // namespace tandem::text
