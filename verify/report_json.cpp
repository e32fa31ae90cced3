// What of a report's JSON a page carries.

#include <cmath>
#include <set>

#include "verify/report.h"
#include "verify/report_text.h"

namespace tandem {
namespace {

/// How much is left out: each step more than the one before it.
struct Shortening {
  bool passing_taps;  ///< of taps in line, what no chart shows
  int digits;
  size_t list;  ///< entries of a list
  size_t text;  ///< bytes of a text
};
constexpr Shortening kSteps[] = {{false, 6, 100'000, 10'000},
                                 {true, 4, 1'000, 1'000},
                                 {true, 3, 256, 200},
                                 {true, 3, 64, 100},
                                 {true, 2, 8, 40}};

/// Lists along an axis: of these every n-th entry stays, of the others the first.
const std::set<std::string_view> kAlongAnAxis{"kl", "errors"};
const std::set<std::string_view> kOfPassingTaps{"tap", "equal", "verdict", "over_bar", "max_abs_error"};

Json shortened(const Json& json, const Shortening& step, std::string_view key = {});

Json shortened_list(const Json& json, const Shortening& step, std::string_view key) {
  const size_t over = (json.size() + step.list - 1) / step.list;
  const size_t stride = kAlongAnAxis.contains(key) ? std::max<size_t>(1, over) : 1;
  Json kept = Json::array();
  for (size_t i = 0; i < json.size() && kept.size() < step.list; i += stride)
    kept.push_back(shortened(json[i], step));
  return kept;
}

Json shortened_object(const Json& json, const Shortening& step) {
  const bool passing_tap =
      step.passing_taps && json.contains("tap") && json.value("equal", Json()) == Json(true);
  Json kept = Json::object();
  for (const auto& [name, value] : json.items())
    if (!passing_tap || kOfPassingTaps.contains(name)) kept[name] = shortened(value, step, name);
  return kept;
}

Json shortened(const Json& json, const Shortening& step, std::string_view key) {
  if (json.is_array()) return shortened_list(json, step, key);
  if (json.is_object()) return shortened_object(json, step);
  if (json.is_string()) return json.get_ref<const std::string&>().substr(0, step.text);
  if (!json.is_number_float() || !std::isfinite(json.get<double>())) return json;
  return std::stod(fmt::format("{:.{}g}", json.get<double>(), step.digits));
}

}  // namespace

CarriedJson carried_json(const Json& report, size_t room) {
  CarriedJson carried{json_for_script(report), true};
  for (const Shortening& step : kSteps) {
    if (carried.text.size() <= room) return carried;
    carried = {json_for_script(shortened(report, step)), false};
  }
  if (carried.text.size() <= room) return carried;
  return {"{}", false};
}

}  // namespace tandem
