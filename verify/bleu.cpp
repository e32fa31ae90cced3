#include "verify/bleu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>

namespace tandem {
namespace {

constexpr size_t kOrders = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

/// ASCII punctuation and symbols, without . , - and '.
bool is_apart(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Each pair of neighbours for which `matches` holds is written as `with` says; a byte belongs to one pair
/// only.
template <class Matches, class Write>
std::string replace_pairs(std::string_view text, Matches matches, Write with) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      result += with(text[i], text[i + 1]);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Space {
  std::string_view utf8;
};
/// What Python's str.split takes for a space, beyond ASCII's.
constexpr Space kWideSpaces[] = {{"\xc2\x85"},     {"\xc2\xa0"},     {"\xe1\x9a\x80"}, {"\xe2\x80\x80"},
                                 {"\xe2\x80\x81"}, {"\xe2\x80\x82"}, {"\xe2\x80\x83"}, {"\xe2\x80\x84"},
                                 {"\xe2\x80\x85"}, {"\xe2\x80\x86"}, {"\xe2\x80\x87"}, {"\xe2\x80\x88"},
                                 {"\xe2\x80\x89"}, {"\xe2\x80\x8a"}, {"\xe2\x80\xa8"}, {"\xe2\x80\xa9"},
                                 {"\xe2\x80\xaf"}, {"\xe2\x81\x9f"}, {"\xe3\x80\x80"}};

/// The bytes of the space at the front of `text`; 0 if there is none.
size_t space_at(std::string_view text) {
  const char c = text.front();
  if ((c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= ' ')) return 1;
  for (const Space& space : kWideSpaces)
    if (text.starts_with(space.utf8)) return space.utf8.size();
  return 0;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  while (!text.empty()) {
    const size_t space = space_at(text);
    if (space)
      end_word();
    else
      word += text.front();
    text.remove_prefix(std::max<size_t>(space, 1));
  }
  end_word();
  return words;
}

std::string without_spaces_at_the_end(std::string_view text) {
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t space = space_at(text.substr(i));
    i += std::max<size_t>(space, 1);
    if (!space) end = i;
  }
  return std::string(text.substr(0, end));
}

using Counts = std::map<std::string, uint64_t>;  ///< n-grams, their words with a space between

Counts count_ngrams(const std::vector<std::string>& words, size_t n) {
  Counts counts;
  for (size_t first = 0; first + n <= words.size(); ++first) {
    std::string ngram = words[first];
    for (size_t i = 1; i < n; ++i) ngram += ' ' + words[first + i];
    ++counts[ngram];
  }
  return counts;
}

struct Totals {
  std::array<uint64_t, kOrders> matched{}, made{};
  uint64_t words = 0, reference_words = 0;
};

void add(Totals& totals, const TextPair& pair) {
  const auto words = tokenize_13a(pair.text), reference = tokenize_13a(pair.reference);
  totals.words += words.size();
  totals.reference_words += reference.size();
  for (size_t n = 1; n <= kOrders; ++n) {
    const Counts wanted = count_ngrams(reference, n);
    for (const auto& [ngram, count] : count_ngrams(words, n)) {
      const auto found = wanted.find(ngram);
      totals.made[n - 1] += count;
      if (found != wanted.end()) totals.matched[n - 1] += std::min(count, found->second);
    }
  }
}

double brevity_penalty(const Totals& totals) {
  if (totals.words >= totals.reference_words) return 1;
  return std::exp(1 - static_cast<double>(totals.reference_words) / static_cast<double>(totals.words));
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string text = without_spaces_at_the_end(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  std::string apart = " ";
  for (const char c : text) apart += is_apart(c) ? std::string{' ', c, ' '} : std::string{c};
  apart += ' ';
  apart = replace_pairs(
      apart, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](char a, char b) {
        return std::string{a, ' ', b, ' '};
      });
  apart = replace_pairs(
      apart, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](char a, char b) {
        return std::string{' ', a, ' ', b};
      });
  apart = replace_pairs(
      apart, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](char a, char b) {
        return std::string{a, ' ', b, ' '};
      });
  return split(apart);
}

std::optional<double> bleu(std::span<const TextPair> corpus) {
  Totals totals;
  for (const TextPair& pair : corpus) add(totals, pair);
  if (totals.made.back() == 0) return {};
  if (totals.matched.front() == 0) return 0;  // then no longer n-gram matches either
  double log_sum = 0, zeros = 1;
  for (size_t n = 0; n < kOrders; ++n) {
    double matched = static_cast<double>(totals.matched[n]);
    if (totals.matched[n] == 0) matched = 1 / (zeros *= 2);
    log_sum += std::log(matched / static_cast<double>(totals.made[n]));
  }
  return brevity_penalty(totals) * std::exp(log_sum / kOrders);
}

}  // namespace tandem
