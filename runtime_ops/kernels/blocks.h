// Sizes of the blocks a matrix product is made in (gemm_driver.h), the same for all instruction
// sets: a panel of B (kKc deep) stays in L1, a block of A (kMc x kKc) and of C in L2, a block of
// B (kKc x kNc) in L2 or L3.
#pragma once

#include <cstdint>

namespace daf {

inline constexpr int64_t kMc = 192, kKc = 320, kNc = 384;
inline constexpr int64_t kCFloats = 1 << 16;
inline constexpr int64_t kMaxPanelFloats = (kMc + kNc) * kKc + 32;  // of one thread

}  // namespace daf
