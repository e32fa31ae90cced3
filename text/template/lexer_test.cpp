#include "text/template/lexer.h"

#include <gtest/gtest.h>

namespace tandem::chat {
namespace {

/// Tokens as words: data in quotes, tags as they are written.
std::string words(std::string_view source) {
  const auto tokens = tokenize(source);
  if (!tokens.ok()) return tokens.error().message();
  constexpr std::string_view kTags[] = {"", "{{", "}}", "{%", "%}"};
  std::string all;
  for (const Token& token : tokens.value()) {
    if (token.kind == TokenKind::end) break;
    if (!all.empty()) all += ' ';
    const auto kind = static_cast<size_t>(token.kind);
    all += kind == 0 ? "\"" + token.text + "\"" : kind < 5 ? std::string(kTags[kind]) : token.text;
  }
  return all;
}

TEST(TemplateLexer, BlanksBeforeABlockAndTheNewlineAfterItGo) {
  EXPECT_EQ(words("a\n  {% if x %}\nb"), "\"a\n\" {% if x %} \"b\"");
  EXPECT_EQ(words("a {% if x %} \nb"), "\"a \" {% if x %} \" \nb\"");
  EXPECT_EQ(words("  {{ x }}\nb"), "\"  \" {{ x }} \"\nb\"");
  EXPECT_EQ(words("  {# x #}\nb"), "\"b\"");
}

TEST(TemplateLexer, SignsTakeOrKeepWhiteSpace) {
  EXPECT_EQ(words("a \n {%- if x -%} \n b"), "\"a\" {% if x %} \"b\"");
  EXPECT_EQ(words("a\n  {%+ if x +%}\nb"), "\"a\n  \" {% if x %} \"\nb\"");
  EXPECT_EQ(words("a \u2003{{- x -}}\u00a0 b"), "\"a\" {{ x }} \"b\"");
  EXPECT_EQ(words("a {#- x -#} b"), "\"a\" \"b\"");
}

TEST(TemplateLexer, RawIsNotRead) {
  EXPECT_EQ(words("{% raw %}{{ x }} {% if{% endraw %}\nb"), "\"{{ x }} {% if\" \"b\"");
  EXPECT_EQ(words("a {%- raw -%} x {%- endraw -%} b"), "\"a\" \"x\" \"b\"");
  EXPECT_EQ(words("\n{% raw %}x"), "line 2: chat_c1: raw is not closed with endraw");
}

TEST(TemplateLexer, NewlinesAreOneAndTheLastGoes) {
  EXPECT_EQ(words("a\r\nb\rc\n"), "\"a\nb\nc\"");
  EXPECT_EQ(words("a\n\n"), "\"a\n\"");
}

TEST(TemplateLexer, AnEndWithinBracketsIsNone) {
  EXPECT_EQ(words("{{ {'a': {}} }}"), "{{ { a : { } } }}");
  EXPECT_EQ(words("{{ (1 }}"), "line 1: chat_c1: unexpected \"}\", expected \")\"");
  EXPECT_EQ(words("{{ ) }}"), "line 1: chat_c1: unexpected \")\"");
}

TEST(TemplateLexer, Numbers) {
  const auto tokens = tokenize("{{ 1_000 0x1F 1.5e-3 7.0 01 9223372036854775807 }}").value();
  EXPECT_EQ(tokens[1].integer, 1000);
  EXPECT_EQ(tokens[2].integer, 31);
  EXPECT_EQ(tokens[3].real, 0.0015);
  EXPECT_EQ(tokens[4].kind, TokenKind::real);
  EXPECT_EQ(tokens[5].integer, 0);
  EXPECT_EQ(tokens[6].integer, 1);
  EXPECT_EQ(tokens[7].integer, INT64_MAX);
  EXPECT_EQ(words("{{ 9223372036854775808 }}"),
            "line 1: chat_c1: the integer 9223372036854775808 does not fit in 64 bits");
}

TEST(TemplateLexer, Strings) {
  EXPECT_EQ(words(R"({{ 'a\n\x41\u00e9\q\'' "b'" }})"), "{{ a\nAé\\q' b' }}");
  EXPECT_EQ(words("{{ 'a }}"), "line 1: chat_c1: the string is not closed");
  EXPECT_EQ(words(R"({{ '\x4' }})"), "line 1: chat_c1: a cut-off \\x in a string");
  EXPECT_EQ(words(R"({{ '\ud800' }})"), "line 1: chat_c1: \\u in a string names no character");
}

TEST(TemplateLexer, WhatCannotBeIsNamedWithItsLine) {
  EXPECT_EQ(words("a\n\n{{ é ? }}"), "line 3: chat_c1: unexpected character \"?\"");
  EXPECT_EQ(words("a\n{% if x"), "line 2: chat_c1: the tag is not closed with %}");
  EXPECT_EQ(words("{# x"), "line 1: chat_c1: the comment is not closed with #}");
  EXPECT_EQ(words("\xff"), "chat_c1: the template is not UTF-8");
}

TEST(TemplateLexer, LinesAreCountedThroughStrippedWhiteSpace) {
  const auto tokens = tokenize("a\n\n{%- if x -%}\n\n {{ y }}").value();
  EXPECT_EQ(tokens[2].line, 3);
  EXPECT_EQ(tokens[6].text, "y");
  EXPECT_EQ(tokens[6].line, 5);
}

}  // namespace
}  // namespace tandem::chat
