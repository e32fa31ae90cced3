#include "bench/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kernels.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each set of instructions
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tandem::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float Sum(const float* values, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), quarter = count / 4;
  // Four streams, as a processor follows several; and four chains, as an addition takes four cycles.
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (size_t i = 0; i < quarter; i += lanes) {
    a = hn::Add(a, hn::LoadU(d, values + i));
    b = hn::Add(b, hn::LoadU(d, values + i + quarter));
    c = hn::Add(c, hn::LoadU(d, values + i + 2 * quarter));
    e = hn::Add(e, hn::LoadU(d, values + i + 3 * quarter));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

/// Ten chains: two units of four cycles' latency need eight.
double MultiplyAdd(size_t rounds) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999999f), term = hn::Set(d, 1e-6f);
  auto a = hn::Iota(d, 1.0f), b = a, c = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a;
  for (size_t round = 0; round < rounds; ++round) {
    a = hn::MulAdd(a, factor, term);
    b = hn::MulAdd(b, factor, term);
    c = hn::MulAdd(c, factor, term);
    e = hn::MulAdd(e, factor, term);
    f = hn::MulAdd(f, factor, term);
    g = hn::MulAdd(g, factor, term);
    h = hn::MulAdd(h, factor, term);
    i = hn::MulAdd(i, factor, term);
    j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term);
  }
  const auto all = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)),
                           hn::Add(hn::Add(f, g), hn::Add(hn::Add(h, i), hn::Add(j, k))));
  const volatile float used = hn::GetLane(hn::SumOfLanes(d, all));
  static_cast<void>(used);
  return 2.0 * 10 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace tandem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(Sum);
HWY_EXPORT(MultiplyAdd);

float sum_of(const float* values, size_t count) { return HWY_DYNAMIC_DISPATCH(Sum)(values, count); }
double multiply_add(size_t rounds) { return HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds); }
std::string instructions_name() {
  return hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets());
}

}  // namespace tandem
#endif
