#include "verify/report_assets.h"

// The assembler reads each file where TANDEM_REPORT_DIR says (verify/CMakeLists.txt): no script, no Python.
#define TANDEM_ASSET(name, file)                                                     \
  asm(".section .rodata\n"                                                           \
      ".hidden tandem_asset_" #name                                                  \
      "\n"                                                                           \
      ".global tandem_asset_" #name                                                  \
      "\n"                                                                           \
      "tandem_asset_" #name                                                          \
      ":\n"                                                                          \
      ".incbin \"" TANDEM_REPORT_DIR "/" file                                        \
      "\"\n"                                                                         \
      ".hidden tandem_asset_" #name                                                  \
      "_end\n"                                                                       \
      ".global tandem_asset_" #name                                                  \
      "_end\n"                                                                       \
      "tandem_asset_" #name                                                          \
      "_end:\n"                                                                      \
      ".byte 0\n"                                                                    \
      ".previous\n");                                                                \
  extern "C" __attribute__((visibility("hidden"))) const char tandem_asset_##name[]; \
  extern "C" __attribute__((visibility("hidden"))) const char tandem_asset_##name##_end[]

TANDEM_ASSET(html, "report.html");
TANDEM_ASSET(style, "report.css");
TANDEM_ASSET(script, "report.js");
TANDEM_ASSET(vega, "vega.min.js");

namespace tandem {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::string_view report_html() { return between(tandem_asset_html, tandem_asset_html_end); }
std::string_view report_style() { return between(tandem_asset_style, tandem_asset_style_end); }
std::string_view report_script() { return between(tandem_asset_script, tandem_asset_script_end); }
std::string_view report_vega() { return between(tandem_asset_vega, tandem_asset_vega_end); }

}  // namespace tandem
