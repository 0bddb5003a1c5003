#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

using Dims = std::vector<int64_t>;

Doubles reference(const Dims& sizes, uint32_t mask, double scale, const Floats& x) {
  int64_t n_out = 1;
  for (size_t d = 0; d < sizes.size(); ++d) n_out *= (mask >> d & 1) != 0 ? 1 : sizes[d];
  Doubles y(n_out);
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), out = 0, out_stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      if ((mask >> d & 1) == 0) {
        out += rest % sizes[d] * out_stride;
        out_stride *= sizes[d];
      }
      rest /= sizes[d];
    }
    y[out] += scale * x[i];
  }
  return y;
}

void check(const Dims& sizes) {
  int64_t size = 1;
  for (int64_t s : sizes) size *= s;
  const Floats x = random_floats(size, 1);
  for (uint32_t mask = 0; mask < 1u << sizes.size(); ++mask) {
    SCOPED_TRACE(::testing::Message() << sizes.size() << " axes, mask " << mask);
    const Doubles expected = reference(sizes, mask, 0.5, x);
    Floats y = unset_floats(static_cast<int64_t>(expected.size()));
    sum_axes(static_cast<int>(sizes.size()), sizes.data(), mask, 0.5f, x.data(), y.data());
    expect_close(y, expected);
  }
}

TEST(SumAxes, EverySubsetOfAxes) {
  check({});
  check({9});
  check({8, 65});
  check({3, 4, 5});
  check({2, 3, 4, 5});
  check({2, 1, 3, 1, 4});
  check({64, 1, 17});
  check({2, 2, 2, 2, 2, 2, 2, 2, 2});
}

TEST(SumAxes, EmptyAxesGiveZeros) {
  check({3, 0});
  check({0, 3});
  check({2, 0, 3});
}

TEST(SumAxes, SixteenAxes) {
  const Dims sizes(16, 1);
  const float x = 3;
  float y = 0;
  sum_axes(16, sizes.data(), 0xaaaa, 2, &x, &y);
  EXPECT_EQ(y, 6);
}

// In float this sum would stop growing at 2^24.
TEST(SumAxes, LongSumsKeepTheirPrecision) {
  const Floats x(5000000, 10.1f);
  const int64_t sizes[] = {5000000};
  float y = 0;
  sum_axes(1, sizes, 1, 1, x.data(), &y);
  EXPECT_NEAR(y, 5000000 * static_cast<double>(10.1f), 4);
}

TEST(SumAxes, NanAndInf) {
  const Floats x = {1, kNan, kInf, 2, kInf, -kInf};
  const int64_t sizes[] = {3, 2};
  Floats y(3);
  sum_axes(2, sizes, 2, 1, x.data(), y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInf);
  EXPECT_TRUE(std::isnan(y[2]));
}

}  // namespace
}  // namespace daf::testing
