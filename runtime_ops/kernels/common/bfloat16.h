// The upper half of a float32.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

inline uint16_t to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  // A NaN must not be rounded to infinity or around to zero.
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>((is_nan ? bits | 0x00400000 : rounded) >> 16);
}

inline float from_bfloat16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace daf::DAF_ISA
