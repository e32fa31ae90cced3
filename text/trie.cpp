#include "text/trie.h"

namespace tandem::text {

Trie::Trie() : first_(256, kNone), values_(1, kNone), edges_(64, {0, kNone}), mask_(63) {}

void Trie::add(std::string_view text, uint32_t value) {
  uint32_t node = kRoot;
  for (size_t at = 0; at < text.size(); ++at) node = make_edge(node, byte_of(text, at));
  if (node != kRoot) values_[node] = value;
}

uint32_t Trie::make_edge(uint32_t node, unsigned char byte) {
  const uint32_t known = node == kRoot ? first_[byte] : next(node, byte);
  if (known != kNone) return known;
  const auto made = uint32_t(values_.size());
  values_.push_back(kNone);
  if (node == kRoot) return first_[byte] = made;
  if (values_.size() * 2 > edges_.size()) grow();
  const uint64_t from = uint64_t(node) << 8 | byte;
  size_t at = place(from);
  while (edges_[at].to != kNone) at = (at + 1) & mask_;
  edges_[at] = {from, made};
  return made;
}

void Trie::grow() {
  std::vector<Edge> old = std::move(edges_);
  edges_.assign(old.size() * 2, {0, kNone});
  mask_ = edges_.size() - 1;
  for (const Edge& edge : old) {
    if (edge.to == kNone) continue;
    size_t at = place(edge.from);
    while (edges_[at].to != kNone) at = (at + 1) & mask_;
    edges_[at] = edge;
  }
}

}  // namespace tandem::text
