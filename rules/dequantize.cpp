#include "rules/dequantize.h"

#include <algorithm>
#include <cstring>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rules/dequantize.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each set of instructions
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tandem::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr uint8_t kMagnitude = 0x7f;  // of a code; all ones is NaN
constexpr size_t kMostLanes = 64;     // no target's vectors have more of float32

/// Codes up to the first vector with a NaN in it; how many were done. kOrdinary: no code times `scale` leaves
/// the normal numbers, so that nothing overflows or is flushed.
template <bool kOrdinary>
size_t DequantizeRun(const uint8_t* codes, size_t count, float scale, uint8_t* to, CastCounts* counts) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint8_t, decltype(df)> d8;
  const hn::Rebind<uint16_t, decltype(df)> d16;
  const size_t lanes = hn::Lanes(df);
  const auto factor = hn::Set(df, scale), zero_f = hn::Zero(df), least = hn::Set(df, 0x1p-6f);
  const auto zero = hn::Zero(du), one = hn::Set(du, 1u), code_bits = hn::Set(du, uint32_t{kMagnitude});
  auto rounded = zero, overflowed = zero, flushed = zero;
  const auto step = [&](const uint8_t* from, uint8_t* made) -> bool {
    const auto code = hn::PromoteTo(du, hn::LoadU(d8, from));
    const auto size = hn::And(code, code_bits);
    if (!hn::AllFalse(du, hn::Eq(size, code_bits))) return false;
    // e4m3's exponent has a bias of 7, float32's of 127. A subnormal code is the distance from the least
    // normal one to the number of its fraction: float32 that is subnormal itself would be slow.
    const auto subnormal = hn::Lt(size, hn::Set(du, 8u));
    const auto bits = hn::Add(hn::ShiftLeft<20>(size),
                              hn::IfThenElse(subnormal, hn::Set(du, 121u << 23), hn::Set(du, 120u << 23)));
    const auto positive =
        hn::Sub(hn::BitCast(df, bits), hn::IfThenElse(hn::RebindMask(df, subnormal), least, zero_f));
    const auto sign = hn::ShiftLeft<24>(hn::Xor(code, size));
    const auto value =
        hn::BitCast(du, hn::Mul(hn::BitCast(df, hn::Or(hn::BitCast(du, positive), sign)), factor));
    const auto odd = hn::And(hn::ShiftRight<16>(value), one);
    const auto nearest = hn::ShiftRight<16>(hn::Add(hn::Add(value, hn::Set(du, 0x7fffu)), odd));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, nearest)), d16, reinterpret_cast<uint16_t*>(made));
    // 1 where a bit is lost.
    rounded = hn::Add(rounded, hn::Min(hn::And(value, hn::Set(du, 0xffffu)), one));
    if (kOrdinary) return true;
    const auto before = hn::And(value, hn::Set(du, 0x7fffffffu)),
               after = hn::And(nearest, hn::Set(du, 0x7fffu));
    const auto over = hn::And(hn::Eq(after, hn::Set(du, 0x7f80u)), hn::Lt(before, hn::Set(du, 0x7f800000u)));
    const auto gone = hn::And(hn::Eq(after, zero), hn::Ne(before, zero));
    overflowed = hn::Sub(overflowed, hn::VecFromMask(du, over));  // a true lane is -1
    flushed = hn::Sub(flushed, hn::VecFromMask(du, gone));
    return true;
  };
  size_t done = 0;
  bool finite = true;
  while (finite && done + lanes <= count)
    if ((finite = step(codes + done, to + 2 * done))) done += lanes;
  if (finite && done < count) {  // zeros behind the rest make a vector, and change no count
    uint8_t last[kMostLanes] = {};
    alignas(2) uint8_t made[2 * kMostLanes];
    std::memcpy(last, codes + done, count - done);
    if (step(last, made)) {
      std::memcpy(to + 2 * done, made, 2 * (count - done));
      done = count;
    }
  }
  counts->rounded += hn::GetLane(hn::SumOfLanes(du, rounded));
  counts->overflowed += hn::GetLane(hn::SumOfLanes(du, overflowed));
  counts->flushed += hn::GetLane(hn::SumOfLanes(du, flushed));
  return done;
}

size_t Dequantize(const uint8_t* codes, size_t count, float scale, uint8_t* to, CastCounts* counts) {
  const float size = scale < 0 ? -scale : scale;  // codes are from 2^-9 to 448
  const bool ordinary = size >= 0x1p-100f && size <= 0x1p100f;
  return (ordinary ? DequantizeRun<true> : DequantizeRun<false>)(codes, count, scale, to, counts);
}

}  // namespace tandem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(Dequantize);

constexpr size_t kNearNan = 16;  // codes that are done one by one where a NaN is

namespace {

/// One code, in words that anybody can check.
CastCounts dequantize_one(std::byte code, float scale, std::byte* to) {
  const float value = f8_e4m3_to_f32(static_cast<uint8_t>(code)) * scale;
  return cast(DType::f32, std::as_bytes(std::span(&value, 1)), DType::bf16, {to, 2}).value();
}

}  // namespace

CastCounts dequantize_to_bf16(const std::byte* codes, size_t count, float scale, std::byte* to) {
  CastCounts counts;
  while (true) {
    const size_t done = HWY_DYNAMIC_DISPATCH(Dequantize)(reinterpret_cast<const uint8_t*>(codes), count,
                                                         scale, reinterpret_cast<uint8_t*>(to), &counts);
    codes += done, to += 2 * done, count -= done;
    if (count == 0) return counts;
    const size_t near = std::min(count, kNearNan);
    for (size_t i = 0; i < near; i++) counts += dequantize_one(codes[i], scale, to + 2 * i);
    codes += near, to += 2 * near, count -= near;
  }
}

}  // namespace tandem
#endif
