// How work is divided among workgroups, for all GPU backends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime_ops/gpu/reducer.h"

namespace daf {

inline constexpr uint32_t kMaxWorkgroups = 65535;  // what every device allows

inline uint32_t divide(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

// Of n values; a multiple of four.
inline uint32_t values_per_workgroup(uint32_t n, uint32_t workgroup) {
  constexpr uint32_t kValuesPerLane = 16;
  return divide(std::max(workgroup * kValuesPerLane, divide(n, kMaxWorkgroups)), 4) * 4;
}

// How many values, then ranges, the passes of a tree read, down to the one that the last leaves.
inline std::vector<uint32_t> tree_counts(uint32_t n, uint32_t workgroup) {
  std::vector<uint32_t> counts = {n};
  do {
    counts.push_back(divide(counts.back(), values_per_workgroup(counts.back(), workgroup)));
  } while (counts.back() > 1);
  return counts;
}

// Lanes that share a group: eight values each, so that many groups fit in a workgroup.
inline uint32_t lanes_of_group(uint32_t group_size, uint32_t workgroup) {
  uint32_t lanes = 1;
  while (lanes * 8 < group_size && lanes < workgroup) lanes *= 2;
  return lanes;
}

inline std::vector<Variant> gpu_variants(const ReduceDevice& device, ReduceOp op) {
  if (op == ReduceOp::kDecode) return {{device.backend, false, false, false}};
  std::vector<Variant> variants;
  for (const bool uses_subgroups : {false, true}) {
    if (uses_subgroups && device.subgroup_size == 0) continue;
    for (const bool is_vec4 : {false, true}) {
      variants.push_back({device.backend, false, is_vec4, uses_subgroups});
      if (op == ReduceOp::kRange)
        variants.push_back({device.backend, true, is_vec4, uses_subgroups});
    }
  }
  if (op == ReduceOp::kRanges && device.can_pack) {
    variants.push_back({device.backend, false, true, true, true});
  }
  return variants;
}

// ---- bit-planes that must be copied
// --------------------------------------------------------------

// Of part i: headers or a plane of one piece.
inline size_t part_bytes(const PlanePieces& from, size_t i) {
  const auto piece = static_cast<int64_t>(i) / (1 + from.n_planes);
  const bool is_headers = static_cast<int64_t>(i) % (1 + from.n_planes) == 0;
  const int64_t n_groups =
      std::min(from.groups_per_piece, from.n_groups() - piece * from.groups_per_piece);
  return static_cast<size_t>(n_groups * (is_headers ? 4 : kPlaneGroupBytes));
}

// body(part, size_bytes) for the planes of every piece, without the headers.
template <class Body>
void for_each_plane(const PlanePieces& pieces, Body body) {
  for (size_t i = 0; i < pieces.parts.size(); ++i) {
    if (static_cast<int64_t>(i) % (1 + pieces.n_planes) != 0) body(i, part_bytes(pieces, i));
  }
}

inline size_t plane_bytes(const PlanePieces& from) {
  return static_cast<size_t>(from.n_groups() * (4 + from.n_planes * kPlaneGroupBytes));
}

// One part after the other to `words`; `places` gets where each is. Returns the bytes written.
inline size_t copy_planes(const PlanePieces& from, uint32_t* words, uint32_t* places) {
  uint32_t place = 0;
  for (size_t i = 0; i < from.parts.size(); ++i) {
    const size_t size_bytes = part_bytes(from, i);
    std::memcpy(words + place, from.parts[i], size_bytes);
    places[i] = place;
    place += static_cast<uint32_t>(size_bytes / 4);
  }
  return size_t{place} * 4;
}

}  // namespace daf
