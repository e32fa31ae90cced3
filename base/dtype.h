#pragma once
// Element types: the one list of them, and exact conversions between them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace tandem {

enum class DType : uint8_t {
  f64,
  f32,
  bf16,
  f16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

/// One row a dtype: every spelling of it, in one place.
struct DTypeRow {
  DType dtype;
  std::string_view name;         ///< ours, in contracts and messages: "bf16"
  std::string_view long_name;    ///< as users and config.json know it: "bfloat16"
  std::string_view safetensors;  ///< "BF16"
  int tensorflow;                ///< tensorflow.DataType number: 14
  size_t size;                   ///< bytes an element
  bool is_float;
};

inline constexpr std::array<DTypeRow, 15> kDTypes{{
    {DType::f64, "f64", "float64", "F64", 2, 8, true},
    {DType::f32, "f32", "float32", "F32", 1, 4, true},
    {DType::bf16, "bf16", "bfloat16", "BF16", 14, 2, true},
    {DType::f16, "f16", "float16", "F16", 19, 2, true},
    {DType::f8_e4m3, "f8_e4m3", "float8_e4m3fn", "F8_E4M3", 25, 1, true},
    {DType::f8_e5m2, "f8_e5m2", "float8_e5m2", "F8_E5M2", 24, 1, true},
    {DType::i64, "i64", "int64", "I64", 9, 8, false},
    {DType::i32, "i32", "int32", "I32", 3, 4, false},
    {DType::i16, "i16", "int16", "I16", 5, 2, false},
    {DType::i8, "i8", "int8", "I8", 6, 1, false},
    {DType::u64, "u64", "uint64", "U64", 23, 8, false},
    {DType::u32, "u32", "uint32", "U32", 22, 4, false},
    {DType::u16, "u16", "uint16", "U16", 17, 2, false},
    {DType::u8, "u8", "uint8", "U8", 4, 1, false},
    {DType::boolean, "bool", "bool", "BOOL", 10, 1, false},
}};

constexpr const DTypeRow& row(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
constexpr size_t size_of(DType dtype) { return row(dtype).size; }
constexpr std::string_view name(DType dtype) { return row(dtype).name; }
constexpr bool is_float(DType dtype) { return row(dtype).is_float; }

/// The dtype of a spelling, by column; nothing if there is none.
std::optional<DType> dtype_named(std::string_view name);               ///< "bf16" or "bfloat16"
std::optional<DType> dtype_of_safetensors(std::string_view spelling);  ///< "BF16"
std::optional<DType> dtype_of_tensorflow(int number);                  ///< 14

/// What rounding did to values that a conversion could not represent.
struct CastCounts {
  uint64_t overflowed = 0;  ///< finite, became infinite (or, to e4m3, NaN)
  uint64_t flushed = 0;     ///< not zero, became zero
  uint64_t rounded = 0;     ///< changed at all, the two above included
  CastCounts& operator+=(const CastCounts& other);
};

// One element, exactly rounded to nearest, ties to even. NaN stays NaN with its sign and the high bits of its
// payload.
float bf16_to_f32(uint16_t bits);
float f16_to_f32(uint16_t bits);
float f8_e4m3_to_f32(uint8_t bits);  ///< e4m3fn: no infinity, largest 448, NaN 0x7f and 0xff
float f8_e5m2_to_f32(uint8_t bits);
uint16_t f32_to_bf16(float value);
uint16_t f32_to_f16(float value);
uint8_t f32_to_f8_e4m3(float value);  ///< beyond 448 after rounding: NaN
uint8_t f32_to_f8_e5m2(float value);

/// Converts `count` = from.size() / size_of(from_dtype) elements; to.size() must be count *
/// size_of(to_dtype). Float types only, or the same dtype on both sides (then bytes are copied, NaN payloads
/// included). Errors: cast_c1 for a pair that has no conversion.
Result<CastCounts> cast(DType from_dtype, std::span<const std::byte> from, DType to_dtype,
                        std::span<std::byte> to);

}  // namespace tandem

template <>
struct fmt::formatter<tandem::DType> : fmt::formatter<std::string_view> {
  auto format(tandem::DType dtype, format_context& context) const {
    return fmt::formatter<std::string_view>::format(tandem::name(dtype), context);
  }
};
