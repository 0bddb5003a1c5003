#include <cmath>
#include <cstring>
#include <limits>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

uint32_t key(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000;
}

TEST(OrderedRange, OrdersWhatFloatsDoNot) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float x[] = {0.0f, -tiny, nan, 1.0f, -0.0f, -inf, tiny, -nan, inf};
  const float in_order[] = {-nan, -inf, -tiny, -0.0f, 0.0f, tiny, 1.0f, inf, nan};
  for (int i = 1; i < 9; ++i) EXPECT_LT(key(in_order[i - 1]), key(in_order[i]));
  OrderedRange range;
  ordered_ranges(9, 9, x, &range);
  EXPECT_EQ(~range.not_minimum, key(-nan));
  EXPECT_EQ(range.maximum, key(nan));
  ordered_ranges(2, 2, x, &range);
  EXPECT_EQ(~range.not_minimum, key(-tiny));
  EXPECT_EQ(range.maximum, key(0.0f));
}

TEST(OrderedRange, GroupsOfEverySize) {
  for (const int64_t n : {0, 1, 5, 255, 256, 257, 4096, 100001}) {
    const Floats x = random_floats(n, 3);
    for (const int64_t size : {1, 2, 7, 8, 31, 256, 1000, 4096}) {
      std::vector<OrderedRange> ranges((n + size - 1) / size);
      ordered_ranges(n, size, x.data(), ranges.data());
      for (size_t g = 0; g < ranges.size(); ++g) {
        uint32_t smallest = UINT32_MAX, largest = 0;
        for (int64_t i = static_cast<int64_t>(g) * size;
             i < std::min(n, static_cast<int64_t>(g + 1) * size); ++i) {
          smallest = std::min(smallest, key(x[i])), largest = std::max(largest, key(x[i]));
        }
        ASSERT_EQ(~ranges[g].not_minimum, smallest) << n << " " << size << " " << g;
        ASSERT_EQ(ranges[g].maximum, largest);
      }
    }
  }
}

}  // namespace
}  // namespace daf::testing
