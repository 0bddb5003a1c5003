// One tensor in the pool: where its parts lie, and how values go in and out. What may stay is not
// decided here.
//
//   headers   4 bytes per group of 256 values
//   planes    32 bytes per group each, the most significant first; the last one may be dropped
//   exact     1 KB for each group that the planes cannot hold, in the order of the groups; its
//             number there is in the lower 31 bits of its header
//
// All planes are equally large, so their boundaries are at the same groups. An encoding with
// another part beside the planes (one that may not be dropped) would add its piece here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime_ops/gpu/reducer.h"
#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/store/piece.h"

namespace daf {

struct StoredTensor {
  static constexpr int64_t kExactBytes = kPlaneGroup * static_cast<int64_t>(sizeof(float));

  struct Units {
    uint32_t headers, plane, exact;  // `exact` for all groups
  };
  static int64_t n_groups(int64_t n_elements) {
    return (n_elements + kPlaneGroup - 1) / kPlaneGroup;
  }
  static Units units(int64_t n_elements, size_t unit_bytes);

  // The planes [0, bits) must be there. Returns how many groups must be kept exact.
  // `ranges`: of the groups, or null when they are not known.
  int64_t encode(const PagePool& pool, const StochasticRounding& rounding, const float* x,
                 const OrderedRange* ranges);
  // The same with a GPU that packs: pack(codes, pieces()).
  using DevicePack = std::function<void(const GroupCode* codes, const PlanePieces& to)>;
  int64_t encode_on(const PagePool& pool, const StochasticRounding& rounding, const float* x,
                    const OrderedRange* ranges, const DevicePack& pack);
  // Numbers the marked groups and copies their values; `exact` must be there.
  void keep_exact_groups(const PagePool& pool, const float* x);
  void decode(const PagePool& pool, int64_t first, int64_t count, float* out) const;
  // The same on a GPU: where what it needs lies, and then what it does not do.
  PlanePieces pieces(const PagePool& pool, int64_t first, int64_t count) const;
  void finish_decode(const PagePool& pool, int64_t first, int64_t count, float* out) const;

  double mean_square_range(const PagePool& pool) const;

  // What its values need, to the byte.
  size_t stored_bytes() const;

  template <class Body>
  void for_each_piece(Body body) {
    body(headers);
    body(exact);
    for (Piece& plane : planes) body(plane);
  }
  template <class Body>
  void for_each_piece(Body body) const {
    const_cast<StoredTensor*>(this)->for_each_piece([&](const Piece& piece) { body(piece); });
  }

  int64_t n_elements = 0;
  int bits = 0;       // planes there are, or are to be made
  int made_bits = 0;  // planes there were when it was encoded
  int64_t n_exact = 0;
  Piece headers, exact;
  std::array<Piece, kMaxPlanes> planes;

 private:
  struct Run {
    BitPlanes planes;
    int64_t n_groups;
  };
  Run run_at(const PagePool& pool, int64_t group, int n_planes) const;
  void decode_run(const PagePool& pool, const Run& run, int64_t group, int64_t first, int64_t count,
                  bool around_caches, float* out) const;
  void copy_exact(const PagePool& pool, uint32_t header, int64_t group, int64_t first,
                  int64_t count, float* out) const;
};

}  // namespace daf
