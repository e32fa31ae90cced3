#include "faults/plant.h"

#include <algorithm>

namespace tandem {
namespace {

bool is_inside(std::string_view module, std::string_view at) {
  return module == at || (module.starts_with(at) && module[at.size()] == '.');
}

/// The work on one row.
class Planting {
 public:
  Planting(const Contract& contract, const FaultRow& row, std::string_view at)
      : row_(row), at_(at), planted_{std::string(row.name), std::string(row.cause), contract, {}, {}} {}

  void visit(const FaultSite& site) {
    if (!at_.empty() && !is_inside(module_of(site), at_) && !is_inside(site.place, at_)) return;
    for (Hypothesis& hypothesis : hypotheses_of(row_, site)) {
      if (row_.once && !is_first(site)) return;
      if (!is_free(hypothesis)) continue;
      apply(site, hypothesis);
      return;
    }
  }

  Planted finish() && { return std::move(planted_); }

 private:
  /// Of a row that is planted once: the same module again, in another entry.
  bool is_first(const FaultSite& site) {
    const std::string key = fmt::format("{} {}", module_of(site), site.node.outputs[0]);
    if (first_.empty()) first_ = key;
    return first_ == key;
  }

  bool is_free(const Hypothesis& hypothesis) const {
    return std::ranges::none_of(hypothesis.weights, [&](const WeightEdit& edit) {
      return std::ranges::find(planted_.weights, edit.weight, &WeightEdit::weight) != planted_.weights.end();
    });
  }

  void apply(const FaultSite& site, Hypothesis& hypothesis) {
    const std::string words = fmt::format("{}: {}", module_of(site), hypothesis.words);
    if (std::ranges::find(planted_.words, words) == planted_.words.end()) planted_.words.push_back(words);
    for (WeightEdit& edit : hypothesis.weights) planted_.weights.push_back(std::move(edit));
    if (!hypothesis.edit) return;
    if (site.place.empty()) {
      hypothesis.edit(*std::ranges::find(planted_.contract.entries, site.block.name, &Block::name));
    } else if (!at_.empty() || row_.once) {
      hypothesis.edit(own_block(planted_.contract, site.place));
    } else if (edited_.insert(site.block.name + " " + site.node.outputs[0]).second) {  // once for all places
      hypothesis.edit(*std::ranges::find(planted_.contract.blocks, site.block.name, &Block::name));
    }
  }

  const FaultRow& row_;
  std::string_view at_;
  Planted planted_;
  std::string first_;
  std::set<std::string> edited_;
};

}  // namespace

Result<Planted> plant(const Contract& contract, std::string_view fault, std::string_view at,
                      const FaultContext& context) {
  const std::vector<const FaultRow*> rows = faults_named(fault);
  if (rows.empty())
    return usage("fault_c1", "there is no fault \"{}\"", fault).because("tandem plant --list names all");
  for (const FaultRow* row : rows) {
    Planting planting(contract, *row, at);
    TANDEM_CHECK(for_each_site(contract, context, [&](const FaultSite& site) { planting.visit(site); }));
    Planted planted = std::move(planting).finish();
    if (planted.words.empty()) continue;
    if (Status checked = check(planted.contract); !checked.ok())
      return bug("fault_c3", "{} makes a contract that does not hold: {}", row->name, checked.error().text);
    return planted;
  }
  return unsupported("fault_c2", "{} applies nowhere {}{}", fault, at.empty() ? "in this model" : "in ", at)
      .because("tandem plant --list MODEL names those that apply");
}

}  // namespace tandem
