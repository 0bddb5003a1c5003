// exp, tanh and erf of vectors, as polynomials without branches. Within 2 ulp of the true value
// (erf within 3), exact at 0 and at infinity, NaN for NaN. The coefficients are minimax fits of
// relative error.
#pragma once

#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA::math {

inline Vec with_sign_of(Vec magnitude, Vec sign) {
  return from_bits(bits_of(magnitude) | (bits_of(sign) & INT32_MIN));
}

// c[0] x^(n-1) + ... + c[n-1]
template <int n>
Vec polynomial(Vec x, const float (&c)[n]) {
  Vec p = splat(c[0]);
  for (int i = 1; i < n; ++i) p = fma(p, x, splat(c[i]));
  return p;
}

// exp(x) = 2^exponent (1 + tail), with x between `low` and `high`; NaN has a tail of NaN.
struct ExpParts {
  Vec tail;  // |tail| <= sqrt(2) - 1
  IntVec exponent;
};

inline ExpParts exp_parts(Vec x, float low, float high) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;  // n * kLn2High is exact
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves n in the low bits
  x = x < low ? splat(low) : x;          // not true of NaN
  x = x > high ? splat(high) : x;
  const Vec shifted = fma(x, splat(kLog2E), splat(kRound));
  const Vec n = shifted - kRound;
  const Vec r = fma(n, splat(-kLn2Low), fma(n, splat(-kLn2High), x));
  const Vec p = polynomial(
      r, {1.97902438e-4f, 1.39447593e-3f, 8.33349768e-3f, 4.16662954e-2f, 1.66666657e-1f, 0.5f});
  return {fma(p * r, r, r), bits_of(shifted) - bits_of(splat(kRound))};
}

// 2^n, for n that gives a normal number.
inline Vec power_of_two(IntVec n) { return from_bits((n + 127) << 23); }

// 2^exponent in two factors, because n = -150 (a subnormal result) and n = 128 have no float of
// their own.
inline Vec exp(Vec x) {
  const ExpParts parts = exp_parts(x, -104.0f, 89.0f);
  const IntVec half = parts.exponent >> 1;
  return (parts.tail + 1.0f) * power_of_two(half) * power_of_two(parts.exponent - half);
}

// Where it does not matter that results end at e^-87 and e^88.
inline Vec bounded_exp(Vec x) {
  const ExpParts parts = exp_parts(x, -87.0f, 88.0f);
  return (parts.tail + 1.0f) * power_of_two(parts.exponent);
}

// For x <= 88.
inline Vec expm1(Vec x) {
  const ExpParts parts = exp_parts(x, -87.0f, 88.0f);
  const Vec power = power_of_two(parts.exponent);
  return fma(parts.tail, power, power - 1.0f);
}

inline Vec tanh(Vec x) {
  const Vec s = x * x;
  const Vec p = polynomial(
      s, {-5.70260873e-3f, 2.06370428e-2f, -5.37391156e-2f, 1.33314356e-1f, -3.33332807e-1f});
  const Vec small = fma(p * s, x, x);
  const Vec large = with_sign_of(1.0f - 2.0f / (bounded_exp(2.0f * abs(x)) + 1.0f), x);
  return abs(x) < 0.625f ? small : large;
}

inline Vec erf(Vec x) {
  const Vec s = x * x, t = abs(x);
  const Vec p = polynomial(s, {-5.95161342e-4f, 4.98552155e-3f, -2.67614331e-2f, 1.12816744e-1f,
                               -3.76124799e-1f, 1.28379151e-1f});
  const Vec small = fma(p, x, x);
  // log(erfc(t))
  const Vec q = polynomial(t, {-2.12178493e-5f, 4.35883907e-4f, -4.17795870e-3f, 2.51376126e-2f,
                               -1.08308256e-1f, -6.33321285e-1f, -1.12952769f, 1.77333568e-4f});
  const Vec large = with_sign_of(1.0f - bounded_exp(q), x);
  return t < 0.93f ? small : large;
}

}  // namespace daf::DAF_ISA::math
