// What kernels do with vectors, beyond the operators they have.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof(v)); }

inline IntVec lane_numbers() {
  IntVec v;
  for (int i = 0; i < kWidth; ++i) v[i] = i;
  return v;
}

// The first n lanes; the others are 0 and not read.
inline Vec load_part(const float* p, int64_t n) {
  return load_masked(p, lane_numbers() < static_cast<int32_t>(n));
}

inline void store_part(float* p, Vec v, int64_t n) {
  store_masked(p, v, lane_numbers() < static_cast<int32_t>(n));
}

inline Vec splat(float value) { return value - Vec{}; }  // not +: -0.0 stays what it is

inline IntVec bits_of(Vec v) { return (IntVec)v; }
inline Vec from_bits(IntVec v) { return (Vec)v; }
inline Vec abs(Vec v) { return from_bits(bits_of(v) & 0x7fffffff); }

// NaN stays NaN, and a bound that is NaN stops nothing.
inline Vec clamp(Vec v, float low, float high) {
  v = v < low ? splat(low) : v;
  return v > high ? splat(high) : v;
}

// y[i] = f(x[i]), lanes at a time. y may be x.
template <class F>
void map(int64_t n, const float* x, float* y, F f) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, f(load(x + i)));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)), n - i);
}

// z[i] = f(x[i], y[i]); z may be x or y.
template <class F>
void map(int64_t n, const float* x, const float* y, float* z, F f) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(z + i, f(load(x + i), load(y + i)));
  if (i < n) store_part(z + i, f(load_part(x + i, n - i), load_part(y + i, n - i)), n - i);
}

}  // namespace daf::DAF_ISA
