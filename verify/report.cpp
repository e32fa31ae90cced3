#include "verify/report.h"

#include <cmath>

#include "base/hash.h"
#include "verify/report_assets.h"
#include "verify/report_text.h"

namespace tandem {
namespace {

constexpr size_t kShownRows = 20;     // of a list that only says what is wrong
constexpr size_t kShownDepths = 130;  // of the stack
constexpr size_t kShownBytes = 300;   // of one text

/// A member by its path ("/levels/model/kl"), or null.
const Json& at(const Json& json, const std::string& path) {
  static const Json null;
  const Json::json_pointer pointer(path);
  return json.contains(pointer) ? json.at(pointer) : null;
}

std::string with_commas(const std::string& digits) {
  std::string text = digits;
  for (size_t i = text.size(); i > 3 && text[i - 4] != '-';) text.insert(i -= 3, ",");
  return text;
}

std::string shown(std::string text) {
  if (text.size() <= kShownBytes) return text;
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + " ...";
}

/// Any value as the words of a cell.
std::string words(const Json& value) {
  if (value.is_string()) return shown(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return with_commas(value.dump());
  if (!value.is_number()) return "-";
  const double number = value.get<double>();
  if (!std::isfinite(number)) return "not finite";
  return number == 0 || (std::abs(number) >= 1e-2 && std::abs(number) < 1e4) ? fmt::format("{:.5g}", number)
                                                                             : fmt::format("{:.2e}", number);
}

std::string percent(const Json& value) {
  return value.is_number() ? fmt::format("{:.2f} %", 100 * value.get<double>()) : "-";
}

/// "pass" or "fail", as the word and as the class that colours it.
std::string verdict_mark(const Json& equal) {
  const bool passed = equal.is_boolean() && equal.get<bool>();
  return passed ? "<strong class=\"pass\">equal</strong>" : "<strong class=\"fail\">different</strong>";
}

// Tables. Cells are HTML already: cell(), number() and name() make them of text.
using Row = std::vector<std::string>;
std::string cell(std::string_view text) { return "<td>" + html(text) + "</td>"; }
std::string number(std::string_view text) { return "<td class=\"number\">" + html(text) + "</td>"; }
std::string name(std::string_view text) { return "<td class=\"name\">" + html(text) + "</td>"; }
std::string mark(const Json& equal) { return "<td>" + verdict_mark(equal) + "</td>"; }

/// A table; a heading that starts with '#' is that of numbers. Nothing where there are no rows.
std::string table(std::string_view caption, const std::vector<std::string_view>& heads,
                  const std::vector<Row>& rows) {
  if (rows.empty()) return {};
  std::string out =
      fmt::format("<div class=\"scroll\"><table><caption>{}</caption><thead><tr>", html(caption));
  for (const std::string_view head : heads)
    out += head.starts_with('#')
               ? fmt::format("<th scope=\"col\" class=\"number\">{}</th>", html(head.substr(1)))
               : fmt::format("<th scope=\"col\">{}</th>", html(head));
  out += "</tr></thead><tbody>\n";
  for (const Row& row : rows) out += fmt::format("<tr>{}</tr>\n", fmt::join(row, ""));
  return out + "</tbody></table></div>\n";
}

/// Label and value, one a row.
std::string facts(const std::vector<std::pair<std::string_view, std::string>>& rows) {
  std::string out = "<table><tbody>\n";
  for (const auto& [label, value] : rows)
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html(label), html(value));
  return out + "</tbody></table>\n";
}

/// Lines, the first of them.
std::string lines(std::string_view title, const Json& list) {
  if (!list.is_array() || list.empty()) return {};
  std::string out = fmt::format("<h3>{}</h3>\n<ul>\n", html(title));
  for (size_t i = 0; i < std::min(list.size(), kShownRows); ++i)
    out += fmt::format("<li>{}</li>\n", html(words(list[i])));
  if (list.size() > kShownRows)
    out += fmt::format("<li>and {} more, in --json</li>\n", list.size() - kShownRows);
  return out + "</ul>\n";
}

/// Where the script draws: empty figures are taken away again.
std::string chart(std::string_view id, std::string_view title, std::string_view caption) {
  return fmt::format(
      "<figure data-chart=\"{}\"><figcaption><b>{}</b>{}</figcaption><div class=\"chart\"></div>"
      "<noscript>This chart is drawn by a script; the tables of this page stand "
      "without.</noscript></figure>\n",
      id, html(title), html(caption));
}

std::string note(std::string_view text) { return fmt::format("<p class=\"note\">{}</p>\n", html(text)); }

// One level in a line, for the first table; and its section.

std::string weights_in_short(const Json& level) {
  return fmt::format("{} of {} tensors equal, bit for bit or exactly rounded",
                     words(at(level, "/equal_tensors")), words(at(level, "/compared")));
}

std::string weights_section(const Json& level) {
  const auto odd = [&](const std::string& side) {
    const Json& values = at(level, side);
    return fmt::format("{} NaN, {} infinite, {} denormal", words(at(values, "/nan")),
                       words(at(values, "/infinite")), words(at(values, "/denormal")));
  };
  return facts({{"Tensors compared", words(at(level, "/compared"))},
                {"Equal", words(at(level, "/equal_tensors"))},
                {"of them exactly rounded", words(at(level, "/rounded"))},
                {"Values", words(at(level, "/values"))},
                {"Odd values, left", odd("/left_odd_values")},
                {"Odd values, right", odd("/right_odd_values")}}) +
         lines("Different", at(level, "/differences")) + lines("On one side only", at(level, "/on_one_side"));
}

struct Taps {
  size_t count = 0;
  std::vector<const Json*> failed;
};
void collect(const Json& list, Taps& taps) {
  for (const Json& tap : list) {
    ++taps.count;
    if (at(tap, "/equal") != Json(true)) taps.failed.push_back(&tap);
  }
}
Taps taps_of(const Json& layer_level) {
  Taps taps;
  for (const Json& layer : at(layer_level, "/layers")) collect(at(layer, "/taps"), taps);
  return taps;
}

std::string failed_taps(const Taps& taps) {
  std::vector<Row> rows;
  for (size_t i = 0; i < std::min(taps.failed.size(), kShownRows); ++i) {
    const Json& tap = *taps.failed[i];
    const Json& why = at(tap, "/failures/0");
    rows.push_back({name(words(at(tap, "/tap"))), number(words(at(tap, "/over_bar"))),
                    cell(why.is_null() ? "nothing was compared" : words(why))});
  }
  const std::string caption =
      taps.failed.size() > kShownRows
          ? fmt::format("Taps out of line: the first {} of {}", kShownRows, taps.failed.size())
          : "Taps out of line";
  return table(caption, {"Tap", "#Times its bar", "Why"}, rows);
}

std::string layer_in_short(const Json& level) {
  const Taps taps = taps_of(level);
  return fmt::format(
      "{} of {} taps in line, each layer on {}; {} values", taps.count - taps.failed.size(), taps.count,
      at(level, "/own_inputs") == Json(true) ? "its side's own input" : "the reference's input",
      words(at(level, "/values")));
}

std::string routing_table(const Json& level) {
  std::vector<Row> rows;
  for (const Json& layer : at(level, "/layers")) {
    const Json& routing = at(layer, "/routing");
    if (routing.is_null() || rows.size() == kShownDepths) continue;
    rows.push_back({name(words(at(layer, "/layer"))), number(words(at(routing, "/tokens"))),
                    number(words(at(routing, "/same"))), number(words(at(routing, "/near_ties"))),
                    number(words(at(routing, "/faults")))});
  }
  return table("Routing: tokens with the same experts on both sides",
               {"Layer", "#Tokens", "#Same experts", "#Near ties", "#Faults"}, rows);
}

std::string layer_section(const Json& level) {
  const std::string routing = routing_table(level);
  const std::string inputs = at(level, "/own_inputs") == Json(true)
                                 ? "The other side cannot run single layers: each layer had its side's own "
                                   "input, so that a fault spreads."
                                 : "Each layer was fed the reference's own input, so that a fault does not "
                                   "spread to the next layer.";
  return note(
             "A tap is an intermediate value. Its bar is 4 times the reference's own distance from the "
             "contract in float64 (the fixed bar, where float64 was not run).") +
         chart("taps", "Taps by layer",
               "Colour: distance from float64 over the tap's bar, on the worst probe; grey where no bar "
               "decides "
               "(a router is judged by the experts it chose). A cross marks what is out of line. " +
                   inputs) +
         failed_taps(taps_of(level)) + lines("Failures", at(level, "/failures")) + routing +
         (routing.empty() ? std::string()
                          : chart("routing", "Routing agreement by expert",
                                  "Of the tokens for which either side chose the expert, the share for which "
                                  "both did. Blank: chosen by neither."));
}

std::string module_in_short(const Json& level) {
  const Json& depths = at(level, "/depths");
  if (!depths.is_array() || depths.empty()) return "nothing was compared";
  return fmt::format("error at the last of {} depths {} of the RMS (reference {}); growth: {}", depths.size(),
                     words(at(depths.back(), "/other")), words(at(depths.back(), "/reference")),
                     words(at(level, "/growth")));
}

std::string module_section(const Json& level) {
  std::vector<Row> rows;
  const Json &depths = at(level, "/depths"), &taps = at(level, "/taps");
  for (size_t i = 0; i < std::min(depths.size(), kShownDepths); ++i)
    rows.push_back({name(words(at(depths[i], "/tap"))), number(words(at(depths[i], "/reference"))),
                    number(words(at(depths[i], "/other"))),
                    mark(i < taps.size() ? at(taps[i], "/equal") : Json())});
  return chart("depths", "Error growth down the stack",
               "RMS of (side - float64) over the RMS of the hidden states, of whole runs: errors add up. "
               "Zeros are not drawn.") +
         table("Error by depth, as a share of the hidden states' RMS",
               {"Depth", "#Reference", "#Other side", "Verdict"}, rows) +
         (at(level, "/forced_experts") == Json(true)
              ? note("The other side ran with the reference's experts, so that a near tie is no difference.")
              : std::string()) +
         chart("positions", "Error by position",
               "The last hidden state's error on the longest probe, over its RMS. Errors that grow with the "
               "position "
               "point to rotary embedding or mask. Zeros are not drawn.");
}

std::string model_in_short(const Json& level) {
  return fmt::format("max error {}, KL {}, top-1 {} over {} tokens", words(at(level, "/max_abs_error")),
                     words(at(level, "/kl")), percent(at(level, "/top1_agreement")),
                     words(at(level, "/tokens")));
}

std::string probes_table(const Json& level) {
  std::vector<Row> rows;
  for (const Json& probe : at(level, "/probes")) {
    if (rows.size() == kShownDepths) break;
    rows.push_back({cell(words(at(probe, "/name"))), number(words(at(probe, "/tokens"))),
                    number(words(at(probe, "/max_abs_error"))), number(words(at(probe, "/mean_abs_error"))),
                    number(words(at(probe, "/kl"))), number(percent(at(probe, "/top1_agreement"))),
                    number(words(at(probe, "/loss_difference"))),
                    mark(at(probe, "/failures").is_array() && at(probe, "/failures").empty())});
  }
  return table(
      "Logits by probe; KL is the largest of one token, in nats",
      {"Probe", "#Tokens", "#Max error", "#Mean error", "#KL", "#Top-1", "#Loss difference", "Verdict"},
      rows);
}

std::string worst_tokens(const Json& level) {
  std::vector<Row> rows;
  const auto id = [](const Json& value) { return value.is_number() ? value.dump() : "-"; };
  for (const Json& token : at(level, "/worst_tokens")) {
    const auto with_piece = [&](const char* place, const char* piece) {
      const Json& known = at(token, piece);
      return id(at(token, place)) + (known.is_string() ? " " + known.dump() : "");
    };
    const bool finite = at(token, "/kl").is_number();
    rows.push_back({number(finite ? words(at(token, "/kl")) : "not finite"), cell(words(at(token, "/probe"))),
                    number(id(at(token, "/row"))), number(with_piece("/token", "/piece")),
                    number(id(at(token, "/position"))),
                    number(with_piece("/reference_id", "/reference_piece")),
                    number(with_piece("/other_id", "/other_piece"))});
  }
  return table("The tokens with the largest KL, and the most likely id on each side",
               {"#KL", "Probe", "#Row", "#Token", "#Position", "#Reference", "#Other side"}, rows);
}

std::string probe_failures(const Json& level) {
  Json all = Json::array();
  for (const Json& probe : at(level, "/probes"))
    for (const Json& line : at(probe, "/failures"))
      all.push_back(words(at(probe, "/name")) + ": " + words(line));
  return lines("Failures", all);
}

std::string model_section(const Json& level) {
  return probes_table(level) +
         facts(
             {{"Mean KL", words(at(level, "/mean_kl"))},
              {"NMSE", words(at(level, "/nmse"))},
              {"1 - cosine",
               at(level, "/cosine").is_number() ? words(Json(1 - at(level, "/cosine").get<double>())) : "-"},
              {"Top-5 and top-10",
               percent(at(level, "/top5_agreement")) + ", " + percent(at(level, "/top10_agreement"))},
              {"Loss, reference and other side",
               words(at(level, "/loss_reference")) + ", " + words(at(level, "/loss_other"))},
              {"Bars",
               fmt::format("max error {}{}, KL {}, top-1 {}: {}", words(at(level, "/bar/max_abs_error")),
                           at(level, "/bar/times_rms") == Json(true) ? " times the RMS of the logits" : "",
                           words(at(level, "/bar/kl")), percent(at(level, "/bar/top1_share")),
                           words(at(level, "/bar/reason")))}}) +
         probe_failures(level) +
         chart(
             "kl", "KL by position",
             "KL(reference || other side) of one token's distribution, in nats, along the longest probe. Of "
             "neighbours that do not fit, the largest stands; zeros are not drawn.") +
         worst_tokens(level) + lines("Left out", at(level, "/skipped"));
}

std::string generation_in_short(const Json& level) {
  return fmt::format("{} of {} prompts equal in full, {} part at a near tie, {} otherwise",
                     words(at(level, "/exact")), words(at(level, "/prompts")), words(at(level, "/near_ties")),
                     words(at(level, "/faults")));
}

std::string generation_section(const Json& level) {
  std::vector<Row> rows;
  for (const Json& part : at(level, "/first_differences")) {
    if (rows.size() == kShownRows) break;
    Row row;
    for (const auto& [key, value] : part.items())
      if (row.size() < 6 && value.is_primitive()) row.push_back(cell(key + " " + words(value)));
    rows.push_back(std::move(row));
  }
  return facts({{"Prompts", words(at(level, "/prompts"))},
                {"New tokens each", words(at(level, "/max_new_tokens"))},
                {"Tokens compared", words(at(level, "/tokens"))},
                {"Equal in full", words(at(level, "/exact"))},
                {"Part at a near tie", words(at(level, "/near_ties"))},
                {"Part otherwise", words(at(level, "/faults"))},
                {"BLEU-4", words(at(level, "/bleu"))}}) +
         lines("Failures", at(level, "/failures")) + table("Where continuations part", {}, rows) +
         lines("Left out", at(level, "/skipped"));
}

struct LevelPage {
  const char* name;
  const char* title;
  std::string (*in_short)(const Json& level);
  std::string (*section)(const Json& level);
};
constexpr LevelPage kPages[] = {
    {"weights", "Weights", weights_in_short, weights_section},
    {"layer", "Layers", layer_in_short, layer_section},
    {"module", "Hidden states down the stack", module_in_short, module_section},
    {"model", "Logits", model_in_short, model_section},
    {"generation", "Generation", generation_in_short, generation_section},
};

const Json& level_of(const Json& report, const LevelPage& page) {
  return at(report, std::string("/levels/") + page.name);
}

/// The levels that were compared and have that outcome, as words.
std::string levels_where(const Json& report, bool equal) {
  std::vector<std::string> names;
  for (const LevelPage& page : kPages)
    if (at(level_of(report, page), "/equal") == Json(equal)) names.push_back(page.name);
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

std::string sides(const Json& report) {
  std::vector<Row> rows;
  const std::string reference = words(at(report, "/reference"));
  for (const std::string side : {"left", "right"}) {
    std::string versions;
    for (const auto& [key, value] : at(report, "/" + side).items())
      if (key != "path" && key != "engine" && key != "format")
        versions += fmt::format("{}{} {}", versions.empty() ? "" : ", ", key, words(value));
    const Json& engine = at(report, "/" + side + "/engine");
    rows.push_back({cell(side + (side == reference ? " (reference)" : "")),
                    cell(words(engine.is_null() ? at(report, "/" + side + "/format") : engine)),
                    name(words(at(report, "/" + side + "/path"))), cell(versions)});
  }
  return table("What was compared", {"Side", "Runs in", "Path", "Versions"}, rows);
}

std::string summary(const Json& report) {
  std::vector<Row> rows;
  for (const LevelPage& page : kPages) {
    const Json& level = level_of(report, page);
    if (level.is_null()) continue;
    rows.push_back({fmt::format("<td><a href=\"#{}\">{}</a></td>", page.name, page.name),
                    mark(at(level, "/equal")), cell(page.in_short(level))});
  }
  return table("Levels", {"Level", "Verdict", "In short"}, rows);
}

std::string tried_table(const Json& divergence) {
  std::vector<Row> rows;
  for (const Json& tried : at(divergence, "/tried")) {
    if (rows.size() == kShownDepths) break;
    rows.push_back({name(words(at(tried, "/fault"))), cell(words(at(tried, "/cause"))),
                    cell(words(at(tried, "/words"))),
                    number(at(tried, "/left").is_null() ? "not finite" : words(at(tried, "/left"))),
                    cell(words(at(tried, "/explains"))), cell(words(at(tried, "/explains_layer")))});
  }
  return table(
      "Hypotheses tried at this op: the share of its difference that is left when the fault is assumed",
      {"Fault", "Cause", "In words", "#Left", "Explains the op", "and the layer"}, rows);
}

std::string divergence_section(const Json& report) {
  const Json& found = at(report, "/divergence");
  if (found.is_null()) return {};
  const std::string explanation = words(at(found, "/words"));
  return "<section id=\"divergence\">\n<h2>First divergence</h2>\n" +
         facts({{"Tap", words(at(found, "/tap"))},
                {"Shown by", "level " + words(at(found, "/level")) + ", probe " + words(at(found, "/probe"))},
                {"Op", words(at(found, "/op")) + " (" + words(at(found, "/value")) + ")"},
                {"Module", words(at(found, "/module"))},
                {"Cause", words(at(found, "/cause")) + (explanation.empty() ? "" : ": " + explanation)}}) +
         lines("Besides", at(found, "/also")) + "</section>\n";
}

std::string hypotheses_section(const Json& report) {
  const Json& found = at(report, "/divergence");
  const std::string tried = tried_table(found);
  if (tried.empty()) return {};
  return "<section id=\"hypotheses\">\n<h2>Hypotheses tried</h2>\n" +
         chart("tried", "What is left of the difference",
               "The share of the op's difference that is left when the fault is assumed: near zero explains "
               "it, 1 "
               "changes nothing, more makes it worse.") +
         tried + "</section>\n";
}

std::string level_sections(const Json& report) {
  std::string out;
  for (const LevelPage& page : kPages) {
    const Json& level = level_of(report, page);
    if (level.is_null()) continue;
    out += fmt::format("<section id=\"{}\">\n<h2>{}: {}</h2>\n{}</section>\n", page.name, page.title,
                       verdict_mark(at(level, "/equal")), page.section(level));
  }
  return out;
}

/// `full`: with the sections; without them any report fits.
std::string body(const Json& report, bool whole, bool full) {
  const bool equal = at(report, "/equal") == Json(true);
  const std::string sentence = verdict_sentence(report);
  const size_t word = std::min(sentence.find(':'), sentence.size());
  return fmt::format(
             "<h1>Tandem: do both sides hold and compute the same?</h1>\n<p class=\"verdict {}\"><strong>{}"
             "</strong>{}</p>\n",
             equal ? "pass" : "fail", html(sentence.substr(0, word)), html(sentence.substr(word))) +
         sides(report) + summary(report) +
         (at(report, "/float64") == Json(true)
              ? note("Bars of taps are derived: the contract was run in float64.")
              : note("The contract was not run in float64: bars are fixed ones, and no cause is looked "
                     "for.")) +
         lines("Notes", at(report, "/notes")) +
         (whole ? std::string()
                : note("The report is large: digits and the ends of long lists are left out of the charts. "
                       "The whole is in --json.")) +
         (full ? divergence_section(report) + level_sections(report) + hypotheses_section(report)
               : note("Its names are too long for a page: the figures are in --json alone."));
}

std::string page_of(const Json& report, const CarriedJson& json, bool full = true) {
  const std::string text = body(report, json.whole, full);
  // Only scripts with this word run. It hangs on all that the page holds, so that nothing in it can know it.
  const std::string nonce = sha256_hex(as_bytes(text + json.text));
  return filled(report_html(),
                {{"nonce", nonce},
                 {"title", at(report, "/equal") == Json(true) ? "Tandem: equal" : "Tandem: not equal"},
                 {"style", report_style()},
                 {"body", text},
                 {"json", json.text},
                 {"vega", report_vega()},
                 {"script", report_script()}});
}

}  // namespace

std::string verdict_sentence(const Json& report) {
  const std::string passed = levels_where(report, true), failed = levels_where(report, false);
  const Json& divergence = at(report, "/divergence");
  if (at(report, "/equal") == Json(true))
    return fmt::format("Equal: both sides agree at every level that was compared ({}).", passed);
  if (passed.empty() && failed.empty()) return "Not equal: nothing was compared.";
  std::string text =
      at(report, "/verdict") == Json("contract and reference disagree")
          ? "Contract and reference disagree: what the contract says is not what the reference "
            "computes, so the other side cannot be judged by it"
          : fmt::format("Different: {} {}", failed, failed.find(' ') == failed.npos ? "fails" : "fail");
  if (divergence.is_null()) return text + ".";
  text += fmt::format("; first at {}", words(at(divergence, "/tap")));
  if (const std::string op = words(at(divergence, "/op")); !op.empty()) text += fmt::format(", op {}", op);
  const std::string explanation = words(at(divergence, "/words"));
  return text + fmt::format("; cause: {}{}.", words(at(divergence, "/cause")),
                            explanation.empty() ? "" : fmt::format(" ({})", explanation));
}

std::string report_page(const Json& report) {
  const size_t without = page_of(report, {"", false}).size();
  if (without + 2 >= kMaxReportBytes) return page_of(report, {"{}", false}, false);
  const size_t room = kMaxReportBytes - without - 1;
  return page_of(report, carried_json(report, room));
}

}  // namespace tandem
