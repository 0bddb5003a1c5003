#include <cstring>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

const int64_t kSizes[] = {0, 1, 7, 31, 32, 33, 63, 64, 65, 1000, 100001};

TEST(PackValues, MaskHasABitForEveryPositiveValue) {
  for (const int64_t n : kSizes) {
    const Floats x = random_floats(n, 1);
    std::vector<uint32_t> expected((n + 31) / 32), mask((n + 31) / 32, 0xdeadbeef);
    for (int64_t i = 0; i < n; ++i) expected[i / 32] |= uint32_t{x[i] > 0} << i % 32;
    positive_mask(n, x.data(), mask.data());
    EXPECT_EQ(mask, expected) << n;
  }
}

TEST(PackValues, ZerosAndNanAreNotPositive) {
  const Floats x = {0.0f, -0.0f, kNan, kInf, -kInf, 0x1p-149f};
  uint32_t mask = 0;
  positive_mask(6, x.data(), &mask);
  EXPECT_EQ(mask, 0b101000u);
}

TEST(PackValues, MaskKeepsWhatItSays) {
  for (const int64_t n : kSizes) {
    const Floats x = random_floats(n, 2), by = random_floats(n, 3);
    std::vector<uint32_t> mask((n + 31) / 32);
    positive_mask(n, by.data(), mask.data());
    Floats expected = x, y = unset_floats(n), in_place = x;
    for (int64_t i = 0; i < n; ++i) expected[i] = by[i] > 0 ? x[i] : 0;
    apply_mask(n, mask.data(), x.data(), y.data());
    apply_mask(n, mask.data(), in_place.data(), in_place.data());
    EXPECT_EQ(y, expected) << n;
    EXPECT_EQ(in_place, expected) << n;
  }
}

TEST(PackValues, MaskDropsWhatIsNotFinite) {
  const Floats x = {kNan, kInf, kNan, 4};
  const uint32_t mask = 0b1100;
  Floats y = unset_floats(4);
  apply_mask(4, &mask, x.data(), y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 4);
}

uint16_t bfloat16_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  uint16_t y = 0;
  to_bfloat16(1, &x, &y);
  return y;
}

TEST(PackValues, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(bfloat16_of(0x3f800000), 0x3f80);
  EXPECT_EQ(bfloat16_of(0x3f807fff), 0x3f80);
  EXPECT_EQ(bfloat16_of(0x3f808000), 0x3f80);  // a tie: 0x3f80 is even
  EXPECT_EQ(bfloat16_of(0x3f818000), 0x3f82);  // a tie: 0x3f81 is odd
  EXPECT_EQ(bfloat16_of(0x3f808001), 0x3f81);
  EXPECT_EQ(bfloat16_of(0x80000000), 0x8000);
  EXPECT_EQ(bfloat16_of(0x7f7fffff), 0x7f80);  // to infinity
  EXPECT_EQ(bfloat16_of(0xff800000), 0xff80);
  EXPECT_EQ(bfloat16_of(0x7f800001), 0x7fc0);  // NaN, not infinity
  EXPECT_EQ(bfloat16_of(0xffffffff), 0xffff);
}

TEST(PackValues, Bfloat16RoundTrip) {
  for (const int64_t n : kSizes) {
    const Floats x = random_floats(n, 4);
    std::vector<uint16_t> half(n), again(n);
    Floats y = unset_floats(n);
    to_bfloat16(n, x.data(), half.data());
    from_bfloat16(n, half.data(), y.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_LE(std::abs(y[i] - x[i]), std::abs(x[i]) / 256);
    to_bfloat16(n, y.data(), again.data());
    EXPECT_EQ(again, half);
  }
}

}  // namespace
}  // namespace daf::testing
