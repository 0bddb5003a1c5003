#include "runtime_ops/kernels/common/math.h"
#include "tests/cpp/kernels/reference.h"

namespace daf::DAF_ISA {
namespace {

using daf::testing::kInf;
using daf::testing::kNan;

// Every 10007th float there is, of both signs.
template <class Body>
void for_each_float(Body body) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 10007) {
    const uint32_t low = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &low, sizeof(x));
    if (!std::isnan(x)) body(x);
  }
}

double ulp(double value) {
  const float magnitude = std::max(static_cast<float>(std::abs(value)), 0x1p-126f);
  return std::nextafter(magnitude, kInf) - static_cast<double>(magnitude);
}

void expect_within(double ulps, Vec (*actual)(Vec), double (*exact)(double)) {
  double worst = 0;
  float at = 0;
  for_each_float([&](float x) {
    const double e = exact(x);
    const float a = actual(splat(x))[0];
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

TEST(Math, Expm1IsPreciseBelowZero) {
  const auto negative = [](Vec x) { return math::expm1(-abs(x)); };
  expect_within(2, negative, [](double x) { return std::expm1(-std::abs(x)); });
}

TEST(Math, SpecialValues) {
  const auto at = [](Vec (*f)(Vec), float x) { return f(splat(x))[kWidth - 1]; };
  EXPECT_EQ(at(math::exp, 0), 1);
  EXPECT_EQ(at(math::exp, kInf), kInf);
  EXPECT_EQ(at(math::exp, -kInf), 0);
  EXPECT_EQ(at(math::expm1, -kInf), -1);
  EXPECT_EQ(at(math::tanh, kInf), 1);
  EXPECT_EQ(at(math::tanh, -kInf), -1);
  EXPECT_EQ(at(math::erf, kInf), 1);
  EXPECT_EQ(at(math::erf, -kInf), -1);
  for (const auto f : {math::exp, math::tanh, math::erf}) EXPECT_TRUE(std::isnan(at(f, kNan)));
  for (const auto f : {math::expm1, math::tanh, math::erf}) EXPECT_EQ(at(f, 0.0f), 0);
}

}  // namespace
}  // namespace daf::DAF_ISA
