#pragma once
// A report as one page that needs nothing but itself: no network, no other file. It opens from disk, in light
// and dark, and prints. Verdict and tables are plain HTML; the charts are drawn by Vega-Lite, which the page
// carries (docs/decisions), from the report's JSON, which it carries too.

#include <string>

#include "base/json.h"

namespace tandem {

/// A page is smaller than this, in bytes, whatever the report's size.
inline constexpr size_t kMaxReportBytes = 1'500'000;

/// The verdict in one sentence: what is equal, or where it fails first and why. `report` is
/// to_json(VerifyReport).
std::string verdict_sentence(const Json& report);

/// The page of to_json(VerifyReport). Names in it may be hostile: they stay text. Where the whole JSON does
/// not fit into the page, digits and then the ends of long lists are left out of what it carries, and the
/// page says so.
std::string report_page(const Json& report);

/// The JSON as the page carries it, written for a <script>: at most `room` bytes.
struct CarriedJson {
  std::string text;
  bool whole = true;  ///< nothing was left out
};
CarriedJson carried_json(const Json& report, size_t room);

}  // namespace tandem
