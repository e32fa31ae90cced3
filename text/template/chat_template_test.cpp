#include "text/template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace tandem {
namespace {

using testing::HasSubstr;

const Json kMessages{{{"role", "user"}, {"content", "hi"}},
                     {{"role", "assistant"}, {"content", "yo"}, {"n", 2}}};

/// What a template writes, or its error.
std::string rendered(const std::string& source, const ChatOptions& options = {},
                     const Json& messages = kMessages) {
  const auto parsed = chat_template_from_text(source, "t");
  if (!parsed.ok()) return parsed.error().message();
  const auto text = render_chat(parsed.value(), messages, options);
  return text.ok() ? text.value() : text.error().message();
}
std::string value(const std::string& expression) { return rendered("{{ " + expression + " }}"); }

struct Pair {
  const char* source;
  const char* expected;
};
class Expressions : public testing::TestWithParam<Pair> {};
// Every expected text is what Jinja 3.1.6 writes.
TEST_P(Expressions, AreAsInJinja) {
  EXPECT_EQ(value(GetParam().source), GetParam().expected) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Printing, Expressions,
    testing::Values(Pair{"none", "None"}, Pair{"true", "True"}, Pair{"1.0", "1.0"}, Pair{"1e16", "1e+16"},
                    Pair{"1e-5", "1e-05"}, Pair{"0.0001", "0.0001"}, Pair{"123456789.125", "123456789.125"},
                    Pair{"1e15", "1000000000000000.0"}, Pair{"0.1 + 0.2", "0.30000000000000004"},
                    Pair{"-0.0", "-0.0"}, Pair{"[1, 'a', none, 2.5]", "[1, 'a', None, 2.5]"},
                    Pair{"(1,)", "(1,)"}, Pair{"{'a': [true]}", "{'a': [True]}"},
                    Pair{"[\"it's\", 'a\"b', '\\n\\\\']", "[\"it's\", 'a\"b', '\\n\\\\']"},
                    Pair{"['é\\u200b\\x01']", "['é\\u200b\\x01']"}, Pair{"range(3)", "range(0, 3)"},
                    Pair{"{'a': 1}.items()", "dict_items([('a', 1)])"}, Pair{"missing", ""},
                    Pair{"[missing]", "[Undefined]"}));
INSTANTIATE_TEST_SUITE_P(
    Arithmetic, Expressions,
    testing::Values(Pair{"7 // -2", "-4"}, Pair{"7 % -2", "-1"}, Pair{"-7 % 3", "2"}, Pair{"7 / 2", "3.5"},
                    Pair{"2 ** 3 ** 2", "64"}, Pair{"2 ** -1", "0.5"}, Pair{"-2 ** 2", "4"},
                    Pair{"true + 1", "2"}, Pair{"5.5 // 2", "2.0"}, Pair{"'ab' * 2", "abab"},
                    Pair{"[1] + [2]", "[1, 2]"}, Pair{"1 ~ 'a' ~ none", "1aNone"},
                    Pair{"'%s-%03d' % ('a', 7)", "a-007"}, Pair{"1 < 2 < 3", "True"},
                    Pair{"1 == 1.0", "True"}, Pair{"'b' > 'a'", "True"}, Pair{"2 in [1, 2]", "True"},
                    Pair{"'b' not in 'abc'", "False"}, Pair{"'x' in missing", "False"}, Pair{"0 or 'a'", "a"},
                    Pair{"1 and 0", "0"}, Pair{"not ''", "True"}, Pair{"'a' if 0 else 'b'", "b"},
                    Pair{"'a' if 0", ""}, Pair{"(1 == 1) is true", "True"}));
INSTANTIATE_TEST_SUITE_P(Slices, Expressions,
                         testing::Values(Pair{"'héllo'[1:3]", "él"}, Pair{"'héllo'[::-1]", "olléh"},
                                         Pair{"'héllo'[-2]", "l"}, Pair{"[1, 2, 3, 4][::2]", "[1, 3]"},
                                         Pair{"[1, 2, 3][-2:]", "[2, 3]"}, Pair{"[1, 2, 3][5:]", "[]"},
                                         Pair{"[1][7]", ""}, Pair{"range(9)[1:7:2]|list", "[1, 3, 5]"},
                                         Pair{"messages[0].role", "user"}, Pair{"messages[-1]['n']", "2"},
                                         Pair{"messages.0.role", "user"}));
INSTANTIATE_TEST_SUITE_P(
    Filters, Expressions,
    testing::Values(
        Pair{"' a '|trim", "a"}, Pair{"'straße'|upper", "STRASSE"}, Pair{"'a-b (c'|title", "A-B (C"},
        Pair{"'aB cD'|capitalize", "Ab cd"}, Pair{"'aaa'|replace('a', 'b', 2)", "bba"},
        Pair{"[1, 2]|join('-')", "1-2"}, Pair{"messages|join('/', attribute='role')", "user/assistant"},
        Pair{"'é'|length", "1"}, Pair{"missing|default('d')", "d"}, Pair{"''|d('d', true)", "d"},
        Pair{"[3, 4]|first", "3"}, Pair{"[3, 4]|last", "4"}, Pair{"'abc'|list", "['a', 'b', 'c']"},
        Pair{"messages|map(attribute='role')|list", "['user', 'assistant']"},
        Pair{"['a']|map('upper')|list", "['A']"}, Pair{"messages|selectattr('n')|list|length", "1"},
        Pair{"messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|first", "hi"},
        Pair{"messages|rejectattr('n', 'defined')|list|length", "1"}, Pair{"[0, 1]|select|list", "[1]"},
        Pair{"[1, 2]|reject('odd')|list", "[2]"}, Pair{"1|string ~ 2", "12"}, Pair{"'42.9'|int", "42"},
        Pair{"'x'|int(7)", "7"}, Pair{"'ff'|int(base=16)", "255"}, Pair{"'1.5'|float", "1.5"},
        Pair{"-3|abs", "3"}, Pair{"2.5|round", "2.0"}, Pair{"2.675|round(2)", "2.67"},
        Pair{"2.1|round(method='ceil')", "3.0"}, Pair{"7|round", "7"},
        Pair{"['b', 'A', 'a']|sort", "['A', 'a', 'b']"}, Pair{"[2, 1]|sort(reverse=true)", "[2, 1]"},
        Pair{"['a', 'A', 'b']|unique|list", "['a', 'b']"}, Pair{"'abc'|reverse", "cba"},
        Pair{"[1, 2]|reverse|list", "[2, 1]"}, Pair{"'a\\n\\nb'|indent(2)", "a\n\n  b"},
        Pair{"'<a>'|e", "&lt;a&gt;"}, Pair{"'<'|safe + '<'", "<&lt;"},
        Pair{"{'b': 1, 'A': 2}|dictsort", "[('A', 2), ('b', 1)]"}, Pair{"{'a': 1}|items|list", "[('a', 1)]"},
        Pair{"[1, 2]|sum", "3"}, Pair{"[2, 1]|min", "1"}, Pair{"'%s!'|format('a')", "a!"}));
INSTANTIATE_TEST_SUITE_P(
    ToJson, Expressions,
    testing::Values(Pair{"{'a': [1, 2.0, none, true], 'é': '<\"\\n\\x01>'}|tojson",
                         R"({"a": [1, 2.0, null, true], "é": "<\"\n\u0001>"})"},
                    Pair{"{'a': [1], 'b': {}}|tojson(indent=2)",
                         "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"},
                    Pair{"'é🙂'|tojson(ensure_ascii=true)", R"("\u00e9\ud83d\ude42")"},
                    Pair{"{'b': 1, 'a': 2}|tojson(sort_keys=true)", R"({"a": 2, "b": 1})"},
                    Pair{"[1, {'a': 2}]|tojson(separators=(',', ':'))", R"([1,{"a":2}])"},
                    Pair{"{1: 2, none: 3}|tojson", R"({"1": 2, "null": 3})"}));
INSTANTIATE_TEST_SUITE_P(Tests, Expressions,
                         testing::Values(Pair{"missing is defined", "False"}, Pair{"none is defined", "True"},
                                         Pair{"missing is undefined", "True"}, Pair{"none is none", "True"},
                                         Pair{"'a' is string", "True"}, Pair{"{} is mapping", "True"},
                                         Pair{"1 is iterable", "False"}, Pair{"{} is sequence", "True"},
                                         Pair{"true is number", "True"}, Pair{"true is integer", "False"},
                                         Pair{"1 is not boolean", "True"}, Pair{"1 is true", "False"},
                                         Pair{"false is false", "True"}, Pair{"1 is eq 1", "True"},
                                         Pair{"1 is equalto(2)", "False"}, Pair{"2 is in [1, 2]", "True"},
                                         Pair{"3 is odd", "True"}, Pair{"3 is even", "False"},
                                         Pair{"6 is divisibleby 3", "True"},
                                         Pair{"raise_exception is callable", "True"}));
INSTANTIATE_TEST_SUITE_P(
    Methods, Expressions,
    testing::Values(Pair{"'xax'.strip('x')", "a"}, Pair{"' a'.lstrip()", "a"}, Pair{"'a '.rstrip()", "a"},
                    Pair{"' a  b '.split()", "['a', 'b']"}, Pair{"'a,b,c'.split(',', 1)", "['a', 'b,c']"},
                    Pair{"'a,b,c'.rsplit(',', 1)[-1]", "c"},
                    Pair{"' a  b c '.split(none, 1)", "['a', 'b c ']"}, Pair{"'ab'.startswith('a')", "True"},
                    Pair{"'ab'.endswith(('x', 'b'))", "True"}, Pair{"'ab'.replace('', '-')", "-a-b-"},
                    Pair{"\"they're\".title()", "They'Re"}, Pair{"'éa'.find('a')", "1"},
                    Pair{"'ab'.find('z')", "-1"}, Pair{"'a\\nb\\n'.splitlines()", "['a', 'b']"},
                    Pair{"{'a': 1}.get('b', 2)", "2"}, Pair{"{'a': 1}.get('b')", "None"},
                    Pair{"{'a': 1}.keys()|list", "['a']"}, Pair{"{'a': 1}.values()|list", "[1]"},
                    Pair{"{'items': 1}['items']", "1"}, Pair{"[5, 6].index(6)", "1"},
                    Pair{"'{} {a}'.format(1, a=2)", "1 2"}));

TEST(ChatTemplate, LoopsKnowWhereTheyAre) {
  EXPECT_EQ(rendered("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ "
                     "loop.length }}{{ "
                     "loop.previtem }}{{ loop.nextitem }} {% endfor %}"),
            "10TrueFalse3b 21FalseFalse3ac 32FalseTrue3b ");
  EXPECT_EQ(rendered("{% for x in [1, 2, 3] if x != 2 %}{{ loop.length }}:{{ x }} {% endfor %}"), "2:1 2:3 ");
  EXPECT_EQ(rendered("{% for x in [] %}a{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(rendered("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}"), "a1");
  EXPECT_EQ(rendered("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% elif x == 3 %}{% break %}{% "
                     "endif %}{{ x }}{% endfor %}"),
            "02");
  EXPECT_EQ(
      rendered("{% for x in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x // 2) }}{% endfor %}"),
      "aTruebTrueaFalse");
}

TEST(ChatTemplate, AFilterWithoutLoopRunsItemByItem) {
  EXPECT_EQ(rendered("{% set ns = namespace(n=0) %}{% for x in [1, 2, 3] if ns.n < 2 %}{% set ns.n = ns.n + "
                     "1 %}{{ x }}{% endfor %}"),
            "12");
}

TEST(ChatTemplate, VariablesEndWithTheirScope) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"),
            "231");
  EXPECT_EQ(rendered("{% if true %}{% set x = 1 %}{% endif %}{{ x }}"), "1");
  EXPECT_EQ(rendered("{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor "
                     "%}{{ ns.x }}"),
            "4");
  EXPECT_EQ(rendered("{% with a = 1 %}{{ a }}{% endwith %}{{ a }}"), "1");
  EXPECT_EQ(rendered("{% set a, b = 1, 2 %}{{ a }}{{ b }}"), "12");
  EXPECT_EQ(rendered("{% set x | upper %}a{{ 1 }}{% endset %}{{ x }}"), "A1");
}

TEST(ChatTemplate, Macros) {
  EXPECT_EQ(
      rendered("{% macro m(a, b=a ~ '!') %}{{ a }}{{ b }} {% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m() }}"),
      "11! 12 ! ");
  EXPECT_EQ(rendered("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, x=2) }}"),
            "(1,){'x': 2}");
  EXPECT_EQ(
      rendered("{% macro m() %}[{{ caller('x') }}]{% endmacro %}{% call(a) m() %}<{{ a }}>{% endcall %}"),
      "[<x>]");
  EXPECT_EQ(rendered("{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}"),
            "3210");
  EXPECT_EQ(rendered("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "t, line 1: chat_c3: macro \"m\" takes 1 arguments, got 2");
}

TEST(ChatTemplate, GenerationBlocksPassThrough) {
  EXPECT_EQ(rendered("a{% generation %}{{ 1 }}b{% endgeneration %}c"), "a1bc");
  EXPECT_EQ(rendered("{% filter upper %}a{{ 'b' }}{% endfilter %}"), "AB");
}

TEST(ChatTemplate, OptionsAreVariables) {
  ChatOptions options;
  options.add_generation_prompt = true;
  options.bos_token = "<s>";
  options.extra["thinking"] = false;
  options.tools = Json::array({Json{{"name", "f"}}});
  EXPECT_EQ(
      rendered("{{ bos_token }}{{ add_generation_prompt }}{{ thinking }}{{ tools[0].name }}{{ documents }}",
               options),
      "<s>TrueFalsefNone");
  std::tm now{};
  now.tm_year = 126;
  now.tm_mday = 5;
  options.now = now;
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y') }}", options), "05 Jan 2026");
}

TEST(ChatTemplate, ReasoningHasItsStandardName) {
  const Json messages{{{"role", "assistant"}, {"reasoning", "why"}}};
  EXPECT_EQ(rendered("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}", {}, messages),
            "whywhy");
}

TEST(ChatTemplate, UseOfUndefinedIsAnErrorWithItsLine) {
  EXPECT_EQ(rendered("\n{{ a.b }}"), "t, line 2: chat_c3: \"a\" is undefined");
  EXPECT_EQ(value("messages[0].x.y"), "t, line 1: chat_c3: dict object has no attribute \"x\"");
  EXPECT_EQ(value("1 + missing"), "t, line 1: chat_c3: \"missing\" is undefined");
  EXPECT_EQ(value("missing()"), "t, line 1: chat_c3: \"missing\" is undefined");
}

TEST(ChatTemplate, WhatIsLackingIsNamed) {
  EXPECT_EQ(value("1|filesizeformat"), "t, line 1: chat_c5: the filter \"filesizeformat\" is not supported");
  EXPECT_EQ(value("1 is prime"), "t, line 1: chat_c5: the test \"prime\" is not supported");
  EXPECT_EQ(rendered("{% include 'a' %}"), "t, line 1: chat_c5: the statement \"include\" is not supported");
  EXPECT_EQ(value("9223372036854775807 + 1"), "t, line 1: chat_c5: the result of + does not fit in 64 bits");
}

TEST(ChatTemplate, RefusalsAreTheTemplatesOwnWords) {
  EXPECT_EQ(value("raise_exception('roles must alternate')"),
            "t, line 1: chat_c6: roles must alternate (the template refuses these messages)");
}

TEST(ChatTemplate, ValuesCannotBeChangedNorSeenInto) {
  EXPECT_EQ(value("messages.append(1)"),
            "t, line 1: chat_c3: access to attribute \"append\" of list is unsafe");
  EXPECT_EQ(value("messages[0].pop('role')"),
            "t, line 1: chat_c3: access to attribute \"pop\" of dict is unsafe");
  EXPECT_EQ(value("''.__class__"), "");  // as in Jinja's sandbox
  EXPECT_EQ(value("''.__class__.x"),
            "t, line 1: chat_c3: access to attribute \"__class__\" of str is unsafe");
  EXPECT_EQ(value("namespace(_a=1)"), "t, line 1: chat_c4: a namespace's attribute may not begin with \"_\"");
}

TEST(ChatTemplate, LimitsEndTheRun) {
  ChatOptions options;
  options.limits.max_steps = 1000;
  EXPECT_EQ(rendered("{% for i in range(1000) %}{% endfor %}", options),
            "t, line 1: chat_c2: the template needs more than 1000 steps");
  options = {};
  options.limits.max_output_bytes = 100;
  EXPECT_THAT(rendered("{% for i in range(60) %}ab{% endfor %}", options),
              HasSubstr("chat_c2: more than 100 bytes of text"));
  EXPECT_THAT(rendered("{{ 'x' * 101 }}", options), HasSubstr("line 1: chat_c2: more than 100 bytes"));
  options = {};
  options.limits.max_memory_bytes = 100'000;
  EXPECT_THAT(rendered("{% set ns = namespace(a=[]) %}{% for i in range(1000) %}{% set ns.a = ns.a + ['x' * "
                       "200 ~ i] %}{% endfor %}",
                       options),
              HasSubstr("chat_c2"));
  EXPECT_THAT(rendered("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("chat_c2: calls nested deeper than 400 nodes"));
  EXPECT_THAT(value("range(100001)"), HasSubstr("chat_c2: a range of 100001 numbers, the limit is 100000"));
  EXPECT_THAT(rendered("{{ " + std::string(200, '[') + std::string(200, ']') + " }}"),
              HasSubstr("chat_c2: nested deeper than 150"));
}

TEST(ChatTemplate, MemoryIsGivenBack) {
  ChatOptions options;
  options.limits.max_memory_bytes = 1'000'000;
  EXPECT_EQ(rendered("{% for i in range(1000) %}{% set x = 'x' * 10000 %}{% endfor %}done", options), "done");
}

TEST(ChatTemplate, NamespacesThatHoldThemselvesEnd) {
  EXPECT_EQ(
      rendered(
          "{% set a = namespace() %}{% set a.b = a %}{% macro m() %}{{ a }}{% endmacro %}{% set a.m = m %}x"),
      "x");
}

class ChatTemplateFiles : public testing::Test {
 protected:
  TestFolder folder_;
  void write_file(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_text(real_files(), folder_ / name, text).ok());
  }
  void write(const std::string& name, const Json& json) { write_file(name, json.dump()); }
  std::string rendered_folder(const ChatOptions& options = {}) {
    const auto loaded = load_chat_template(real_files(), folder_.path());
    if (!loaded.ok()) return loaded.error().text;
    const auto text = render_chat(loaded.value(), kMessages, options);
    return text.ok() ? text.value() : text.error().text;
  }
};

TEST_F(ChatTemplateFiles, TheJinjaFileComesFirst) {
  EXPECT_EQ(rendered_folder(), "no chat_template.jinja, chat_template.json or tokenizer_config.json");
  write("tokenizer_config.json",
        Json{{"chat_template", "old{{ eos_token }}"}, {"eos_token", {{"content", "<e>"}}}});
  EXPECT_EQ(rendered_folder(), "old<e>");
  write("chat_template.json", Json{{"chat_template", "json"}});
  EXPECT_EQ(rendered_folder(), "json");
  write_file("chat_template.jinja", "new{{ eos_token }}{{ bos_token }}");
  EXPECT_EQ(rendered_folder(), "new<e>");
  write("special_tokens_map.json", Json{{"bos_token", "<b>"}, {"eos_token", "other"}});
  EXPECT_EQ(rendered_folder(), "new<e><b>");
}

TEST_F(ChatTemplateFiles, NamedTemplates) {
  const auto named = [](const char* name) { return Json{{"name", name}, {"template", name}}; };
  write("tokenizer_config.json",
        Json{{"chat_template", {named("default"), named("tool_use"), named("rag")}}});
  EXPECT_EQ(rendered_folder(), "default");
  ChatOptions options;
  options.tools = Json::array();
  EXPECT_EQ(rendered_folder(options), "tool_use");
  options.template_name = "rag";
  EXPECT_EQ(rendered_folder(options), "rag");
  options.template_name = "x";
  EXPECT_EQ(rendered_folder(options), "there is no template \"x\", only default, tool_use, rag");
}

TEST_F(ChatTemplateFiles, OtherForms) {
  write("tokenizer_config.json", Json::object());
  EXPECT_EQ(rendered_folder(), "no chat_template in it");
  write("tokenizer_config.json", Json{{"chat_template", 1}});
  EXPECT_EQ(rendered_folder(), "chat_template must be a string or a list, found number");
  write("tokenizer_config.json", Json{{"chat_template", {1}}});
  EXPECT_EQ(rendered_folder(), "a chat template in a list must have a name and a template");
  EXPECT_EQ(rendered("", {}, Json::object()), "chat_c7: messages must be a list, found object");
  EXPECT_EQ(rendered("", {}, Json{1}), "chat_c7: messages[0] must be an object, found number");
}

}  // namespace
}  // namespace tandem
