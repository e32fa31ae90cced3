#include "verify/report.h"

#include <gmock/gmock.h>

#include "verify/report_assets.h"
#include "verify/report_text.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Ends a script element, an attribute, a comment and a template's hole; and lines that JavaScript knew as
// ends.
const std::string kHostile =
    "</script><img src=x onerror=alert(1)>\"'`<!--{{json}}\xe2\x80\xa8\xe2\x80\xae&\x01";

Json tap(const std::string& name, bool equal) {
  return Json{
      {"tap", name},
      {"equal", equal},
      {"verdict", equal ? "equal" : "different"},
      {"values", 123456},
      {"over_bar", equal ? 0.24681357913 : 98.7654321},
      {"worst_probe", "gapped positions"},
      {"rms", 1.23456789012345},
      {"max_abs", 12.3456789012345},
      {"max_abs_error", 1.23456789012345e-06},
      {"from_float64", {{"reference_max", 1.23456789012345e-06}, {"other_max", 1.23456789012345e-06}}},
      {"failures", equal ? Json::array() : Json::array({"short: RMS distance " + name})}};
}

Json layer(const std::string& name, size_t taps, size_t experts) {
  Json made{{"layer", name}, {"equal", true}, {"taps", Json::array()}};
  for (size_t i = 0; i < taps; ++i)
    made["taps"].push_back(tap(fmt::format("{}.self_attn.projection_{}", name, i), true));
  const Json counts(std::vector<uint64_t>(experts, 1234));
  if (experts)
    made["routing"] = {{"tokens", 48},
                       {"same", 48},
                       {"near_ties", 0},
                       {"faults", 0},
                       {"experts", {{"reference", counts}, {"other", counts}, {"both", counts}}}};
  return made;
}

Json report(Json levels) {
  bool equal = true;
  for (const auto& level : levels) equal = equal && level["equal"].get<bool>();
  return Json{{"equal", equal},
              {"verdict", equal ? "equal" : "different"},
              {"float64", true},
              {"divergence", nullptr},
              {"notes", Json::array()},
              {"left", {{"engine", "transformers"}, {"path", "a"}}},
              {"right", {{"engine", "tensorflow"}, {"path", "b"}}},
              {"reference", "left"},
              {"levels", std::move(levels)}};
}

Json failing_report(const std::string& name) {
  Json failed = layer(name, 2, 4);
  failed["taps"].push_back(tap(name, false));
  failed["equal"] = false;
  Json made =
      report({{"layer", {{"equal", false}, {"values", 3}, {"own_inputs", false}, {"layers", {failed}}}}});
  made["divergence"] = {{"level", "layer"},   {"tap", name},
                        {"op", "rms_norm"},   {"value", name},
                        {"module", name},     {"probe", name},
                        {"cause", "epsilon"}, {"words", name},
                        {"also", {name}},     {"tried", {{{"fault", name}, {"left", 0.1}}}}};
  made["notes"] = {name};
  made["left"]["path"] = name;
  return made;
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t i = text.find(part); i != text.npos; i = text.find(part, i + 1)) ++found;
  return found;
}

TEST(Report, TextStaysText) {
  EXPECT_EQ(html("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(html(std::string_view("a\0b\x1b\n", 5)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd\n");
  EXPECT_EQ(html("a\xe2\x80\xae\xe2\x81\xa6z"), "a\xef\xbf\xbd\xef\xbf\xbdz");
  EXPECT_EQ(html("\xe2\x80\x94"), "\xe2\x80\x94");
}

TEST(Report, JsonCannotEndItsElement) {
  const Json json{{kHostile, kHostile}};
  const std::string text = json_for_script(json);
  EXPECT_EQ(text.find_first_of("<>&"), text.npos);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  EXPECT_EQ(Json::parse(text), json);
  EXPECT_EQ(json_for_script(Json("\xff")), "\"\\ufffd\"");
}

TEST(Report, HolesAreFilledOnce) {
  EXPECT_EQ(filled("<{{a}}{{b}}>", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}2>");
}

TEST(Report, HostileNamesInjectNoMarkup) {
  const std::string page = report_page(failing_report(kHostile)), plain = report_page(failing_report("x"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  for (const std::string_view part : {"<script", "</script", "<!--", "<table", "<td"})
    EXPECT_EQ(count(page, part), count(plain, part)) << part;
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
}

TEST(Report, TheVerdictIsOneSentence) {
  EXPECT_EQ(verdict_sentence(report({{"weights", {{"equal", true}}}, {"model", {{"equal", true}}}})),
            "Equal: both sides agree at every level that was compared (weights and model).");
  EXPECT_EQ(verdict_sentence(report({{"weights", {{"equal", true}}}, {"model", {{"equal", false}}}})),
            "Different: model fails.");
  EXPECT_EQ(verdict_sentence(failing_report("model.layers.0")),
            "Different: layer fails; first at model.layers.0, op rms_norm; cause: epsilon (model.layers.0).");
  Json disagrees = failing_report("x");
  disagrees["verdict"] = "contract and reference disagree";
  EXPECT_THAT(verdict_sentence(disagrees), StartsWith("Contract and reference disagree: "));
  EXPECT_EQ(verdict_sentence(Json::object()), "Not equal: nothing was compared.");
}

TEST(Report, TablesStandWithoutAScript) {
  const std::string page = report_page(failing_report("model.layers.0"));
  EXPECT_THAT(page, HasSubstr("<strong>Different</strong>: layer fails"));
  EXPECT_THAT(page, HasSubstr("<td class=\"name\">model.layers.0</td><td class=\"number\">98.765</td>"
                              "<td>short: RMS distance model.layers.0</td>"));
}

// DeepSeek-V3's size: 61 layers, 256 experts.
TEST(Report, ALargeReportStaysBelowItsSize) {
  Json layers = Json::array();
  for (size_t i = 0; i < 61; ++i)
    layers.push_back(layer(fmt::format("model.layers.{}", i), 30, i < 3 ? 0 : 256));
  Json large =
      report({{"layer", {{"equal", true}, {"values", 1}, {"own_inputs", false}, {"layers", layers}}}});
  EXPECT_GT(large.dump().size(), 800'000u);
  const std::string page = report_page(large);
  EXPECT_LT(page.size(), kMaxReportBytes);
  EXPECT_THAT(page, HasSubstr("The report is large"));
  const std::string open = "id=\"report\">";
  const size_t begin = page.find(open) + open.size();
  const Json carried = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  ASSERT_EQ(carried["levels"]["layer"]["layers"].size(), 61u);
  EXPECT_EQ(carried["levels"]["layer"]["layers"][60]["taps"].size(), 30u);
  EXPECT_EQ(carried["levels"]["layer"]["layers"][60]["routing"]["experts"]["both"].size(), 256u);
}

TEST(Report, AReportOfLongNamesStaysBelowItsSize) {
  EXPECT_LT(report_page(failing_report(std::string(500'000, '<'))).size(), kMaxReportBytes);
}

TEST(Report, AShortReportIsCarriedWhole) {
  const Json json = failing_report("x");
  const CarriedJson carried = carried_json(json, 100'000);
  EXPECT_TRUE(carried.whole);
  EXPECT_EQ(Json::parse(carried.text), json);
}

TEST(Report, LongAxesKeepTheirEnds) {
  Json pairs = Json::array();
  for (int i = 0; i < 10'000; ++i) pairs.push_back({i, 1.0 / 3});
  const CarriedJson carried = carried_json({{"errors", pairs}}, 20'000);
  const Json kept = Json::parse(carried.text)["errors"];
  EXPECT_FALSE(carried.whole);
  EXPECT_LE(kept.size(), 1'000u);
  EXPECT_GT(kept.back()[0], 9'900);
}

TEST(Report, ThePageHasNothingToLoad) {
  for (const std::string_view part : {"src=", "href=\"http", "@import", "url("}) {
    EXPECT_THAT(std::string(report_html()), Not(HasSubstr(part)));
    EXPECT_THAT(std::string(report_style()), Not(HasSubstr(part)));
  }
  EXPECT_THAT(std::string(report_vega()), StartsWith("/*! The licences of what follows:"));
}

}  // namespace
}  // namespace tandem
