// Writing safetensors: the header first, then each tensor in pieces.

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/safetensors/header.h"

namespace tandem {
namespace {

using safetensors::shown;

/// The text as a JSON string. Errors: invalid if it is not UTF-8.
Result<std::string> json_string(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return invalid("safetensors_c2", "{} is not UTF-8", shown(text));
  }
}

/// Where a dtype stands in the reference writer's order.
int layout_rank(DType dtype) {
  switch (dtype) {
    case DType::u64:
      return 0;
    case DType::i64:
      return 1;
    case DType::f64:
      return 2;
    case DType::f32:
      return 3;
    case DType::u32:
      return 4;
    case DType::i32:
      return 5;
    case DType::bf16:
      return 6;
    case DType::f16:
      return 7;
    case DType::u16:
      return 8;
    case DType::i16:
      return 9;
    case DType::f8_e4m3:
      return 10;
    case DType::f8_e5m2:
      return 11;
    case DType::i8:
      return 12;
    case DType::u8:
      return 13;
    case DType::boolean:
      return 14;
  }
  return 15;
}

}  // namespace

std::vector<TensorInfo> file_layout(std::vector<TensorInfo> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const int rank_a = layout_rank(a.dtype), rank_b = layout_rank(b.dtype);
    return rank_a != rank_b ? rank_a < rank_b : a.name < b.name;
  });
  return tensors;
}

Result<std::string> safetensors_header(const std::vector<TensorInfo>& tensors,
                                       const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      TANDEM_TRY(const auto json_key, json_string(key));
      TANDEM_TRY(const auto json_value, json_string(value));
      json += fmt::format("{}{}:{}", json.back() == '{' ? "" : ",", json_key, json_value);
    }
    json += "}";
  }
  uint64_t begin = 0;
  std::set<std::string_view> names{"__metadata__"};
  for (const TensorInfo& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      return invalid("safetensors_c3", "tensor {} is given twice, or its name is the format's own",
                     shown(tensor.name));
    TANDEM_TRY(const auto name, json_string(tensor.name));
    TANDEM_TRY(const auto bytes, byte_count(tensor.dtype, tensor.shape));
    const auto end = checked_add(begin, bytes);
    if (!end) return invalid("safetensors_c4", "the tensors up to {} exceed 64 bits", shown(tensor.name));
    json += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() == 1 ? "" : ",", name, row(tensor.dtype).safetensors,
                        fmt::join(tensor.shape, ","), begin, *end);
    begin = *end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

Status write_safetensors(PieceFile& file, const TensorSource& source, const std::vector<TensorInfo>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         const std::function<Status(uint64_t)>& progress) {
  auto all_metadata = metadata;
  all_metadata.emplace("format", "pt");
  TANDEM_TRY(const auto header, safetensors_header(tensors, all_metadata));
  TANDEM_CHECK(file.append(std::as_bytes(std::span(header))));
  for (const TensorInfo& tensor : tensors) {
    TANDEM_TRY(const uint64_t bytes, byte_count(tensor.dtype, tensor.shape));
    const uint64_t begin = file.bytes();
    const uint64_t row_bytes = tensor.shape.empty() ? 1 : tensor.shape.back() * size_of(tensor.dtype);
    TANDEM_CHECK(file.append(
        bytes,
        [&](uint64_t offset, std::span<std::byte> out) -> Status {
          TANDEM_CHECK(source.read(tensor.name, offset, out));
          return progress ? progress(begin + offset + out.size()) : Status{};
        },
        row_bytes));
  }
  return {};
}

Status write_safetensors(const FileSystem& files, const std::string& path, const TensorSource& source,
                         const std::vector<TensorInfo>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         const std::function<Status(uint64_t)>& progress) {
  TANDEM_TRY(auto created, files.create(path));
  PieceFile file(std::move(created));
  TANDEM_CHECK(write_safetensors(file, source, tensors, metadata, progress));
  TANDEM_CHECK(file.close());
  return {};
}

}  // namespace tandem
