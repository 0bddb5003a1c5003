// The noise that codes are rounded with (kernels.h): one of 256 numbers for each value of a group.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/isa.h"
#include "runtime_ops/kernels/kernels.h"

namespace daf::DAF_ISA {

// Every bit of the result depends on every bit of v.
inline uint32_t hash(uint32_t v) {
  v = (v ^ v >> 16) * 0x7feb352d;
  v = (v ^ v >> 15) * 0x846ca68b;
  return v ^ v >> 16;
}

inline uint32_t hash_of_group(const Dither& dither, uint32_t group) {
  return hash(dither.key + (dither.first_group + group) * 0x9e3779b9);
}

// Twice around: the noise of a group is 256 numbers of it from any place on.
inline constexpr auto kLattice = [] {
  std::array<uint8_t, 2 * kPlaneGroup> lattice = {};
  for (uint32_t i = 0; i < lattice.size(); ++i) {
    lattice[i] = static_cast<uint8_t>(i * kDitherStep);
  }
  return lattice;
}();

inline uint32_t noise_start(const Dither& dither, uint32_t group) {
  return hash_of_group(dither, group) >> 24;
}

inline const uint8_t* lattice_noise(const Dither& dither, uint32_t group) {
  return kLattice.data() + noise_start(dither, group);
}

// Independent from value to value: four of them from a hash.
inline void fill_noise(const Dither& dither, uint32_t group, uint8_t* noise) {
  const uint32_t start = hash_of_group(dither, group);
  for (uint32_t i = 0; i < kPlaneGroup / 4; ++i) {
    const uint32_t four = hash(start + i * 0x9e3779b9);
    std::memcpy(noise + 4 * i, &four, sizeof(four));  // the lowest byte first: we are little-endian
  }
}

}  // namespace daf::DAF_ISA
