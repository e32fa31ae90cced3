// Tensors that hold the same values as one tensor of the other side; copies; and tensors that values cannot
// tell apart.

#include <algorithm>
#include <numeric>

#include "kinship/likeness.h"
#include "kinship/state.h"

namespace tandem::kinship {
namespace {

constexpr size_t kMostLikenesses = 1 << 20;  // of names in one group; beyond, order alone

/// Weights of both sides that may all be equal.
struct Group {
  std::vector<size_t> members[2];
};

Shape sorted_sizes(const Shape& shape) {
  Shape sizes;
  for (const uint64_t size : shape)
    if (size != 1) sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// Disjoint sets of numbers.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[root(b)] = root(a); }

 private:
  std::vector<size_t> parent_;
};

/// What must agree, besides the fingerprint, before two weights are compared.
using Likes = std::map<std::pair<Kind, Shape>, std::vector<size_t>>;

Likes likes(const State& state, Side side, const std::vector<size_t>& weights, bool same_sizes) {
  Likes buckets;
  for (const size_t i : weights) {
    const Weight& weight = state.weight(side, i);
    buckets[{weight.kind(), same_sizes ? sorted_sizes(weight.shape()) : Shape{}}].push_back(i);
  }
  return buckets;
}

/// Groups of open weights whose fingerprints agree, and the sizes of their axes if asked for.
std::vector<Group> groups_of(const State& state, bool same_sizes) {
  const size_t hf_count = state.sides[hf].weights.size();
  Sets sets(hf_count + state.sides[tf].weights.size());
  for (const auto& [key, all] : state.index[hf]) {
    const auto& [as, count, hash] = key;
    const Likes left = likes(state, hf, state.open(hf, as, count, hash), same_sizes);
    if (left.empty()) continue;
    const Likes right = likes(state, tf, state.open(tf, as, count, hash), same_sizes);
    for (const auto& [mine, hf_members] : left)
      for (const auto& [its, tf_members] : right) {
        const auto common = common_dtypes(mine.first, its.first);
        if (mine.second != its.second || std::find(common.begin(), common.end(), as) == common.end())
          continue;
        for (const size_t i : hf_members) sets.join(i, hf_count + tf_members[0]);
        for (const size_t j : tf_members) sets.join(hf_members[0], hf_count + j);
      }
  }
  std::map<size_t, Group> groups;
  for (const Side side : {hf, tf})
    for (size_t i = 0; i < state.sides[side].weights.size(); ++i)
      if (!state.done[side][i]) groups[sets.root(side == hf ? i : hf_count + i)].members[side].push_back(i);
  std::vector<Group> shared;
  for (auto& [root, group] : groups)
    if (!group.members[hf].empty() && !group.members[tf].empty()) shared.push_back(std::move(group));
  return shared;
}

/// The link of two whole tensors and how sure it is, or nothing.
struct Proven {
  Link link;
  bool only;
};
Result<std::optional<Proven>> prove(const State& state, size_t hf_index, size_t tf_index) {
  const Weight& left = state.weight(hf, hf_index);
  const Weight& right = state.weight(tf, tf_index);
  // Scales belong to whole weights: the tensor that has them is the part.
  const Side joined = right.scales && !left.scales ? hf : tf;
  const Weight& whole = joined == tf ? right : left;
  const Weight& part = joined == tf ? left : right;
  TANDEM_TRY(const auto confirmed,
             confirm({&state.sides[other(joined)], &part},
                     {&state.sides[joined], &whole, tandem::whole(whole.shape())}, {}, state.progress));
  if (!confirmed) return std::optional<Proven>{};
  Link link{joined, whole.info, {part.info}, Join::one, 0, {confirmed->layout}, confirmed->as};
  link.dequantized = part.scales && confirmed->as != part.info->dtype;
  // [1, ...] is a stack of one.
  if (whole.shape().size() == part.shape().size() + 1 && whole.shape()[0] == 1) link.join = Join::stack;
  return std::optional<Proven>(Proven{std::move(link), confirmed->only});
}

bool is_constant(const State& state, Side side, size_t i) {
  const auto& prints = state.prints[side][i];
  return std::any_of(prints.begin(), prints.end(), [](const auto& entry) { return entry.second.constant; });
}

std::vector<const TensorInfo*> infos(const State& state, Side side, const std::vector<size_t>& members) {
  std::vector<const TensorInfo*> list;
  for (const size_t i : members) list.push_back(state.weight(side, i).info);
  return list;
}

void close(State& state, Side side, const std::vector<size_t>& members) {
  for (const size_t i : members) state.done[side][i] = true;
}

/// Members that hold the group's values in some layout: each is compared with the first of the other side.
/// Others stay open, with a hint.
Status keep_equal(State& state, Group& group) {
  for (const Side side : {tf, hf}) {
    std::vector<size_t> kept;
    for (const size_t i : group.members[side]) {
      const size_t partner = group.members[other(side)].front();
      TANDEM_TRY(const auto proven, side == tf ? prove(state, partner, i) : prove(state, i, partner));
      if (proven)
        kept.push_back(i);
      else
        state.hints[side][i] = fmt::format("has the values of {}, in an order that is no layout known here",
                                           state.weight(other(side), partner).name());
    }
    group.members[side] = std::move(kept);
    if (group.members[side].empty()) break;
  }
  return {};
}

/// Pairs by likeness of names, the likeliest first, then by order.
std::vector<std::pair<size_t, size_t>> guessed_pairs(const State& state, const Group& group) {
  struct Candidate {
    double likeness;
    size_t hf, tf;
  };
  std::vector<Candidate> candidates;
  const bool by_name = group.members[hf].size() * group.members[tf].size() <= kMostLikenesses;
  for (size_t k = 0; !by_name && k < std::min(group.members[hf].size(), group.members[tf].size()); ++k)
    candidates.push_back({0, group.members[hf][k], group.members[tf][k]});
  for (const size_t i : by_name ? group.members[hf] : std::vector<size_t>{})
    for (const size_t j : group.members[tf])
      candidates.push_back({likeness(state.weight(hf, i).name(), state.weight(tf, j).name()), i, j});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.likeness > b.likeness; });
  std::vector<std::pair<size_t, size_t>> pairs;
  std::set<size_t> used[2];
  for (const Candidate& candidate : candidates) {
    if (used[hf].contains(candidate.hf) || used[tf].contains(candidate.tf)) continue;
    used[hf].insert(candidate.hf);
    used[tf].insert(candidate.tf);
    pairs.emplace_back(candidate.hf, candidate.tf);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

/// The one member that the single tensor of the other side is called most like.
size_t likest(const State& state, Side side, const std::vector<size_t>& members, std::string_view name) {
  return *std::max_element(members.begin(), members.end(), [&](size_t a, size_t b) {
    return likeness(state.weight(side, a).name(), name) < likeness(state.weight(side, b).name(), name);
  });
}

/// One tensor on one side, several copies of it on the other.
Status tie(State& state, Side many, const Group& group) {
  const size_t single = group.members[other(many)].front();
  const size_t chosen = likest(state, many, group.members[many], state.weight(other(many), single).name());
  TANDEM_TRY(const auto proven, many == hf ? prove(state, chosen, single) : prove(state, single, chosen));
  if (!proven) return {};  // keep_equal has compared them
  state.found.links.push_back(proven->link);
  for (const size_t copy : group.members[many])
    if (copy != chosen)
      state.found.ties.push_back({many, state.weight(many, copy).info, state.weight(many, chosen).info});
  return {};
}

Status doubt(State& state, const Group& group, std::string why) {
  Doubt made{std::move(why), infos(state, hf, group.members[hf]), infos(state, tf, group.members[tf]), {}};
  for (const auto& [left, right] : guessed_pairs(state, group)) {
    TANDEM_TRY(auto proven, prove(state, left, right));
    if (proven) made.guess.push_back(std::move(proven->link));
  }
  state.found.doubts.push_back(std::move(made));
  return {};
}

Status settle(State& state, Group& group) {
  const bool single = group.members[hf].size() == 1 && group.members[tf].size() == 1;
  if (single) {
    const size_t left = group.members[hf].front(), right = group.members[tf].front();
    TANDEM_TRY(auto proven, prove(state, left, right));
    if (!proven) {
      for (const Side side : {hf, tf})
        state.hints[side][group.members[side].front()] =
            fmt::format("has the values of {}, in an order that is no layout known here",
                        state.weight(other(side), group.members[other(side)].front()).name());
      return {};
    }
    if (proven->only)
      state.found.links.push_back(std::move(proven->link));
    else
      state.found.doubts.push_back({"equal values in more than one layout: transposed or not cannot be told",
                                    infos(state, hf, {left}),
                                    infos(state, tf, {right}),
                                    {proven->link}});
  } else {
    TANDEM_CHECK(keep_equal(state, group));
    if (group.members[hf].empty() || group.members[tf].empty()) return {};
    const bool one_sided = group.members[hf].size() == 1 || group.members[tf].size() == 1;
    const Side many = group.members[hf].size() > 1 ? hf : tf;
    if (one_sided && !is_constant(state, hf, group.members[hf].front())) {
      TANDEM_CHECK(tie(state, many, group));
    } else {
      TANDEM_CHECK(doubt(state, group, "equal values"));
    }
  }
  close(state, hf, group.members[hf]);
  close(state, tf, group.members[tf]);
  return {};
}

}  // namespace

Status pair_whole_tensors(State& state) {
  for (const bool same_sizes : {true, false})
    for (Group& group : groups_of(state, same_sizes)) {
      TANDEM_CHECK(settle(state, group));
    }
  return {};
}

}  // namespace tandem::kinship
