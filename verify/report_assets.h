#pragma once
// The files of verify/report/ inside the program: a report needs nothing but itself.

#include <string_view>

namespace tandem {

std::string_view report_html();    ///< report.html, the page with holes
std::string_view report_style();   ///< report.css
std::string_view report_script();  ///< report.js
std::string_view report_vega();    ///< vega.min.js, with its licences; made by tools/bundle_vega.py

}  // namespace tandem
