#include "reference.h"
#include "runtime_ops/kernels/scalar/math.h"

namespace daf::testing {
namespace {

// Every 10007th float there is, of both signs.
template <class Body>
void for_each_float(Body body) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 10007) {
    const float x = math::from_bits(static_cast<uint32_t>(bits));
    if (!std::isnan(x)) body(x);
  }
}

double ulp(double value) {
  const float magnitude = std::max(static_cast<float>(std::abs(value)), 0x1p-126f);
  return std::nextafter(magnitude, kInf) - static_cast<double>(magnitude);
}

void expect_within(double ulps, float (*actual)(float), double (*exact)(double)) {
  double worst = 0;
  float at = 0;
  for_each_float([&](float x) {
    const double e = exact(x);
    const float a = actual(x);
    if (static_cast<float>(e) == a) return;  // also inf
    const double error = std::abs(a - e) / ulp(e);
    if (!(error <= worst)) {
      worst = error;
      at = x;
    }
  });
  EXPECT_LE(worst, ulps) << "at " << at;
}

TEST(Math, WithinAFewUlpOverAllFloats) {
  expect_within(2, math::exp, std::exp);
  expect_within(2, math::tanh, std::tanh);
  expect_within(3, math::erf, std::erf);
}

TEST(Math, SpecialValues) {
  EXPECT_EQ(math::exp(0), 1);
  EXPECT_EQ(math::exp(kInf), kInf);
  EXPECT_EQ(math::exp(-kInf), 0);
  EXPECT_EQ(math::tanh(kInf), 1);
  EXPECT_EQ(math::tanh(-kInf), -1);
  EXPECT_EQ(math::erf(kInf), 1);
  EXPECT_EQ(math::erf(-kInf), -1);
  for (const auto f : {math::exp, math::tanh, math::erf}) EXPECT_TRUE(std::isnan(f(kNan)));
  for (const auto f : {math::tanh, math::erf}) EXPECT_EQ(f(0.0f), 0);
}

}  // namespace
}  // namespace daf::testing
