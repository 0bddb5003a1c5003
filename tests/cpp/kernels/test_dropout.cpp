#include "runtime_ops/kernels/philox.h"
#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

Floats mask(const Dropout& rng, int64_t n) {
  const Floats ones(static_cast<size_t>(n), 1.0f);
  Floats y = unset_floats(n);
  dropout(rng, 0, n, ones.data(), y.data());
  return y;
}

double kept_share(const Floats& mask) {
  double kept = 0;
  for (float v : mask) kept += v != 0;
  return kept / static_cast<double>(mask.size());
}

TEST(Dropout, KeepsTheRightShareAndScalesIt) {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const Floats m = mask({p, 7, 3, 1}, 100000);
    EXPECT_NEAR(kept_share(m), 1 - p, 0.01);  // six standard deviations
    for (float v : m) ASSERT_TRUE(v == 0 || v == 1 / (1 - p));
  }
}

TEST(Dropout, NothingAndEverything) {
  EXPECT_EQ(mask({0, 1, 2, 3}, 1001), Floats(1001, 1.0f));
  EXPECT_EQ(mask({1, 1, 2, 3}, 1001), Floats(1001, 0.0f));
}

TEST(Dropout, SameMaskForTheSameKeyAndAnotherForAnyOther) {
  const Dropout rng = {0.5f, 1, 2, 3};
  const Floats m = mask(rng, 1000);
  EXPECT_EQ(m, mask(rng, 1000));
  for (const Dropout& other :
       {Dropout{0.5f, 9, 2, 3}, Dropout{0.5f, 1, 9, 3}, Dropout{0.5f, 1, 2, 9},
        Dropout{0.5f, 2, 1, 3}, Dropout{0.5f, 1, 3, 2}}) {
    const Floats different = mask(other, 1000);
    double agree = 0;
    for (size_t i = 0; i < m.size(); ++i) agree += m[i] == different[i];
    EXPECT_NEAR(agree / 1000, 0.5, 0.1);
  }
}

// The mask is part of what a trained model reproduces: the bits are fixed, not only their share.
TEST(Dropout, MaskComesFromTheDocumentedBits) {
  const Dropout rng = {0.25f, 0x123456789abcdef0, 5, 2};
  const Floats m = mask(rng, 10);
  for (uint64_t i = 0; i < 10; ++i) {
    const uint32_t bits = Philox(rng.seed, rng.step)(uint64_t{2} << 32 | i / 4)[i % 4];
    EXPECT_EQ(m[i] != 0, bits >= 0x40000000u) << i;
  }
}

TEST(Dropout, LengthChangesNothingBeforeIt) {
  const Floats longer = mask({0.5f, 1, 2, 3}, 9);
  for (int64_t n = 0; n < 9; ++n) {
    const Floats shorter = mask({0.5f, 1, 2, 3}, n);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  }
}

TEST(Dropout, PartsAreThoseOfTheWhole) {
  const Dropout rng = {0.5f, 1, 2, 3};
  const Floats whole = mask(rng, 200);
  for (const int64_t first : {1, 2, 3, 4, 7, 64, 101}) {
    for (const int64_t n : {1, 5, 40, 99}) {
      const Floats ones(static_cast<size_t>(n), 1.0f);
      Floats part = unset_floats(n);
      dropout(rng, first, n, ones.data(), part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first << " " << n;
    }
  }
}

TEST(Dropout, WorksInPlaceAndPropagatesNan) {
  Floats x = random_floats(50, 1);
  x[10] = kNan;
  x[11] = kNan;
  x[12] = kNan;
  Floats y = unset_floats(50), in_place = x;
  dropout({0.5f, 1, 2, 3}, 0, 50, x.data(), y.data());
  dropout({0.5f, 1, 2, 3}, 0, 50, in_place.data(), in_place.data());
  expect_close(in_place, to_doubles(y), 0);
  EXPECT_TRUE(std::isnan(y[10]) && std::isnan(y[11]) && std::isnan(y[12]));
}

}  // namespace
}  // namespace daf::testing
