// What is done to a group of 256 values before it is rounded to codes, and undone after it is read:
// PlaneForm in kernels.h. Nothing here may be contracted to a fused multiply-add (see
// CMakeLists.txt).
#pragma once

#include <array>
#include <cstdint>

#include "runtime_ops/kernels/common/vec.h"
#include "runtime_ops/kernels/kernels.h"

namespace daf::DAF_ISA {

// Sums and differences of the vectors that are `stride` apart.
template <int kCount>
void butterflies(Vec (&v)[kCount], int stride) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    if ((i & stride) != 0) continue;
    const Vec a = v[i], b = v[i + stride];
    v[i] = a + b;
    v[i + stride] = a - b;
  }
}

// The Hadamard transform of 256 values, not scaled: twice is 256 times the values. The order of the
// sums is the same on every instruction set: strides of 8 to 128, then 1 to 4.
inline void hadamard(float* y) {
  for (int i = 0; i < kPlaneGroup; i += i % 8 + kWidth < 8 ? kWidth : 64 - i % 8) {
    Vec v[8];
    for (int k = 0; k < 8; ++k) v[k] = load(y + i + 8 * k);
    for (const int stride : {1, 2, 4}) butterflies(v, stride);
    for (int k = 0; k < 8; ++k) store(y + i + 8 * k, v[k]);
  }
  for (int i = 0; i < 64; i += kWidth) {
    Vec v[4];
    for (int k = 0; k < 4; ++k) v[k] = load(y + i + 64 * k);
    for (const int stride : {1, 2}) butterflies(v, stride);
    for (int k = 0; k < 4; ++k) store(y + i + 64 * k, v[k]);
  }
  for (int i = 0; i < kPlaneGroup; i += kWidth * kWidth) {
    Vec v[kWidth];
    for (int k = 0; k < kWidth; ++k) v[k] = load(y + i + kWidth * k);
    transpose(v);
    for (int stride = 1; stride < kWidth; stride *= 2) butterflies(v, stride);
    transpose(v);
    for (int stride = kWidth; stride < 8; stride *= 2) butterflies(v, stride / kWidth);
    for (int k = 0; k < kWidth; ++k) store(y + i + kWidth * k, v[k]);
  }
}

// Signs keep what groups have in common, as a mean, from meeting in one sum. With 1/16, the
// transform and its inverse both keep lengths.
inline constexpr auto kTurn = [] {
  std::array<float, kPlaneGroup> turn = {};
  uint32_t state = 1;
  for (float& factor : turn) {
    state = state * 1664525 + 1013904223;
    factor = (state >> 31) != 0 ? 1.0f / 16 : -1.0f / 16;
  }
  return turn;
}();

template <class F>
void for_each_vector(F f) {
  for (int i = 0; i < kPlaneGroup; i += kWidth) f(i);
}

inline void rotate(const float* x, float* y) {
  for_each_vector([&](int i) { store(y + i, load(x + i) * load(kTurn.data() + i)); });
  hadamard(y);
}

// `x` is overwritten.
inline void rotate_back(float* x, float* y) {
  hadamard(x);
  for_each_vector([&](int i) { store(y + i, load(x + i) * load(kTurn.data() + i)); });
}

// NaN stays NaN, and a negative number becomes one.
inline void take_roots(const float* x, float* y) {
  for_each_vector([&](int i) { store(y + i, sqrt(load(x + i))); });
}

// `variance` is that of the roots: the mean of their squares is so much too large.
inline void take_squares(const float* x, float variance, float* y) {
  for_each_vector([&](int i) {
    const Vec v = load(x + i);
    store(y + i, v * v - variance);
  });
}

}  // namespace daf::DAF_ISA
