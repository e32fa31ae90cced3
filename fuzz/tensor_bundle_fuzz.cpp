#include "formats/tensor_bundle/index.h"
#include "formats/tensor_bundle/object_graph.h"
#include "formats/tensor_bundle/testing.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {

using namespace tandem::testing;

/// The bytes as an index file; as a data block whose checksums are right, so that what lies behind them is
/// reached; as a graph.
void fuzz_one(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  static_cast<void>(parse_index(text, "fuzz"));
  static_cast<void>(parse_index(table_around(text), "fuzz"));
  static_cast<void>(names_by_key(text));
}

std::vector<std::string> seeds() {
  auto whole = float_entry({2, 2}, 0, 0);
  auto* slice = whole.add_slices();
  slice->add_extent();
  slice->add_extent();
  const TableEntries entries{{slice_key("w", *slice), float_entry({2, 2}, 0, 16).SerializeAsString()},
                             {"v", float_entry({}, 16, 4).SerializeAsString()},
                             {"w", whole.SerializeAsString()}};
  const std::string index = index_of(entries);
  const size_t block = index.find(std::string("\0\0\0\0\1\0\0\0", 8)) + 8;
  return {index, index.substr(0, block),
          object_graph({{"model/layers/0/w", "w"}, {"model/layers/1/w", "v"}})};
}

}  // namespace tandem::fuzz
