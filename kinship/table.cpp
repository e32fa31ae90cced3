#include "kinship/table.h"

#include <algorithm>

#include "kinship/families.h"
#include "kinship/likeness.h"

namespace tandem::kinship {
namespace {

bool is_identity(const std::vector<uint64_t>& axes) { return std::is_sorted(axes.begin(), axes.end()); }

/// A row in the making: its names are not yet put into families.
struct Draft {
  Named names;  ///< hf and tf
  RuleRow row;  ///< all but names and holes that families find
  DType tf_dtype;
  bool dequantized = false;
};

std::vector<std::string> names_of(const std::vector<const TensorInfo*>& infos) {
  std::vector<std::string> names;
  for (const TensorInfo* info : infos) names.push_back(info->name);
  return names;
}

bool has_braces(const std::string& name) { return name.find_first_of("{}") != name.npos; }

/// The draft of a link, or nothing where the language has no step for it.
std::optional<Draft> draft_of(const Link& link) {
  const bool whole = link.join == Join::one;
  if (link.join != Join::stack && !whole) return {};
  // One tensor made of one: either may be called the joined one, its transposition then reads backwards.
  if (link.side == hf && !whole) return {};
  const TensorInfo& joined = *link.joined;
  const TensorInfo& part = *link.parts[0];
  const auto axes = as_transpose(link.layouts[0], part.shape, place_of_part(link, 0));
  if (!axes || (link.side == hf && link.dequantized)) return {};
  Draft draft;
  const TensorInfo& hf_info = link.side == tf ? part : joined;
  const TensorInfo& tf_info = link.side == tf ? joined : part;
  std::vector<uint64_t> forward = *axes;
  if (link.side == hf)
    for (size_t i = 0; i < axes->size(); ++i) forward[(*axes)[i]] = i;
  draft.row.sizes = hf_info.shape;
  for (const uint64_t size : hf_info.shape) draft.row.shape.push_back(std::to_string(size));
  if (!is_identity(forward)) draft.row.steps.push_back(Transpose{forward});
  draft.tf_dtype = tf_info.dtype;
  draft.dequantized = link.dequantized;
  std::string hf_name = hf_info.name;
  if (!whole) {
    const auto stack = numbered(names_of(link.parts));
    if (!stack) return {};
    hf_name = stack->pattern;
    draft.row.holes[stack->hole] = {stack->begin, stack->begin + link.parts.size()};
    draft.row.steps.push_back(Stack{stack->hole, link.parts.size()});
  } else if (has_braces(hf_name)) {
    return {};
  }
  if (has_braces(tf_info.name)) return {};
  draft.names.names = {hf_name, tf_info.name};
  return draft;
}

/// "name_3" -> ("name", 3).
std::optional<std::pair<std::string, uint64_t>> chunk_number(const std::string& name) {
  const size_t line = name.rfind('_');
  if (line == name.npos || line + 1 == name.size() || name.size() - line > 10) return {};
  const std::string digits = name.substr(line + 1);
  if (digits.find_first_not_of("0123456789") != digits.npos || (digits.size() > 1 && digits[0] == '0'))
    return {};
  return std::pair{name.substr(0, line), std::stoull(digits)};
}

const Stack* stack_of(const RuleRow& row) {
  return row.steps.empty() ? nullptr : std::get_if<Stack>(&row.steps.back());
}

/// Chunks of one stack ("kernel_0", "kernel_1", ...) become one draft.
std::vector<Draft> with_chunks_joined(std::vector<Draft> drafts) {
  std::map<std::pair<std::string, std::string>, std::map<uint64_t, size_t>> chunks;  // hf, tf less its number
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto numbered_name = chunk_number(drafts[i].names.names[1]);
    if (stack_of(drafts[i].row) && numbered_name)
      chunks[{drafts[i].names.names[0], numbered_name->first}][numbered_name->second] = i;
  }
  std::set<size_t> gone;
  for (const auto& [names, by_number] : chunks) {
    Draft& first = drafts[by_number.begin()->second];
    const Stack step = *stack_of(first.row);
    HoleRange range = first.row.holes.at(step.hole);
    bool fits = by_number.size() > 1 && by_number.begin()->first == 0;
    uint64_t next = range.begin, number = 0;
    for (const auto& [n, i] : by_number) {
      const HoleRange own = drafts[i].row.holes.at(step.hole);
      const bool last = n + 1 == by_number.size();
      fits = fits && n == number++ && own.begin == next && drafts[i].row.sizes == first.row.sizes &&
             (own.end - own.begin == step.chunk || (last && own.end - own.begin < step.chunk));
      next = own.end;
    }
    if (!fits) continue;
    for (const auto& [n, i] : by_number) {
      first.dequantized |= drafts[i].dequantized;
      if (n > 0) gone.insert(i);
    }
    first.row.holes[step.hole].end = next;
    first.names.names[1] = names.second;
  }
  std::vector<Draft> kept;
  for (size_t i = 0; i < drafts.size(); ++i)
    if (!gone.contains(i)) kept.push_back(std::move(drafts[i]));
  return kept;
}

/// The dtype that most tensors have on the tf side.
DType usual_dtype(const std::vector<Draft>& drafts) {
  std::map<DType, size_t> counts;
  for (const Draft& draft : drafts) ++counts[draft.tf_dtype];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? DType::f32 : most->first;
}

bool may_be_named(DType dtype) { return is_float(dtype) && size_of(dtype) > 1; }

void set_keys(std::vector<Draft>& drafts) {
  const DType usual = usual_dtype(drafts);
  for (Draft& draft : drafts) {
    if (draft.tf_dtype != usual && may_be_named(draft.tf_dtype)) draft.row.dtype = name(draft.tf_dtype);
    std::string& key = draft.names.key;
    key = to_string(draft.row.sizes) + draft.row.dtype;
    for (const Step& step : draft.row.steps) key += to_string(step);
    for (const auto& [hole, range] : draft.row.holes)
      key += fmt::format("{} {} {}", hole, range.begin, range.end);
  }
}

std::vector<RuleRow> rows_of(const std::vector<Draft>& drafts, const std::optional<BlockDequantize>& blocks) {
  std::vector<Named> names;
  for (const Draft& draft : drafts) names.push_back(draft.names);
  std::vector<RuleRow> rows;
  for (const Family& family : families(names)) {
    RuleRow row = drafts[family.members[0]].row;
    row.hf = family.patterns[0];
    row.tf = family.patterns[1];
    row.holes.insert(family.holes.begin(), family.holes.end());
    const bool dequantized = std::any_of(family.members.begin(), family.members.end(),
                                         [&](size_t member) { return drafts[member].dequantized; });
    if (dequantized && blocks) row.steps.insert(row.steps.begin(), *blocks);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Rows that break no rule of rules.h go into the table, others become words with the reason.
void take_rows(std::vector<RuleRow> rows, Written& written) {
  for (RuleRow& row : rows) {
    const Status fits = check(RuleTable{"unknown", {row}});
    if (fits.ok())
      written.table.rows.push_back(std::move(row));
    else
      written.words.push_back(
          fmt::format("{} -> {}: no row of a rule table: {}", row.hf, row.tf, fits.error().text));
  }
}

std::string sizes_in_words(const std::vector<Link>& links) {
  const Link& link = links[0];
  std::vector<std::string> shapes;
  for (const TensorInfo* part : link.parts)
    if (shapes.empty() || shapes.back() != to_string(part->shape)) shapes.push_back(to_string(part->shape));
  return fmt::format("{} to {}", fmt::join(shapes, ", "), to_string(link.joined->shape));
}

/// Links without a step in the language, a line a family.
void put_in_words(const std::vector<Link>& links, Written& written) {
  std::vector<Named> items;
  for (const Link& link : links) {
    std::vector<std::string> names = names_of(link.parts);
    if (link.join == Join::stack || link.join == Join::stacked_concat) {
      // Slots after the first are named by the hole.
      const size_t in_slot = link.join == Join::stack ? 1 : link.parts.size() / link.joined->shape[0];
      std::vector<std::string> patterns;
      for (size_t i = 0; i < in_slot; ++i) {
        std::vector<std::string> of_slots;
        for (size_t part = i; part < names.size(); part += in_slot) of_slots.push_back(names[part]);
        const auto pattern = numbered(of_slots);
        patterns.push_back(pattern ? pattern->pattern
                                   : fmt::format("{} .. {}", of_slots.front(), of_slots.back()));
      }
      names = std::move(patterns);
    }
    names.push_back(link.joined->name);
    items.push_back({std::move(names), fmt::format("{} {} {}", link.side == tf ? "tf" : "hf", in_words(link),
                                                   sizes_in_words({link}))});
  }
  for (const Family& family : families(items)) {
    const Link& link = links[family.members[0]];
    std::string line;
    for (size_t i = 0; i + 1 < family.patterns.size(); ++i) line += (i ? " + " : "") + family.patterns[i];
    line += fmt::format(" -> {}{}: {} ({})", family.patterns.back(), link.side == hf ? " on the hf side" : "",
                        in_words(link), sizes_in_words({link}));
    for (const auto& [hole, range] : family.holes)
      line += fmt::format(", {} {}..{}", hole, range.begin, range.end - 1);
    written.words.push_back(std::move(line));
  }
}

/// The row that makes a Hugging Face tensor, or null.
const RuleRow* row_of(const RuleTable& table, const std::string& hf_name) {
  for (const RuleRow& row : table.rows)
    if (row.hf == hf_name && row.holes.empty()) return &row;
  return nullptr;
}

void add_ties(const Kinship& kinship, Written& written) {
  std::set<std::string> tied;
  for (const Tie& tie : kinship.ties) {
    const RuleRow* made = tie.side == hf ? row_of(written.table, tie.of->name) : nullptr;
    if (made && made->sizes == tie.copy->shape && !has_braces(tie.copy->name) &&
        tied.insert(tie.of->name).second) {
      RuleRow row;
      row.hf = tie.copy->name;
      row.shape = made->shape;
      row.sizes = made->sizes;
      row.tied_to = tie.of->name;
      row.optional = true;
      written.table.rows.push_back(std::move(row));
    } else {
      written.words.push_back(fmt::format("{} is a copy of {} ({} side)", tie.copy->name, tie.of->name,
                                          tie.side == hf ? "hf" : "tf"));
    }
  }
}

}  // namespace

std::string in_words(const Link& link) {
  std::vector<std::string> steps;
  if (link.dequantized) steps.push_back("dequantize");
  const std::string layout = in_words(link.layouts[0], link.parts[0]->shape, place_of_part(link, 0));
  const bool alike = std::all_of(link.layouts.begin(), link.layouts.end(), [&](const Layout& other_layout) {
    const size_t part = static_cast<size_t>(&other_layout - link.layouts.data());
    const bool first = link.join == Join::concat || link.join == Join::stacked_concat;
    return (first ? in_words(other_layout, link.parts[part]->shape, place_of_part(link, part)) : layout) ==
           layout;
  });
  if (!alike)
    for (size_t i = 0; i < link.parts.size() && i < 3; ++i)
      steps.push_back(fmt::format("part {}: {}", i,
                                  in_words(link.layouts[i], link.parts[i]->shape, place_of_part(link, i))));
  else if (layout != "as it is")
    steps.push_back(layout);
  if (link.join == Join::concat || link.join == Join::stacked_concat)
    steps.push_back(fmt::format("concatenate on axis {}", link.axis));
  if (link.join == Join::stack || link.join == Join::stacked_concat)
    steps.push_back(fmt::format("stack {}", link.joined->shape[0]));
  return steps.empty() ? "as it is" : fmt::format("{}", fmt::join(steps, ", "));
}

Written write_rules(const Kinship& kinship, bool with_guesses) {
  std::vector<Link> links = kinship.links;
  for (const Doubt& doubt : kinship.doubts)
    if (with_guesses) links.insert(links.end(), doubt.guess.begin(), doubt.guess.end());
  std::vector<Draft> drafts;
  std::vector<Link> others;
  for (const Link& link : links) {
    if (auto draft = draft_of(link))
      drafts.push_back(std::move(*draft));
    else
      others.push_back(link);
  }
  drafts = with_chunks_joined(std::move(drafts));
  set_keys(drafts);
  Written written;
  written.table.architecture = "unknown";
  take_rows(rows_of(drafts, kinship.blocks), written);
  put_in_words(others, written);
  add_ties(kinship, written);
  return written;
}

}  // namespace tandem::kinship
