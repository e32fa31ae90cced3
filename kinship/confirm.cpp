#include "kinship/confirm.h"

#include <cstring>

#include "rules/view.h"

namespace tandem::kinship {
namespace {

constexpr uint64_t kMemory = 64 << 20;      // of a transposed read, in bytes
constexpr uint64_t kRunElements = 1 << 19;  // compared at once
constexpr uint64_t kProbeElements = 192;    // of a run of the quick comparison
constexpr uint64_t kProbes = 6;

class Comparison {
 public:
  Comparison(const Part& part, const Place& place, const Layout& layout, DType as)
      : place_(place),
        view_{part.checkpoint->source, &seen_, {}, layout.shape, layout.axes, as},
        reader_(kMemory),
        as_(as) {
    seen_ = *part.weight->info;
    seen_.shape = layout.shape;  // the elements lie in the same order
  }

  Status prepare(const Part& part) {
    TANDEM_TRY(part_convert_, converter(*part.checkpoint, *part.weight, as_));
    TANDEM_TRY(place_convert_, converter(*place_.checkpoint, *place_.weight, as_));
    return {};
  }

  /// Elements [first, first + count) of the place, in row-major order of its box.
  Result<bool> run(uint64_t first, uint64_t count) {
    left_.resize(count * size_of(as_));
    right_.resize(left_.size());
    TANDEM_CHECK(reader_.read(view_, part_convert_, first, left_));
    TANDEM_CHECK(read_place(first, count));
    return left_ == right_;
  }

 private:
  Status read_place(uint64_t first, uint64_t count) {
    const size_t from = size_of(place_.weight->info->dtype), to = size_of(as_);
    for (uint64_t done = 0; done < count;) {
      Box box = next_box(place_.box.size, first + done, count - done);
      for (size_t axis = 0; axis < box.begin.size(); ++axis) box.begin[axis] += place_.box.begin[axis];
      const uint64_t elements = element_count(box);
      const auto out = std::span(right_).subspan(done * to, elements * to);
      raw_.resize(place_convert_ ? elements * from : 0);
      TANDEM_CHECK(read_box(*place_.checkpoint->source, *place_.weight->info, box,
                            place_convert_ ? std::span<std::byte>(raw_) : out));
      if (place_convert_) {
        TANDEM_CHECK(place_convert_(0, raw_, out));
      }
      done += elements;
    }
    return {};
  }

  const Place& place_;
  TensorInfo seen_;
  View view_;
  ViewReader reader_;
  DType as_;
  ConvertRun part_convert_, place_convert_;
  std::vector<std::byte> left_, right_, raw_;
};

}  // namespace

Result<bool> equal(const Part& part, const Place& place, const Layout& layout, DType as, bool everything,
                   const Progress& progress) {
  const uint64_t count = element_count(place.box);
  if (count != part.weight->count || (place.weight->scales && as != place.weight->info->dtype)) return false;
  Comparison comparison(part, place, layout, as);
  TANDEM_CHECK(comparison.prepare(part));
  const uint64_t run = everything ? kRunElements : kProbeElements;
  const uint64_t step = everything ? run : std::max(run, count / kProbes);
  for (uint64_t first = 0; first < count; first += step) {
    const uint64_t elements = std::min(run, count - first);
    TANDEM_TRY(const bool same, comparison.run(first, elements));
    if (!same) return false;
    if (progress && everything) {
      TANDEM_CHECK(progress(elements * size_of(part.weight->info->dtype)));
    }
  }
  return true;
}

namespace {

/// The first of these layouts that fits, and whether another does.
Result<std::optional<Confirmed>> first_of(const Part& part, const Place& place,
                                          const std::vector<Layout>& layouts, const Progress& progress) {
  std::optional<Confirmed> found;
  for (const DType as : common_dtypes(part.weight->kind(), place.weight->kind()))
    for (const Layout& layout : layouts) {
      if (found && found->layout == layout) continue;
      TANDEM_TRY(const bool likely, equal(part, place, layout, as, false, progress));
      if (!likely) continue;
      TANDEM_TRY(const bool sure, equal(part, place, layout, as, true, progress));
      if (!sure) continue;
      if (found) {
        found->only = false;
        return found;
      }
      found = Confirmed{layout, as};
    }
  return found;
}

}  // namespace

Result<std::optional<Confirmed>> confirm(const Part& part, const Place& place,
                                         const std::optional<Layout>& hint, const Progress& progress) {
  std::vector<Layout> layouts = possible_layouts(part.weight->shape(), place.box.size);
  if (hint)
    if (const auto at = std::find(layouts.begin(), layouts.end(), *hint); at != layouts.end())
      std::rotate(layouts.begin(), at, at + 1);
  TANDEM_TRY(auto found, first_of(part, place, layouts, progress));
  if (found) return found;
  return first_of(part, place, rotary_layouts(part.weight->shape(), place.box.size), progress);
}

}  // namespace tandem::kinship
