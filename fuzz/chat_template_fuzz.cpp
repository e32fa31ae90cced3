#include <cstdlib>

#include "fuzz/fuzz.h"
#include "text/template/chat_template.h"
#include "text/template/unicode.h"

namespace tandem::fuzz {
namespace {

Json parsed(std::string_view text) {
  auto json = parse_json(text);
  if (!json.ok()) std::abort();
  return std::move(json).value();
}

}  // namespace

/// A template, rendered within small limits. What it writes is UTF-8.
void fuzz_one(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto chat_template = chat_template_from_text(text, "t");
  if (!chat_template.ok()) return;
  ChatOptions options;
  options.limits.max_steps = 20'000;
  options.limits.max_output_bytes = 1 << 16;
  options.limits.max_memory_bytes = 1 << 22;
  options.bos_token = "<s>";
  options.tools = parsed(R"([{"name": "f"}])");
  options.now = std::tm{};
  static const Json kMessages =
      parsed(R"([{"role": "system", "content": "a"}, {"role": "user", "content": "hé "},
      {"role": "assistant", "content": null, "tool_calls": [{"id": 1, "x": 2.5}]}])");
  const auto rendered = render_chat(chat_template.value(), kMessages, options);
  if (rendered.ok() &&
      (!chat::is_utf8(rendered.value()) || rendered.value().size() > options.limits.max_output_bytes))
    std::abort();
  if (!rendered.ok() && rendered.error().kind == ErrorKind::bug) std::abort();
}

std::vector<std::string> seeds() {
  return {
      "{%- set ns = namespace(a='', n=0) -%}{% for m in messages if m.role != 'user' %}{% set ns.a = ns.a ~ "
      "m['content'] %}"
      "{{ loop.index }}{{ loop.nextitem.role }}{% else %}x{% endfor %}{{ ns.a }}",
      "{% macro m(a, b=1) %}{{ a | tojson(indent=2) }}{{ caller() }}{{ varargs }}{% endmacro %}{% call "
      "m(messages) %}{{ 1 // 2 ** 3 "
      "}}{% endcall %}",
      "{{ messages | selectattr('content', 'string') | map(attribute='content') | join(', ') | title }}{{ "
      "'ab'[::-1] * 3 }}",
      "{{ messages[-1].tool_calls[0] | items | list }}{{ '%s %5.2f' % ('a', 1.5) }}{{ '{} {a}'.format(1, "
      "a=2) }}{{ \"\\u00e9\" | "
      "upper }}",
      "{# c -#}\n  {%+ if tools is not none and not false %}\n{{- bos_token }}{% raw %}{{ }}{% endraw %}{% "
      "endif %}{% break %}",
      "{% filter upper %}{% with a = (1, 2.5), b = {'k': none} %}{{ a ~ b }}{{ a | sum | round(1) }}{% "
      "endwith %}{% endfilter %}"
      "{{ messages | dictsort }}",
      "{% set x | trim %} {{ range(3, 0, -1) | list | sort }}{% generation %}{{ strftime_now('%Y') }}{% "
      "endgeneration %} {% endset "
      "%}{{ x.split('2', 1) }}",
  };
}

}  // namespace tandem::fuzz
