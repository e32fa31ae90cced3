#include "kinship/families.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tandem::kinship {
namespace {

constexpr size_t kMostDigits = 9;
constexpr size_t kLongWord = 5;  // "layer3" counts layers; "w3" is a name

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A name cut at its numbers: text, number, text, ..., text.
struct Cut {
  std::vector<std::string> texts;
  std::vector<uint64_t> numbers;
};

bool counts_something(std::string_view before, std::string_view digits, char after) {
  if (digits.size() > kMostDigits || (digits.size() > 1 && digits[0] == '0') || is_letter(after))
    return false;
  size_t letters = 0;
  while (letters < before.size() && is_letter(before[before.size() - 1 - letters])) ++letters;
  return letters == 0 || letters >= kLongWord;
}

Cut cut(std::string_view name) {
  Cut made{{""}, {}};
  for (size_t at = 0; at < name.size();) {
    size_t end = at + 1;
    if (name[at] == '{') {
      end = std::min(name.find('}', at), name.size() - 1) + 1;
    } else if (is_digit(name[at])) {
      while (end < name.size() && is_digit(name[end])) ++end;
      const char after = end < name.size() ? name[end] : '\0';
      if (counts_something(name.substr(0, at), name.substr(at, end - at), after)) {
        made.numbers.push_back(std::stoull(std::string(name.substr(at, end - at))));
        made.texts.emplace_back();
        at = end;
        continue;
      }
    }
    made.texts.back() += name.substr(at, end - at);
    at = end;
  }
  return made;
}

/// "model.layers." -> "layer"; "index" if there is no word.
std::string word_before(std::string_view text) {
  while (!text.empty() && !is_letter(text.back())) text.remove_suffix(1);
  size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  std::string word(text.substr(begin));
  if (word.size() > 2 && word.ends_with('s')) word.pop_back();
  return word.empty() ? "index" : word;
}

std::string braced(const std::string& hole) { return "{" + hole + "}"; }

using Values = std::vector<uint64_t>;

/// A set of hole values that is a product of ranges.
struct Product {
  std::vector<HoleRange> ranges;
  std::vector<size_t> members;
};

/// Values of the holes from `depth` on, and who has them, as few products as neighbours allow.
std::vector<Product> products(const std::map<Values, size_t>& members, size_t depth) {
  if (members.begin()->first.size() == depth) return {{{}, {members.begin()->second}}};
  std::map<uint64_t, std::map<Values, size_t>> by_value;
  for (const auto& [values, member] : members) by_value[values[depth]].emplace(values, member);
  const auto rest_of = [&](const std::map<Values, size_t>& of_value) {
    std::set<Values> rest;
    for (const auto& [values, member] : of_value)
      rest.emplace(values.begin() + static_cast<ptrdiff_t>(depth) + 1, values.end());
    return rest;
  };
  std::vector<Product> made;
  std::optional<std::set<Values>> rest_before;
  size_t begin_of_run = 0;
  uint64_t next = 0;
  for (const auto& [value, of_value] : by_value) {
    const std::set<Values> rest = rest_of(of_value);
    std::vector<Product> inner = products(of_value, depth + 1);
    if (rest_before && rest == *rest_before && value == next) {
      for (size_t i = 0; i < inner.size(); ++i) {
        Product& product = made[begin_of_run + i];
        product.ranges[0].end = value + 1;
        product.members.insert(product.members.end(), inner[i].members.begin(), inner[i].members.end());
      }
    } else {
      begin_of_run = made.size();
      for (Product& product : inner) {
        product.ranges.insert(product.ranges.begin(), HoleRange{value, value + 1});
        made.push_back(std::move(product));
      }
    }
    rest_before = rest;
    next = value + 1;
  }
  return made;
}

/// Items of one key whose names have the same texts.
class Alike {
 public:
  Alike(const std::vector<Named>& items, std::vector<size_t> members)
      : items_(items), members_(std::move(members)) {
    for (const size_t member : members_) {
      cuts_.emplace_back();
      for (const std::string& name : items_[member].names) cuts_.back().push_back(cut(name));
    }
  }

  std::vector<Family> made() {
    if (!find_holes()) return each_by_itself();
    std::map<Values, size_t> by_values;
    for (size_t i = 0; i < members_.size(); ++i)
      if (!by_values.emplace(values_of(i), i).second) return each_by_itself();
    std::vector<Family> families;
    for (const Product& product : products(by_values, 0)) families.push_back(family(product));
    return families;
  }

 private:
  /// Numbers that vary, put together where they are equal in every item. False if a name lacks one.
  bool find_holes() {
    std::map<Values, size_t> known;  // by their values in all items
    std::vector<std::set<size_t>> in_name(cuts_[0].size());
    for (size_t name = 0; name < cuts_[0].size(); ++name) {
      hole_of_.emplace_back();
      for (size_t number = 0; number < cuts_[0][name].numbers.size(); ++number) {
        Values values;
        for (const auto& cuts : cuts_) values.push_back(cuts[name].numbers[number]);
        hole_of_.back().push_back(kNone);
        if (std::all_of(values.begin(), values.end(), [&](uint64_t v) { return v == values[0]; })) continue;
        const auto [at, is_new] = known.emplace(values, names_.size());
        if (is_new) add_hole(name, number);
        hole_of_.back().back() = at->second;
        in_name[name].insert(at->second);
      }
    }
    return std::all_of(in_name.begin(), in_name.end(),
                       [&](const std::set<size_t>& holes) { return holes.size() == names_.size(); });
  }

  void add_hole(size_t name, size_t number) {
    std::string word = word_before(cuts_[0][name].texts[number]);
    const std::string stem = word;
    for (int copy = 2; std::find(names_.begin(), names_.end(), word) != names_.end() || is_taken(word);
         ++copy)
      word = fmt::format("{}_{}", stem, copy);
    names_.push_back(word);
    place_.emplace_back(name, number);
  }

  /// A hole that stands in the names already (of a stack).
  bool is_taken(const std::string& word) const {
    const auto& names = items_[members_[0]].names;
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& n) { return n.find(braced(word)) != n.npos; });
  }

  Values values_of(size_t i) const {
    Values values;
    for (const auto& [name, number] : place_) values.push_back(cuts_[i][name].numbers[number]);
    return values;
  }

  Family family(const Product& product) const {
    Family made;
    for (const size_t i : product.members) made.members.push_back(members_[i]);
    for (size_t hole = 0; hole < names_.size(); ++hole)
      if (product.ranges[hole].end - product.ranges[hole].begin > 1)
        made.holes[names_[hole]] = product.ranges[hole];
    const auto& cuts = cuts_[product.members[0]];
    for (size_t name = 0; name < cuts.size(); ++name) {
      std::string pattern = cuts[name].texts[0];
      for (size_t number = 0; number < cuts[name].numbers.size(); ++number) {
        const size_t hole = hole_of_[name][number];
        const bool open = hole != kNone && made.holes.contains(names_[hole]);
        pattern += open ? braced(names_[hole]) : std::to_string(cuts[name].numbers[number]);
        pattern += cuts[name].texts[number + 1];
      }
      made.patterns.push_back(std::move(pattern));
    }
    return made;
  }

  std::vector<Family> each_by_itself() const {
    std::vector<Family> families;
    for (const size_t member : members_) families.push_back({items_[member].names, {}, {member}});
    return families;
  }

  static constexpr size_t kNone = static_cast<size_t>(-1);
  const std::vector<Named>& items_;
  std::vector<size_t> members_;
  std::vector<std::vector<Cut>> cuts_;            ///< of each member's names
  std::vector<std::string> names_;                ///< of the holes
  std::vector<std::pair<size_t, size_t>> place_;  ///< of each hole: name and number where it stands first
  std::vector<std::vector<size_t>> hole_of_;      ///< of each name's numbers
};

/// What stands before a hole in the patterns of some family: (which name, text, hole).
using Learned = std::set<std::tuple<size_t, std::string, std::string>>;

Learned learn(const std::vector<Family>& families) {
  Learned learned;
  for (const Family& family : families)
    for (size_t name = 0; name < family.patterns.size(); ++name)
      for (const auto& [hole, range] : family.holes) {
        const std::string& pattern = family.patterns[name];
        for (size_t at = 0; (at = pattern.find(braced(hole), at)) != pattern.npos; ++at)
          learned.emplace(name, pattern.substr(0, at), hole);
      }
  return learned;
}

/// A number of a pattern at a place where others have a hole.
std::optional<uint64_t> number_at(const std::string& pattern, const std::string& prefix) {
  if (!pattern.starts_with(prefix)) return {};
  size_t end = prefix.size();
  while (end < pattern.size() && is_digit(pattern[end])) ++end;
  const std::string digits = pattern.substr(prefix.size(), end - prefix.size());
  if (digits.empty() || digits.size() > kMostDigits || (digits.size() > 1 && digits[0] == '0')) return {};
  return std::stoull(digits);
}

/// Opens a hole of the family's that others have at the same place of every name.
void open_known_hole(Family& family, const Learned& learned, const std::string& hole) {
  if (family.holes.contains(hole)) return;
  std::vector<std::string> patterns;
  std::optional<uint64_t> value;
  for (size_t name = 0; name < family.patterns.size(); ++name) {
    const std::string& pattern = family.patterns[name];
    for (const auto& [of, prefix, known] : learned) {
      const auto number = of == name && known == hole ? number_at(pattern, prefix) : std::nullopt;
      if (!number || (value && *value != *number)) continue;
      value = number;
      patterns.push_back(prefix + braced(hole) +
                         pattern.substr(prefix.size() + std::to_string(*number).size()));
      break;
    }
    if (patterns.size() != name + 1) return;
  }
  family.patterns = std::move(patterns);
  family.holes[hole] = {*value, *value + 1};
}

}  // namespace

std::vector<Family> families(const std::vector<Named>& items) {
  std::map<std::vector<std::string>, std::vector<size_t>> alike;
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<std::string> texts{items[i].key};
    for (const std::string& name : items[i].names)
      for (std::string& text : cut(name).texts) texts.push_back(std::move(text) + '\n');
    alike[texts].push_back(i);
  }
  std::vector<Family> made;
  for (auto& [texts, members] : alike)
    for (Family& family : Alike(items, std::move(members)).made()) made.push_back(std::move(family));
  const Learned learned = learn(made);
  std::set<std::string> holes;
  for (const auto& [name, prefix, hole] : learned) holes.insert(hole);
  for (Family& family : made)
    for (const std::string& hole : holes) open_known_hole(family, learned, hole);
  const auto begins = [](const Family& family) {
    Values values;
    for (const auto& [hole, range] : family.holes) values.push_back(range.begin);
    return values;
  };
  std::sort(made.begin(), made.end(), [&](const Family& a, const Family& b) {
    if (a.patterns[0] != b.patterns[0]) return natural_less(a.patterns[0], b.patterns[0]);
    return begins(a) < begins(b);
  });
  return made;
}

std::optional<Numbered> numbered(const std::vector<std::string>& names) {
  std::vector<Cut> cuts;
  for (const std::string& name : names) {
    if (name.find_first_of("{}") != name.npos) return {};
    cuts.push_back(cut(name));
    if (cuts.back().texts != cuts[0].texts) return {};
  }
  std::optional<size_t> place;
  for (size_t number = 0; number < cuts[0].numbers.size(); ++number) {
    const bool varies = names.size() > 1 ? cuts[1].numbers[number] != cuts[0].numbers[number]
                                         : word_before(cuts[0].texts[number]) == "expert";
    if (varies && place) return {};
    if (varies) place = number;
  }
  if (!place) return {};
  for (size_t i = 0; i < cuts.size(); ++i)
    for (size_t number = 0; number < cuts[0].numbers.size(); ++number)
      if (cuts[i].numbers[number] != cuts[0].numbers[number] + (number == *place ? i : 0)) return {};
  Numbered made{cuts[0].texts[0], word_before(cuts[0].texts[*place]), cuts[0].numbers[*place]};
  for (size_t number = 0; number < cuts[0].numbers.size(); ++number)
    made.pattern += (number == *place ? braced(made.hole) : std::to_string(cuts[0].numbers[number])) +
                    cuts[0].texts[number + 1];
  return made;
}

}  // namespace tandem::kinship
