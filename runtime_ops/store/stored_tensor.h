// One tensor in the pool: where its parts lie, and how values go in and out. What may stay is not
// decided here.
//
//   headers   4 bytes per group of 256 values, or per map
//   averages  of maps only: 2 bytes per block, row-major, map by map
//   planes    32 bytes per group each, the most significant first; the last one may be dropped
//   exact     in float32, the groups or maps that no header can describe, in their order; the
//             number of each is in the lower 31 bits of its header
//
// All planes are equally large, so their boundaries are at the same groups. Those of the other
// parts are where they are: an entry of headers or averages does not cross one, a map may.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime_ops/gpu/reducer.h"
#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/store/map_layout.h"
#include "runtime_ops/store/piece.h"

namespace daf {

struct StoredTensor {
  struct Units {
    uint32_t headers, averages, plane, exact;  // `exact` for all groups or maps
  };
  static int64_t n_groups(int64_t n_elements) {
    return (n_elements + kPlaneGroup - 1) / kPlaneGroup;
  }
  static Units units(int64_t n_elements, size_t unit_bytes, const MapEncoding& map = {});
  Units units(size_t unit_bytes) const { return units(n_elements, unit_bytes, encoding()); }

  // Everything but `exact` must be there, of the planes [0, bits). Returns how many groups or maps
  // must be kept exact. `ranges`: of the groups, or null when they are not known.
  int64_t encode(const PagePool& pool, const float* x, const OrderedRange* ranges);
  // The same with a GPU that packs: pack(codes, pieces()).
  using DevicePack = std::function<void(const GroupCode* codes, const PlanePieces& to)>;
  int64_t encode_on(const PagePool& pool, const float* x, const OrderedRange* ranges,
                    const DevicePack& pack);
  int64_t encode_maps(const PagePool& pool, const float* x);
  // Numbers the marked groups or maps and copies their values; `exact` must be there.
  void keep_exact(const PagePool& pool, const float* x);
  size_t exact_bytes(int64_t n) const;  // of n groups or maps
  void decode(const PagePool& pool, int64_t first, int64_t count, float* out) const;
  void decode_maps(const PagePool& pool, int64_t first, int64_t count, float* out) const;
  // The same on a GPU: where what it needs lies, and then what it does not do.
  PlanePieces pieces(const PagePool& pool, int64_t first, int64_t count) const;
  void finish_decode(const PagePool& pool, int64_t first, int64_t count, float* out) const;

  double mean_square_range(const PagePool& pool) const;

  // What its values need, to the byte.
  size_t stored_bytes() const;

  template <class Body>
  void for_each_piece(Body body) {
    body(headers);
    body(averages);
    body(exact);
    for (Piece& plane : planes) body(plane);
  }
  template <class Body>
  void for_each_piece(Body body) const {
    const_cast<StoredTensor*>(this)->for_each_piece([&](const Piece& piece) { body(piece); });
  }

  const MapLayout* maps = nullptr;  // null: groups of 256 values
  int64_t n_elements = 0;
  int bits = 0;       // planes there are, or are to be made
  int made_bits = 0;  // planes there were when it was encoded
  int64_t n_exact = 0;
  Coding coding;  // of the first group, set before it is encoded
  Piece headers, averages, exact;
  std::array<Piece, kMaxPlanes> planes;

 private:
  struct Run {
    BitPlanes planes;
    int64_t n_groups;
  };
  MapEncoding encoding() const { return maps != nullptr ? maps->encoding() : MapEncoding(); }
  static int64_t header_elements(const MapEncoding& map) {
    return map.is_used() ? map.n_elements() : kPlaneGroup;
  }
  static int64_t n_headers(int64_t n_elements, const MapEncoding& map) {
    return (n_elements + header_elements(map) - 1) / header_elements(map);
  }
  Coding coding_at(int64_t group) const {
    return {coding.key, static_cast<uint32_t>(group), coding.form};
  }
  double error_of_squares(const PagePool& pool, int64_t group, double square_range) const;
  template <class Body>
  void for_each_header(const PagePool& pool, Body body) const;
  Run run_at(const PagePool& pool, int64_t group, int n_planes) const;
  int64_t planes_at(const PagePool& pool, int64_t group, int n_planes, BitPlanes& run) const;
  void decode_run(const PagePool& pool, const Run& run, int64_t group, int64_t first, int64_t count,
                  bool around_caches, float* out) const;
  // What is among [first, first + count) of group or map `index`, which is kept exact.
  void copy_exact(const PagePool& pool, uint32_t header, int64_t index, int64_t first,
                  int64_t count, float* out) const;
  void copy_exact_maps(const PagePool& pool, int64_t first, int64_t count, float* out) const;
};

}  // namespace daf
