#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

const int64_t kSizes[] = {0, 1, 7, 31, 32, 33, 63, 64, 65, 1000, 100001};

struct Case {
  Activation kind;
  float a, b, slope;
};
const Case kCases[] = {{Activation::kRelu, 0, 0, 0},
                       {Activation::kHardtanh, -0.5f, 0.5f, 0},
                       {Activation::kLeakyRelu, 0.1f, 0, 0.1f}};

std::vector<uint32_t> unset_mask(int64_t n) {
  return std::vector<uint32_t>(static_cast<size_t>((n + 31) / 32), 0xdeadbeef);
}

// What backward reads of x and y.
const Floats& saved_of(const Case& c, const Floats& x, const Floats& y) {
  return c.kind == Activation::kRelu ? y : x;
}

TEST(ActivationMask, GivesTheValueAndTheGradientOfTheActivation) {
  for (const Case& c : kCases) {
    for (const int64_t n : kSizes) {
      const Floats x = random_floats(n, 1), grad = random_floats(n, 2);
      Floats expected = unset_floats(n), y = unset_floats(n);
      auto mask = unset_mask(n);
      activation(c.kind, c.a, c.b, n, x.data(), expected.data());
      activation_with_mask(c.kind, c.a, c.b, n, x.data(), y.data(), mask.data());
      EXPECT_EQ(y, expected) << n;
      if (n % 32 != 0) {
        EXPECT_EQ(mask.back() >> n % 32, 0u) << "bits beyond n";
      }

      Floats grad_x = unset_floats(n), in_place = grad;
      activation_backward(c.kind, c.a, c.b, n, grad.data(), saved_of(c, x, y).data(),
                          expected.data());
      apply_mask(n, mask.data(), 0, c.slope, grad.data(), grad_x.data());
      apply_mask(n, mask.data(), 0, c.slope, in_place.data(), in_place.data());
      EXPECT_EQ(grad_x, expected) << n;
      EXPECT_EQ(in_place, expected) << n;
    }
  }
}

TEST(ActivationMask, SendsWhatIsNotFiniteWhereTheActivationDoes) {
  const Floats x = {kNan, kInf, -kInf, 0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 1, -1};
  const auto n = static_cast<int64_t>(x.size());
  const Floats grad = random_floats(n, 3);
  for (const Case& c : kCases) {
    Floats y = unset_floats(n), expected = unset_floats(n), found = unset_floats(n);
    auto mask = unset_mask(n);
    activation_with_mask(c.kind, c.a, c.b, n, x.data(), y.data(), mask.data());
    activation_backward(c.kind, c.a, c.b, n, grad.data(), saved_of(c, x, y).data(),
                        expected.data());
    apply_mask(n, mask.data(), 0, c.slope, grad.data(), found.data());
    EXPECT_EQ(found, expected);
  }
}

TEST(ActivationMask, DropsWhatIsNotFinite) {
  const Floats x = {kNan, kInf, kNan, 4};
  const uint32_t mask = 0b1100;
  Floats y = unset_floats(4);
  apply_mask(4, &mask, 0, 0.0f, x.data(), y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 4);
}

TEST(ActivationMask, PartsMayBeginAtAnyBit) {
  constexpr int64_t kN = 5000;
  const Floats x = random_floats(kN, 4), by = random_floats(kN, 5);
  Floats ignored = unset_floats(kN), whole = unset_floats(kN);
  auto mask = unset_mask(kN);
  activation_with_mask(Activation::kRelu, 0, 0, kN, by.data(), ignored.data(), mask.data());
  apply_mask(kN, mask.data(), 0, 0.0f, x.data(), whole.data());
  for (const int64_t first : {1, 31, 32, 33, 777}) {
    for (const int64_t n : {int64_t{1}, int64_t{30}, int64_t{32}, int64_t{65}, kN - first}) {
      Floats part = unset_floats(n);
      apply_mask(n, mask.data(), first, 0.0f, x.data() + first, part.data());
      EXPECT_EQ(part, Floats(whole.begin() + first, whole.begin() + first + n)) << first;
    }
  }
}

TEST(ActivationMask, AddsTo) {
  for (const int64_t n : kSizes) {
    const Floats x = random_floats(n, 6);
    Floats y = random_floats(n, 7), expected = y;
    for (int64_t i = 0; i < n; ++i) expected[i] += x[i];
    add_to(n, x.data(), y.data());
    EXPECT_EQ(y, expected);
  }
}

}  // namespace
}  // namespace daf::testing
