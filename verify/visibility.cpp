#include "verify/visibility.h"

#include <algorithm>

namespace tandem {
namespace {

std::vector<std::string> parts(std::string_view text, char separator) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    found.emplace_back(part);
  }
  return found;
}

std::vector<std::string> list_in(const EngineInfo& info, const std::string& word) {
  const auto found = info.find(word);
  return found == info.end() ? std::vector<std::string>() : parts(found->second, ',');
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

Visibility visibility_of(const EngineInfo& info) {
  const auto positions = info.find("positions");
  return {list_in(info, "levels"), list_in(info, "taps"),
          positions != info.end() && positions->second == "counted"};
}

bool shows_level(const Visibility& visibility, std::string_view level) {
  return visibility.levels.empty() || contains(visibility.levels, level);
}

bool shows_tap(const Visibility& visibility, std::string_view tap) {
  return visibility.taps.empty() || contains(visibility.taps, tap_pattern(tap));
}

bool can_run(const Visibility& visibility, const Probe& probe) {
  if (!visibility.counts_positions) return true;
  for (uint64_t i = 0; i < probe.attention_mask.size(); ++i) {
    if (!probe.attention_mask[i]) continue;
    const uint64_t token = i % probe.tokens;
    const bool after_padding = token > 0 && !probe.attention_mask[i - 1];
    if (after_padding || static_cast<uint64_t>(probe.position_ids[i]) != token) return false;
  }
  return true;
}

std::string tap_pattern(std::string_view tap) {
  std::vector<std::string> names = parts(tap, '.');
  for (std::string& name : names)
    if (name.find_first_not_of("0123456789") == name.npos) name.assign(1, '*');
  return fmt::format("{}", fmt::join(names, "."));
}

}  // namespace tandem
