#include <cstring>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

const int64_t kSizes[] = {0, 1, 7, 31, 32, 33, 63, 64, 65, 1000, 100001};

uint16_t bfloat16_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  uint16_t y = 0;
  to_bfloat16(1, &x, &y);
  return y;
}

TEST(Bfloat16, RoundsToNearestEven) {
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

TEST(Bfloat16, RoundTrip) {
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
