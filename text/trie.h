#pragma once
// Which of many texts another one starts with.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tandem::text {

constexpr size_t kMaxTokenBytes = 4096;  ///< of a token that is looked for in a trie: bounds each look

/// A trie over bytes; its edges are one hash table, so memory goes with the sum of the texts' lengths.
class Trie {
 public:
  Trie();
  /// A text that is there already takes the new value.
  void add(std::string_view text, uint32_t value);
  /// Calls found(length, value) for each text that `subject` starts with, the shortest first.
  template <class Found>
  void walk(std::string_view subject, Found found) const {
    uint32_t node = kRoot;
    for (size_t at = 0; at < subject.size(); ++at) {
      node = at == 0 ? first_[byte_of(subject, 0)] : next(node, byte_of(subject, at));
      if (node == kNone) return;
      if (values_[node] != kNone) found(uint32_t(at + 1), values_[node]);
    }
  }
  bool starts_with(char byte) const { return first_[static_cast<unsigned char>(byte)] != kNone; }

 private:
  static constexpr uint32_t kRoot = 0, kNone = UINT32_MAX;
  struct Edge {
    uint64_t from;  ///< node << 8 | byte
    uint32_t to;
  };
  static unsigned char byte_of(std::string_view text, size_t at) {
    return static_cast<unsigned char>(text[at]);
  }
  size_t place(uint64_t from) const { return (from * 0x9e3779b97f4a7c15 >> 20) & mask_; }
  uint32_t next(uint32_t node, unsigned char byte) const {
    const uint64_t from = uint64_t(node) << 8 | byte;
    for (size_t at = place(from);; at = (at + 1) & mask_)
      if (edges_[at].from == from || edges_[at].to == kNone) return edges_[at].to;
  }
  uint32_t make_edge(uint32_t node, unsigned char byte);
  void grow();

  std::vector<uint32_t> first_;   ///< the root's edges, by byte
  std::vector<uint32_t> values_;  ///< by node
  std::vector<Edge> edges_;
  size_t mask_;
};

}  // namespace tandem::text
