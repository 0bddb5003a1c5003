#include <gtest/gtest.h>

#include "runtime_ops/kernels/philox.h"

namespace daf {
namespace {

using Words = std::array<uint32_t, 4>;

// The known-answer vectors of Random123 for philox4x32-10 (counter words, key words).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox(0, 0)(0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~uint64_t{0}, ~uint64_t{0})(~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x0370734413198a2e)(0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfTheKeyCounts) {
  const Words base = Philox(1, 2)(3);
  EXPECT_NE(base, Philox(1 + (uint64_t{1} << 32), 2)(3));
  EXPECT_NE(base, Philox(1, 2 + (uint64_t{1} << 32))(3));
  EXPECT_NE(base, Philox(1, 2)(3 + (uint64_t{1} << 32)));
  EXPECT_NE(base, Philox(1, kDataOrderStream | 2)(3));
}

}  // namespace
}  // namespace daf
