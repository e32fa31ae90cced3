#include "base/tensor_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tandem {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the leading run of digits off text, leading zeros dropped.
std::string_view take_number(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

bool name_before(const TensorInfo& info, std::string_view name) { return natural_less(info.name, name); }

// How a box falls into contiguous runs: axes [0, outer) are counted through, the rest is one run.
struct Runs {
  size_t outer;
  uint64_t elements;  // of one run
};

Runs runs_of(const Shape& shape, const Box& box) {
  Runs runs{shape.size(), 1};
  while (runs.outer > 0) {
    const size_t axis = --runs.outer;
    runs.elements *= box.size[axis];
    if (box.size[axis] != shape[axis]) break;
  }
  return runs;
}

uint64_t flat_index(const Shape& shape, const Box& box, const Shape& at) {
  uint64_t index = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + box.begin[axis] + at[axis];
  return index;
}

// Advances the first `axes` counters of `at` by one, last axis fastest.
void advance(const Box& box, size_t axes, Shape& at) {
  while (axes > 0) {
    --axes;
    if (++at[axes] < box.size[axes]) return;
    at[axes] = 0;
  }
}

}  // namespace

const TensorInfo* TensorSource::find(std::string_view tensor) const {
  const auto& all = tensors();
  const auto near = std::lower_bound(all.begin(), all.end(), tensor, name_before);
  if (near != all.end() && near->name == tensor) return &*near;
  // A source whose own order is another one.
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const TensorInfo& info) { return info.name == tensor; });
  return found == all.end() ? nullptr : &*found;
}

Status read_box(const TensorSource& source, const TensorInfo& tensor, const Box& box,
                std::span<std::byte> out) {
  TANDEM_CHECK(byte_count(tensor.dtype, tensor.shape));
  if (!contains(tensor.shape, box))
    return bug("box_c1", "box {} + {} does not lie in {} of shape {}", to_string(box.begin),
               to_string(box.size), tensor.name, to_string(tensor.shape));
  const size_t element = size_of(tensor.dtype);
  if (out.size() != element_count(box) * element)
    return bug("box_c2", "room for {} bytes, box {} of {} has {}", out.size(), to_string(box.size),
               tensor.name, element_count(box) * element);
  const Runs runs = runs_of(tensor.shape, box);
  const size_t run_bytes = runs.elements * element;
  Shape at(tensor.shape.size(), 0);
  while (!out.empty()) {
    TANDEM_CHECK(source.read(tensor.name, flat_index(tensor.shape, box, at) * element, out.first(run_bytes)));
    out = out.subspan(run_bytes);
    advance(box, runs.outer, at);
  }
  return {};
}

void MemorySource::add(TensorInfo info, std::vector<std::byte> data) {
  assert(byte_count(info.dtype, info.shape).ok() &&
         byte_count(info.dtype, info.shape).value() == data.size());
  const bool added = data_.emplace(info.name, std::move(data)).second;
  assert(added);
  (void)added;
  infos_.insert(std::lower_bound(infos_.begin(), infos_.end(), info.name, name_before), std::move(info));
}

Status MemorySource::read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const {
  const auto found = data_.find(tensor);
  if (found == data_.end()) return missing({}, "no tensor \"{}\" in memory", tensor);
  const auto& data = found->second;
  if (byte_offset > data.size() || out.size() > data.size() - byte_offset)
    return corrupt({}, "bytes {} to {} of {}, which has {}", byte_offset, byte_offset + out.size(), tensor,
                   data.size());
  if (!out.empty()) std::memcpy(out.data(), data.data() + byte_offset, out.size());
  return {};
}

std::string MemorySource::location(std::string_view) const { return "memory"; }

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view x = take_number(a), y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[0] != b[0]) return static_cast<unsigned char>(a[0]) < static_cast<unsigned char>(b[0]);
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // equal but for leading zeros
}

}  // namespace tandem
