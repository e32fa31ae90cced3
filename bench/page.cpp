#include "bench/page.h"

#include "base/hash.h"
#include "verify/report_assets.h"
#include "verify/report_text.h"

// The assembler reads the script where TANDEM_BENCH_DIR says (bench/CMakeLists.txt).
asm(".section .rodata\n"
    ".hidden tandem_bench_script\n"
    ".global tandem_bench_script\n"
    "tandem_bench_script:\n"
    ".incbin \"" TANDEM_BENCH_DIR
    "/page.js\"\n"
    ".byte 0\n"
    ".previous\n");
extern "C" __attribute__((visibility("hidden"))) const char tandem_bench_script[];

namespace tandem {
namespace {

std::string cell(const std::string& text) { return "<td>" + html(text) + "</td>"; }
std::string number(const std::string& text) { return "<td class=\"number\">" + html(text) + "</td>"; }

std::string interval(const Json& json, std::string_view unit = "") {
  return fmt::format("{:.4g}{} [{:.4g}, {:.4g}]", json.at("median").get<double>(), unit,
                     json.at("low").get<double>(), json.at("high").get<double>());
}

std::string row(const Json& result) {
  const std::string name = cell(result.at("contender").get<std::string>());
  if (result.contains("failure"))
    return fmt::format("<tr>{}<td colspan=\"4\">not timed: {}</td></tr>\n", name,
                       html(result.at("failure").get<std::string>()));
  const bool load = result.contains("to_first_token_s");
  return fmt::format(
      "<tr>{}{}{}{}{}</tr>\n", name,
      number(load ? interval(result.at("to_first_token_s"), " s") : interval(result.at("tokens_per_s"))),
      number(interval(result.at("ratio"))),
      number(load ? "" : fmt::format("{:.2f}", result.at("share_of_limit").get<double>())),
      number(fmt::format("{:.1e}", result.at("max_abs_error").get<double>())));
}

std::string scenario_section(const Json& scenario) {
  std::string out = fmt::format(
      "<h2>{}</h2>\n<div class=\"scroll\"><table><thead><tr><th scope=\"col\">contender</th>"
      "<th scope=\"col\" class=\"number\">tokens/s</th><th scope=\"col\" class=\"number\">ratio</th>"
      "<th scope=\"col\" class=\"number\">of the limit</th><th scope=\"col\" class=\"number\">max error</th>"
      "</tr></thead><tbody>\n",
      html(scenario.at("name").get<std::string>()));
  for (const Json& result : scenario.at("results")) out += row(result);
  return out + "</tbody></table></div>\n";
}

std::string chart(std::string_view id, std::string_view title, std::string_view caption) {
  return fmt::format(
      "<figure data-chart=\"{}\"><figcaption><b>{}</b>{}</figcaption><div class=\"chart\"></div></figure>\n",
      id, title, caption);
}

std::string contenders(const Json& report) {
  std::string out = "<h2>Contenders</h2>\n<table><tbody>\n";
  for (const auto& [name, info] : report.at("contenders").items()) {
    std::string words;
    for (const auto& [key, value] : info.items())
      if (const auto text = value.get<std::string>(); !text.empty())
        words += fmt::format("{}{} {}", words.empty() ? "" : ", ", key, text);
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html(name), html(words));
  }
  for (const auto& [name, why] : report.at("not_started").items())
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>not timed: {}</td></tr>\n", html(name),
                       html(why.get<std::string>()));
  return out + "</tbody></table>\n";
}

std::string body(const Json& report) {
  const Json& limits = report.at("limits");
  std::string out = fmt::format(
      "<h1>Tandem: how fast?</h1>\n<p class=\"verdict pass\">{}</p>\n<p class=\"note\">{}, {}, {} threads: "
      "memory "
      "{:.1f} GB/s, arithmetic {:.0f} GFLOP/s of float32. {} weights, {:.0f} take part in a token. Nothing "
      "is timed "
      "before its logits and tokens agree with the first contender's. In brackets: 95 % bootstrap interval "
      "of the "
      "median.</p>\n",
      html(report.at("model").get<std::string>()), html(limits.at("processor").get<std::string>()),
      html(limits.at("instructions").get<std::string>()), report.at("threads").get<uint64_t>(),
      limits.at("memory_read_bytes_per_s").get<double>() / 1e9,
      limits.at("float32_operations_per_s").get<double>() / 1e9, report.at("weights").get<uint64_t>(),
      report.at("weights_a_token").get<double>());
  out += chart("ratios", "Speed", "over the first contender's of the same round");
  out += chart("roofline", "Roofline", "the line is what memory and arithmetic allow");
  for (const Json& scenario : report.at("scenarios")) out += scenario_section(scenario);
  return out + contenders(report);
}

}  // namespace

std::string bench_page(const Json& report) {
  const std::string text = body(report), json = json_for_script(report);
  const std::string nonce = sha256_hex(as_bytes(text + json));
  return filled(report_html(), {{"nonce", nonce},
                                {"title", "Tandem: speed"},
                                {"style", report_style()},
                                {"body", text},
                                {"json", json},
                                {"vega", report_vega()},
                                {"script", tandem_bench_script}});
}

}  // namespace tandem
