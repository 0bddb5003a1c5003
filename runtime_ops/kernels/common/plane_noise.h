// The noise that codes are rounded with (kernels.h): one of 256 numbers for each value of a group.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "runtime_ops/kernels/common/isa.h"
#include "runtime_ops/kernels/kernels.h"

namespace daf::DAF_ISA {

// Every bit of the result depends on every bit of v.
inline uint32_t hash(uint32_t v) {
  v = (v ^ v >> 16) * 0x7feb352d;
  v = (v ^ v >> 15) * 0x846ca68b;
  return v ^ v >> 16;
}

inline uint32_t hash_of_group(const Coding& coding, uint32_t group) {
  return hash(coding.key + (coding.first_group + group) * 0x9e3779b9);
}

// For each step twice around: the noise of a group is 256 numbers of it from any place on.
inline constexpr auto kLattices = [] {
  std::array<std::array<uint8_t, 2 * kPlaneGroup>, std::size(kNoiseSteps)> lattices = {};
  for (size_t k = 0; k < lattices.size(); ++k) {
    for (uint32_t i = 0; i < lattices[k].size(); ++i) {
      lattices[k][i] = static_cast<uint8_t>(i * kNoiseSteps[k]);
    }
  }
  return lattices;
}();

struct LatticePlace {
  uint32_t start, which;  // of kNoiseSteps

  static LatticePlace of(const Coding& coding, uint32_t group) {
    const uint32_t random = hash_of_group(coding, group);
    return {random >> 24, random >> 21 & 7};
  }
};

inline const uint8_t* lattice_noise(const Coding& coding, uint32_t group) {
  const LatticePlace place = LatticePlace::of(coding, group);
  return kLattices[place.which].data() + place.start;
}

// Independent from value to value: four of them from a hash.
inline void fill_noise(const Coding& coding, uint32_t group, uint8_t* noise) {
  const uint32_t start = hash_of_group(coding, group);
  for (uint32_t i = 0; i < kPlaneGroup / 4; ++i) {
    const uint32_t four = hash(start + i * 0x9e3779b9);
    std::memcpy(noise + 4 * i, &four, sizeof(four));  // the lowest byte first: we are little-endian
  }
}

}  // namespace daf::DAF_ISA
