// exp, tanh and erf as polynomials without branches, so that loops over them are vectorised;
// calls into libm are not. Within 2 ulp of the true value (erf within 3), exact at 0 and at
// infinity, NaN for NaN. The coefficients are minimax fits of relative error.
#pragma once

#include <cstdint>
#include <cstring>

namespace daf::math {

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float abs(float x) { return from_bits(to_bits(x) & 0x7fffffffu); }

inline float with_sign_of(float magnitude, float sign) {
  return from_bits(to_bits(magnitude) | (to_bits(sign) & 0x80000000u));
}

// exp(x) = 2^n exp(r) with |r| <= ln(2) / 2.
inline float exp(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;  // n * kLn2High is exact
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves n in the low bits
  x = x < -104.0f ? -104.0f : x;         // beyond these the result is 0 or inf; NaN passes
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.97902438e-4f;
  p = p * r + 1.39447593e-3f;
  p = p * r + 8.33349768e-3f;
  p = p * r + 4.16662954e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 0.5f;
  const float y = (p * r * r + r) + 1.0f;
  // 2^n in two factors: n = -150 (a subnormal result) and n = 128 have no float of their own.
  const uint32_t exponent = to_bits(shifted) - to_bits(kRound);
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(exponent) >> 1);
  return y * from_bits((half + 127u) << 23) * from_bits((exponent - half + 127u) << 23);
}

inline float tanh(float x) {
  const float s = x * x;
  float p = -5.70260873e-3f;
  p = p * s + 2.06370428e-2f;
  p = p * s - 5.37391156e-2f;
  p = p * s + 1.33314356e-1f;
  p = p * s - 3.33332807e-1f;
  const float small = p * s * x + x;
  const float large = with_sign_of(1.0f - 2.0f / (exp(2.0f * abs(x)) + 1.0f), x);
  return abs(x) < 0.625f ? small : large;
}

inline float erf(float x) {
  const float s = x * x, t = abs(x);
  float p = -5.95161342e-4f;
  p = p * s + 4.98552155e-3f;
  p = p * s - 2.67614331e-2f;
  p = p * s + 1.12816744e-1f;
  p = p * s - 3.76124799e-1f;
  p = p * s + 1.28379151e-1f;
  const float small = p * x + x;
  float q = -2.12178493e-5f;  // log(erfc(t))
  q = q * t + 4.35883907e-4f;
  q = q * t - 4.17795870e-3f;
  q = q * t + 2.51376126e-2f;
  q = q * t - 1.08308256e-1f;
  q = q * t - 6.33321285e-1f;
  q = q * t - 1.12952769f;
  q = q * t + 1.77333568e-4f;
  const float large = with_sign_of(1.0f - exp(q), x);
  return t < 0.93f ? small : large;
}

}  // namespace daf::math
