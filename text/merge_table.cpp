#include "text/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <queue>

namespace tandem::text {
namespace {

constexpr size_t kLongestShortWord = 40;
constexpr uint32_t kNone = UINT32_MAX;

void merge_short(const MergeTable& merges, std::vector<Symbol>& word) {
  Merge pairs[kLongestShortWord];  // of symbols i and i + 1; rank kNone if they do not merge
  size_t count = word.size();
  const auto look_up = [&](size_t i) {
    const Merge* merge = merges.find(word[i].id, word[i + 1].id);
    pairs[i] = merge ? *merge : Merge{kNone, 0};
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == kNone) break;
    word[best].id = pairs[best].id;
    word.erase(word.begin() + best + 1);
    std::copy(pairs + best + 1, pairs + count - 1, pairs + best);
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
}

/// A long word as a linked list. Pairs wait by rank, and in the order of their places within one rank: what
/// is found while a rank is worked on and comes before the rest of it waits in `urgent_`.
class LongWord {
 public:
  LongWord(const MergeTable& merges, std::vector<Symbol>& word) : merges_(merges), word_(word) {
    links_.resize(word.size());
    for (uint32_t i = 0; i < word.size(); ++i)
      links_[i] = {i - 1, i + 1 < word.size() ? i + 1 : kNone};  // -1 is kNone
    for (uint32_t i = 0; i + 1 < word.size(); ++i) offer(i);
  }

  void run() {
    while (!waiting_.empty()) {
      auto first = waiting_.extract(waiting_.begin());
      rank_ = first.key();
      std::vector<uint32_t>& places = first.mapped();
      if (!std::is_sorted(places.begin(), places.end())) std::sort(places.begin(), places.end());
      for (const uint32_t place : places) {
        drain({rank_, place});
        merge_at(place, rank_);
      }
      drain({kNone, kNone});
      rank_ = kNone;
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != kNone; i = links_[i].next) word_[kept++] = word_[i];
    word_.resize(kept);
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;  // rank, index of the left symbol
  struct Link {
    uint32_t previous, next;
  };

  void drain(Place end) {
    while (!urgent_.empty() && urgent_.top() < end) {
      const auto [rank, place] = urgent_.top();
      urgent_.pop();
      merge_at(place, rank);
    }
  }

  void offer(uint32_t left) {
    const uint32_t right = links_[left].next;
    const Merge* merge = merges_.find(word_[left].id, word_[right].id);
    if (!merge) return;
    if (rank_ != kNone && merge->rank <= rank_)
      urgent_.push({merge->rank, left});
    else
      waiting_[merge->rank].push_back(left);
  }

  /// Merges the pair at `left`, unless one of its two has changed since it was offered.
  void merge_at(uint32_t left, uint32_t rank) {
    if (word_[left].id == kNone) return;
    const uint32_t right = links_[left].next;
    if (right == kNone) return;
    const Merge* merge = merges_.find(word_[left].id, word_[right].id);
    if (!merge || merge->rank != rank) return;
    word_[left].id = merge->id;
    word_[right].id = kNone;
    links_[left].next = links_[right].next;
    if (links_[left].next != kNone) links_[links_[left].next].previous = left;
    if (links_[left].previous != kNone) offer(links_[left].previous);
    if (links_[left].next != kNone) offer(left);
  }

  const MergeTable& merges_;
  std::vector<Symbol>& word_;
  std::vector<Link> links_;
  std::map<uint32_t, std::vector<uint32_t>> waiting_;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> urgent_;
  uint32_t rank_ = kNone;  ///< being worked on
};

}  // namespace

MergeTable::MergeTable(size_t count)
    : mask_(std::bit_ceil(2 * count + 2) - 1), entries_(mask_ + 1, {kFree, {}}) {}

void MergeTable::put(uint32_t left, uint32_t right, Merge merge) {
  const uint64_t pair = key(left, right);
  size_t at = place(pair);
  while (entries_[at].pair != kFree && entries_[at].pair != pair) at = (at + 1) & mask_;
  entries_[at] = {pair, merge};
}

void merge_all(const MergeTable& merges, std::vector<Symbol>& word) {
  if (word.size() < 2) return;
  if (word.size() <= kLongestShortWord)
    merge_short(merges, word);
  else
    LongWord(merges, word).run();
}

}  // namespace tandem::text
