#include "kinship/likeness.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <vector>

namespace tandem::kinship {
namespace {

std::vector<std::string> words_of(std::string_view name) {
  const auto kind = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isdigit(byte) ? 1 : std::isalpha(byte) ? 2 : 0;
  };
  std::vector<std::string> words;
  int before = 0;
  for (const char c : name) {
    const int now = kind(c);
    if (now != 0 && now != before) words.emplace_back();
    if (now != 0) words.back() += c;
    before = now;
  }
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace

double likeness(std::string_view a, std::string_view b) {
  const std::vector<std::string> left = words_of(a), right = words_of(b);
  std::vector<std::string> both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
  const size_t all = left.size() + right.size();
  return all == 0 ? 0 : 2.0 * static_cast<double>(both.size()) / static_cast<double>(all);
}

}  // namespace tandem::kinship
