#include <numeric>

#include "runtime_ops/kernels/common/reduce.h"
#include "runtime_ops/kernels/common/vec.h"
#include "tests/cpp/kernels/reference.h"

namespace daf::DAF_ISA {
namespace {

// 0, 1, 2 ... in a block of exactly that size: a sanitizer sees what is read beyond it.
std::vector<float> counting(int n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(Simd, PartsLeaveTheRestAlone) {
  for (int n = 0; n <= kWidth; ++n) {
    const std::vector<float> from = counting(n);
    const Vec v = load_part(from.data(), n);
    std::vector<float> to(kWidth, -1.0f);
    store_part(to.data(), splat(7), n);
    for (int i = 0; i < kWidth; ++i) {
      EXPECT_EQ(v[i], i < n ? i : 0);
      EXPECT_EQ(to[i], i < n ? 7 : -1);
    }
  }
}

TEST(Simd, MaskedLoadReadsItsLanesOnly) {
  const std::vector<float> from = counting(2);
  const Vec v = load_masked(from.data() - 1, (lane_numbers() >= 1) & (lane_numbers() < 3));
  for (int i = 0; i < kWidth; ++i) EXPECT_EQ(v[i], i == 2 ? 1 : 0);
}

TEST(Simd, EvenLoadTakesEverySecond) {
  const std::vector<float> from = counting(2 * kWidth - 1);
  const Vec v = load_even(from.data());
  for (int i = 0; i < kWidth; ++i) EXPECT_EQ(v[i], 2 * i);
}

TEST(Simd, Transpose) {
  Vec v[kWidth];
  for (int i = 0; i < kWidth; ++i) {
    for (int j = 0; j < kWidth; ++j) v[i][j] = static_cast<float>(10 * i + j);
  }
  transpose(v);
  for (int i = 0; i < kWidth; ++i) {
    for (int j = 0; j < kWidth; ++j) EXPECT_EQ(v[i][j], 10 * j + i);
  }
}

TEST(Simd, SquareRootAndMultiplyAdd) {
  EXPECT_EQ(sqrt(splat(9))[kWidth - 1], 3);
  EXPECT_EQ(fma(splat(2), splat(3), splat(4))[kWidth - 1], 10);
}

TEST(Simd, SumsOfEveryLength) {
  for (int n = 0; n < 70; ++n) {
    EXPECT_EQ(sum(n, counting(n).data()), n * (n - 1) / 2) << n;
  }
  // As precise as a sum in double, however long.
  const std::vector<float> tenths(1 << 20, 0.1f);
  EXPECT_NEAR(sum(1 << 20, tenths.data()) / ((1 << 20) * static_cast<double>(0.1f)), 1, 1e-6);
}

}  // namespace
}  // namespace daf::DAF_ISA
