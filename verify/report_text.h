#pragma once
// Text that is put into a page: whatever a file or tensor is called, it stays text.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace tandem {

/// Text as HTML, between tags or in a quoted attribute: & < > " ' as references; control characters, and
/// those that turn the direction of writing, as U+FFFD.
std::string html(std::string_view text);

/// JSON for a <script type="application/json">: ASCII alone, without < > & (as \u003c and so on), so that
/// nothing in it can end the element. Bytes that are not UTF-8 become U+FFFD.
std::string json_for_script(const Json& json);

/// The template with each {{name}} replaced, once: what is put in is not looked at again. A name that is not
/// given is a mistake of ours.
std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string_view>>& holes);

}  // namespace tandem
