#include <algorithm>

#include "tests/cpp/kernels/reference.h"
#include "tests/cpp/kernels/strides.h"

namespace daf::testing {
namespace {

void check(const Dims& sizes, const Dims& a_strides, const Dims& b_strides) {
  const int64_t n = product(sizes);
  const Floats a = random_floats(n, 1), b = random_floats(n, 2, 0.5f, 2.0f);
  for (const Arithmetic kind :
       {Arithmetic::kAdd, Arithmetic::kSubtract, Arithmetic::kMultiply, Arithmetic::kDivide}) {
    Floats y = unset_floats(n);
    arithmetic(kind, static_cast<int>(sizes.size()), sizes.data(), a_strides.data(),
               b_strides.data(), a.data(), b.data(), y.data());
    Doubles expected(n);
    for (int64_t i = 0; i < n; ++i) {
      const double v = a[place(sizes, a_strides, i)], w = b[place(sizes, b_strides, i)];
      expected[i] = kind == Arithmetic::kAdd        ? v + w
                    : kind == Arithmetic::kSubtract ? v - w
                    : kind == Arithmetic::kMultiply ? v * w
                                                    : v / w;
    }
    expect_close(y, expected, 1e-6);
  }
}

TEST(Arithmetic, SameShape) {
  check({}, {}, {});
  for (int64_t n : {1, 7, 8, 9, 40001}) check({n}, {1}, {1});
  check({3, 5, 7}, {35, 7, 1}, {35, 7, 1});
}

TEST(Arithmetic, Broadcast) {
  check({5, 33}, {33, 1}, {0, 1});
  check({5, 33}, {33, 1}, {1, 0});
  check({5, 33}, {0, 1}, {1, 0});
  check({40, 3}, {0, 0}, {3, 1});
  check({2, 3, 4, 9}, {108, 36, 9, 1}, {9, 0, 0, 1});
  check({2, 3, 4, 9}, {108, 36, 9, 1}, {0, 1, 0, 0});
  check({4, 1, 6}, {6, 6, 1}, {0, 0, 0});
  check({6, 5}, {0, 0}, {0, 0});
}

TEST(Arithmetic, NanAndInfPropagate) {
  const int64_t n = 9, each = 1, same = 0;
  Floats x(n, kInf), y = unset_floats(n);
  x[4] = kNan;
  const float zero = 0;
  arithmetic(Arithmetic::kMultiply, 1, &n, &each, &same, x.data(), &zero, y.data());
  for (float v : y) EXPECT_TRUE(std::isnan(v));
  arithmetic(Arithmetic::kDivide, 1, &n, &same, &each, &zero, x.data(), y.data());
  for (int64_t i = 0; i < n; ++i) EXPECT_TRUE(i == 4 ? std::isnan(y[i]) : y[i] == 0);
}

TEST(Arithmetic, ClampedSums) {
  for (const int64_t n : {0, 7, 8, 40001}) {
    Floats a = random_floats(n, 1), b = random_floats(n, 2), y = unset_floats(n);
    Doubles expected(n);
    for (int64_t i = 0; i < n; ++i) {
      expected[i] = std::min(std::max(static_cast<double>(a[i] + b[i]), -0.5), 0.25);
    }
    add_clamped(n, -0.5f, 0.25f, a.data(), b.data(), y.data());
    expect_close(y, expected, 0);
  }
  const float nan = kNan, one = 1;
  float y = 0;
  add_clamped(1, 0, kNoBound, &nan, &one, &y);
  EXPECT_TRUE(std::isnan(y));
}

}  // namespace
}  // namespace daf::testing
