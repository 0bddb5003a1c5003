// Winograd's minimal filtering F(4x4, 3x3): 4 x 4 outputs of a 3 x 3 filter from a patch of 6 x 6
// inputs with 36 multiplications per channel instead of 144. With
//
//   V = B^T patch B,  U = G filter G^T,  T = A tile A^T    (all 6 x 6)
//
// a tile of outputs is A^T (sum over channels of U * V) A, and the gradient of a filter is
// G^T (sum over tiles of T * V) G. The matrices evaluate polynomials at 0, +-a, +-b and infinity;
// a = sqrt(1/2) and b = sqrt(2) halve the rounding errors of the usual 1 and 2 (a square root of
// the mean square of 8e-7 of the outputs and 1.2e-6 of the filters' gradients, where sums of
// products in order have 2e-7 and 5e-7).
//
// Every function transforms one row or column: `apply` makes both of it.
#pragma once

#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA::winograd {

constexpr int kTile = 4, kFilter = 3, kPatch = kTile + kFilter - 1, kPositions = kPatch * kPatch;
constexpr float kA = 0.70710678f, kB = 1.41421356f;  // a^2 = 1/2, b^2 = 2

inline Vec scaled_sum(Vec x, float factor, Vec y) { return fma(splat(factor), y, x); }

struct PatchTransform {  // B^T
  static constexpr int kIn = kPatch, kOut = kPatch;
  static void run(const Vec (&x)[kIn], Vec (&y)[kOut]) {
    const Vec even_a = scaled_sum(x[4], -2.0f, x[2]), odd_a = scaled_sum(x[3], -2.0f, x[1]);
    const Vec even_b = scaled_sum(x[4], -0.5f, x[2]), odd_b = scaled_sum(x[3], -0.5f, x[1]);
    y[0] = scaled_sum(x[0] + x[4], -2.5f, x[2]);
    y[1] = scaled_sum(even_a, kA, odd_a);
    y[2] = scaled_sum(even_a, -kA, odd_a);
    y[3] = scaled_sum(even_b, kB, odd_b);
    y[4] = scaled_sum(even_b, -kB, odd_b);
    y[5] = scaled_sum(x[1] + x[5], -2.5f, x[3]);
  }
};

struct FilterTransform {  // G
  static constexpr int kIn = kFilter, kOut = kPatch;
  static void run(const Vec (&x)[kIn], Vec (&y)[kOut]) {
    constexpr float kScaleA = -2.0f / 3, kScaleB = 1.0f / 6;
    const Vec even_a = scaled_sum(x[0], 0.5f, x[2]) * kScaleA, odd_a = x[1] * (kA * kScaleA);
    const Vec even_b = scaled_sum(x[0], 2.0f, x[2]) * kScaleB, odd_b = x[1] * (kB * kScaleB);
    y[0] = x[0];
    y[1] = even_a + odd_a;
    y[2] = even_a - odd_a;
    y[3] = even_b + odd_b;
    y[4] = even_b - odd_b;
    y[5] = x[2];
  }
};

struct FilterGradient {  // G^T
  static constexpr int kIn = kPatch, kOut = kFilter;
  static void run(const Vec (&x)[kIn], Vec (&y)[kOut]) {
    constexpr float kScaleA = -2.0f / 3, kScaleB = 1.0f / 6;
    const Vec sum_a = (x[1] + x[2]) * kScaleA, sum_b = (x[3] + x[4]) * kScaleB;
    y[0] = x[0] + (sum_a + sum_b);
    y[1] = scaled_sum((x[1] - x[2]) * (kA * kScaleA), kB * kScaleB, x[3] - x[4]);
    y[2] = scaled_sum(scaled_sum(x[5], 0.5f, sum_a), 2.0f, sum_b);
  }
};

struct TileTransform {  // A
  static constexpr int kIn = kTile, kOut = kPatch;
  static void run(const Vec (&x)[kIn], Vec (&y)[kOut]) {
    const Vec even_a = scaled_sum(x[0], 0.5f, x[2]), odd_a = scaled_sum(x[1], 0.5f, x[3]);
    const Vec even_b = scaled_sum(x[0], 2.0f, x[2]), odd_b = scaled_sum(x[1], 2.0f, x[3]);
    y[0] = x[0];
    y[1] = scaled_sum(even_a, kA, odd_a);
    y[2] = scaled_sum(even_a, -kA, odd_a);
    y[3] = scaled_sum(even_b, kB, odd_b);
    y[4] = scaled_sum(even_b, -kB, odd_b);
    y[5] = x[3];
  }
};

struct OutputTransform {  // A^T
  static constexpr int kIn = kPatch, kOut = kTile;
  static void run(const Vec (&x)[kIn], Vec (&y)[kOut]) {
    const Vec sum_a = x[1] + x[2], sum_b = x[3] + x[4];
    const Vec difference_a = (x[1] - x[2]) * kA, difference_b = (x[3] - x[4]) * kB;
    y[0] = x[0] + (sum_a + sum_b);
    y[1] = difference_a + difference_b;
    y[2] = scaled_sum(sum_a * 0.5f, 2.0f, sum_b);
    y[3] = scaled_sum(scaled_sum(x[5], 0.5f, difference_a), 2.0f, difference_b);
  }
};

// `row(i, values)` gives row i of the matrix; write(i, j, v) takes element (i, j) of the result.
template <class Transform, class Row, class Write>
inline __attribute__((always_inline)) void apply(Row row, Write write) {
  constexpr int kIn = Transform::kIn, kOut = Transform::kOut;
  Vec columns[kOut][kIn];
#pragma GCC unroll 6
  for (int i = 0; i < kIn; ++i) {
    Vec x[kIn], y[kOut];
    row(i, x);
    Transform::run(x, y);
#pragma GCC unroll 6
    for (int j = 0; j < kOut; ++j) columns[j][i] = y[j];
  }
#pragma GCC unroll 6
  for (int j = 0; j < kOut; ++j) {
    Vec y[kOut];
    Transform::run(columns[j], y);
#pragma GCC unroll 6
    for (int i = 0; i < kOut; ++i) write(i, j, y[i]);
  }
}

}  // namespace daf::DAF_ISA::winograd
