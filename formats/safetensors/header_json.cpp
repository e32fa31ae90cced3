// The header's JSON, taken apart while it is read: a header may have a million entries, so no tree is built.

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/safetensors/header.h"

namespace tandem::safetensors {
namespace {

std::string known_dtypes() {
  std::string list;
  for (const DTypeRow& dtype : kDTypes) list += (list.empty() ? "" : ", ") + std::string(dtype.safetensors);
  return list;
}

constexpr uint64_t kLargest = INT64_MAX;  ///< bytes of a tensor

Error at_byte(Error error, uint64_t position_in_header) {
  error.offset = sizeof(uint64_t) + position_in_header;
  return error;
}

/// Receives the parser's events; the first error stops it. The places are all that the format can be nested,
/// so depth is bounded by construction.
class Handler {
 public:
  explicit Handler(const SafetensorsLimits& limits) : limits_(limits) {}

  bool start_object(size_t) {
    if (place_ == Place::outside) return enter(Place::root);
    if (place_ == Place::root && key_ == "__metadata__") {
      if (has_metadata_) return fail(corrupt("S6", "__metadata__ stands twice in the header"));
      has_metadata_ = true;
      return enter(Place::metadata);
    }
    if (place_ == Place::root) {
      entry_ = {};
      entry_.info.name = std::move(key_);
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return enter(Place::entry);
    }
    return unexpected("an object");
  }

  bool start_array(size_t) {
    if (place_ != Place::entry) return unexpected("an array");
    if (key_ == "shape") return first(has_shape_) && enter(Place::shape);
    if (key_ == "data_offsets") return first(has_offsets_) && enter(Place::offsets);
    return unexpected("an array");
  }

  bool key(std::string& text) {
    if (text.size() > limits_.max_name_bytes)
      return fail(corrupt("R3", "the name {} has {} bytes, the limit is {}", shown(text), text.size(),
                          limits_.max_name_bytes));
    key_ = std::move(text);
    const bool known = key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
    if (place_ == Place::entry && !known)
      return fail(corrupt("safetensors_c1",
                          "tensor {} has the field {}, expected dtype, shape and data_offsets",
                          shown(entry_.info.name), shown(key_)));
    return true;
  }

  bool string(std::string& text) {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, std::move(text)).second)
        return fail(corrupt("S6", "the key {} stands twice in __metadata__", shown(key_)));
      return true;
    }
    if (place_ != Place::entry || key_ != "dtype") return unexpected("a string");
    const auto dtype = dtype_of_safetensors(text);
    if (!dtype)
      return fail(unsupported("S15", "tensor {} has the dtype {}, known are {}", shown(entry_.info.name),
                              shown(text), known_dtypes()));
    entry_.info.dtype = *dtype;
    return first(has_dtype_);
  }

  bool number_unsigned(uint64_t value) {
    if (place_ == Place::shape) {
      if (entry_.info.shape.size() == limits_.max_rank)
        return fail(
            corrupt("R3", "tensor {} has more than {} axes", shown(entry_.info.name), limits_.max_rank));
      entry_.info.shape.push_back(value);
      return true;
    }
    if (place_ != Place::offsets) return unexpected("a number");
    if (offset_count_ < 2) (offset_count_ == 0 ? entry_.begin : entry_.end) = value;
    ++offset_count_;
    return true;
  }
  bool number_integer(int64_t value) { return not_a_size(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return not_a_size(text); }
  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary data"); }

  bool end_array() {
    if (place_ == Place::offsets && offset_count_ != 2)
      return fail(corrupt("safetensors_c1", "data_offsets of tensor {} has {} numbers, expected [begin, end]",
                          shown(entry_.info.name), offset_count_));
    offset_count_ = 0;
    return enter(Place::entry);
  }

  bool end_object() {
    if (place_ == Place::entry && !finish_entry()) return false;
    return enter(place_ == Place::root ? Place::outside : Place::root);
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return fail(at_byte(corrupt("S4", "the header is not JSON here"), position == 0 ? 0 : position - 1));
  }

  Result<Header> take() && {
    if (error_) return *std::move(error_);
    return std::move(header_);
  }

 private:
  enum class Place { outside, root, metadata, entry, shape, offsets };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }
  bool first(bool& seen) {
    if (seen) return fail(corrupt("S6", "tensor {} has two fields {}", shown(entry_.info.name), shown(key_)));
    return seen = true;
  }
  bool not_a_size(const std::string& text) {
    if (place_ != Place::shape && place_ != Place::offsets) return unexpected("a number");
    return fail(corrupt("S11", "{} of tensor {} holds {}, expected an integer from 0 to 2^64-1",
                        place_ == Place::shape ? "shape" : "data_offsets", shown(entry_.info.name),
                        shown(text)));
  }
  bool unexpected(std::string_view found) {
    switch (place_) {
      case Place::outside:
        return fail(corrupt("S4", "the header is {}, expected an object", found));
      case Place::root:
        return fail(corrupt("S5", "the value of {} is {}, expected an object", shown(key_), found));
      case Place::metadata:
        return fail(
            corrupt("S16", "the value of {} in __metadata__ is {}, expected a string", shown(key_), found));
      case Place::entry:
        return fail(corrupt("S5", "{} of tensor {} is {}", key_, shown(entry_.info.name), found));
      case Place::shape:
      case Place::offsets:
        break;
    }
    return fail(
        corrupt("S5", "an array of tensor {} holds {}, expected numbers", shown(entry_.info.name), found));
  }

  bool finish_entry() {
    const TensorInfo& info = entry_.info;
    if (!has_dtype_ || !has_shape_ || !has_offsets_)
      return fail(corrupt("safetensors_c1", "tensor {} lacks {}", shown(info.name),
                          !has_dtype_   ? "dtype"
                          : !has_shape_ ? "shape"
                                        : "data_offsets"));
    // A size of 0 must not hide that the others are absurd: readers multiply in other orders than we do.
    Shape without_zeros = info.shape;
    const bool empty = std::erase(without_zeros, 0u) > 0;
    const auto largest = byte_count(info.dtype, without_zeros);
    if (!largest.ok() || largest.value() > kLargest)
      return fail(corrupt(empty ? "S14" : "S11",
                          "tensor {} is {}{}: {}its sizes multiply to more than 2^63 - 1 bytes",
                          shown(info.name), row(info.dtype).safetensors, to_string(info.shape),
                          empty ? "zeros left out, " : ""));
    const uint64_t bytes = empty ? 0 : largest.value();
    if (entry_.end < entry_.begin)
      return fail(
          corrupt("S8", "tensor {} begins at {} and ends at {}", shown(info.name), entry_.begin, entry_.end));
    if (entry_.end - entry_.begin != bytes)
      return fail(corrupt("S13", "tensor {} is {}{}, {} bytes, but its data_offsets [{}, {}] span {}",
                          shown(info.name), row(info.dtype).safetensors, to_string(info.shape), bytes,
                          entry_.begin, entry_.end, entry_.end - entry_.begin));
    if (header_.entries.size() == limits_.max_tensors)
      return fail(corrupt("R3", "more than {} tensors", limits_.max_tensors)
                      .because("--max-tensors raises the limit, if the file is trusted"));
    header_.entries.push_back(std::move(entry_));
    return true;
  }

  const SafetensorsLimits& limits_;
  Header header_;
  std::optional<Error> error_;
  Place place_ = Place::outside;
  std::string key_;
  Entry entry_;
  bool has_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  uint64_t offset_count_ = 0;
};

}  // namespace

std::string shown(std::string_view name) {
  constexpr size_t kLongest = 120;
  if (name.size() <= kLongest) return fmt::format("{:?}", name);
  return fmt::format("{:?}...", name.substr(0, kLongest));
}

Result<Header> parse_header(std::span<const char> json, const SafetensorsLimits& limits) {
  // The JSON library would skip a byte order mark and leading blanks, and would take a NUL for the end of the
  // text.
  if (json.empty() || json.front() != '{')
    return corrupt("S4", "the header begins with {}, expected {{",
                   json.empty() ? "nothing" : shown(std::string_view(json.data(), 1)));
  if (const void* nul = std::memchr(json.data(), 0, json.size()))
    return at_byte(corrupt("S4", "the header holds a NUL byte"), static_cast<const char*>(nul) - json.data());
  size_t length = json.size();
  while (json[length - 1] == ' ') --length;
  if (json[length - 1] != '}')
    return at_byte(corrupt("S4", "the header ends with {}, expected }} and spaces",
                           shown(std::string_view(&json[length - 1], 1))),
                   length - 1);
  Handler handler(limits);
  const bool parsed = nlohmann::json::sax_parse(json.data(), json.data() + length, &handler);
  (void)parsed;  // the handler has kept the error
  return std::move(handler).take();
}

}  // namespace tandem::safetensors
