#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/plane_group.h"
#include "runtime_ops/kernels/common/plane_header.h"

namespace daf::DAF_ISA {
namespace {

constexpr int64_t kCost = 2;  // of a value, in additions

template <int kPlanes>
void decode_group(uint32_t header, int bits, const uint32_t* const* plane, bool around_caches,
                  float* y) {
  const Header h = Header::of(header);
  PlaneGroup::unpack<kPlanes>(plane, h.base(bits, kPlanes), h.step(bits, kPlanes), around_caches,
                              y);
}

// Group `g` of a run. The pointer of a plane that there is not stays null.
template <int kPlanes>
void planes_of(const BitPlanes& run, int64_t g, uint32_t** plane) {
  for (int p = 0; p < kPlanes; ++p) plane[p] = run.plane[p] + g * (kPlaneGroupBytes / 4);
}

// 4 KB ahead: processors do not look beyond the end of a page for what to load next.
constexpr int64_t kGroupsAhead = 4;

void prefetch_group(const float* x) {
  constexpr int64_t kLineFloats = 16;
  for (int64_t i = 0; i < kPlaneGroup; i += kLineFloats) __builtin_prefetch(x + i);
}

// As PlaneGroup::find_range(), from what is known. A NaN is beyond both infinities.
bool take_range(const OrderedRange& range, float* minimum, float* maximum) {
  const auto value = [](uint32_t key) {
    return float_of_bits(key >> 31 != 0 ? key & 0x7fffffff : ~key);
  };
  *minimum = value(~range.not_minimum), *maximum = value(range.maximum);
  return std::isfinite(*minimum) && std::isfinite(*maximum);
}

// 256 values of x to encode group g of `to`; `range` null: not known. True when the group has to be
// kept exact.
template <int kBits>
bool encode_group(uint64_t key, const float* x, const OrderedRange* range, const BitPlanes& to,
                  int64_t g) {
  float minimum, maximum;
  Header header = {0, 0, true};
  if (range != nullptr ? take_range(*range, &minimum, &maximum)
                       : PlaneGroup::find_range(x, &minimum, &maximum)) {
    header = Header::of_range(minimum, maximum, kBits);
  }
  to.headers[g] = header.packed();
  uint32_t* plane[kMaxPlanes] = {};
  planes_of<kBits>(to, g, plane);
  if (header.is_exact) {
    for (int p = 0; p < kBits; ++p) std::memset(plane[p], 0, kPlaneGroupBytes);
  } else {
    PlaneGroup::pack<kBits>(x, header.minimum, header.inverse(), key, plane);
  }
  return header.is_exact;
}

template <int kBits>
int64_t encode(uint64_t key, int64_t first_group, int64_t n, const float* x,
               const OrderedRange* ranges, const BitPlanes& to) {
  std::atomic<int64_t> n_exact{0};
  const int64_t n_groups = (n + kPlaneGroup - 1) / kPlaneGroup;
  for_each_range(n_groups, kCost * kPlaneGroup, [&](int64_t from, int64_t last) {
    int64_t found = 0;
    for (int64_t g = from; g < last; ++g) {
      const float* values = x + g * kPlaneGroup;
      if ((g + kGroupsAhead + 1) * kPlaneGroup <= n) {
        prefetch_group(values + kGroupsAhead * kPlaneGroup);
      }
      float padded[kPlaneGroup];
      const int64_t count = std::min(kPlaneGroup, n - g * kPlaneGroup);
      if (count < kPlaneGroup) {  // with the first value: it does not change the range
        std::fill(std::copy_n(values, count, padded), padded + kPlaneGroup, values[0]);
        values = padded;
      }
      found += encode_group<kBits>(mix(key + static_cast<uint64_t>(first_group + g)), values,
                                   ranges != nullptr ? ranges + g : nullptr, to, g);
    }
    n_exact += found;
  });
  return n_exact;
}

template <int kPlanes>
void decode(const BitPlanes& from, int64_t first, int64_t n, bool around_caches, float* y) {
  const int64_t first_group = first / kPlaneGroup;
  const int64_t last_group = (first + n + kPlaneGroup - 1) / kPlaneGroup;
  for_each_range(last_group - first_group, kCost * kPlaneGroup, [&](int64_t a, int64_t b) {
    for (int64_t g = first_group + a; g < first_group + b; ++g) {
      const uint32_t header = from.headers[g];
      if ((header & kExactGroup) != 0) continue;
      uint32_t* plane[kMaxPlanes] = {};
      planes_of<kPlanes>(from, g, plane);
      const int64_t start = g * kPlaneGroup - first;  // of the group, in y
      if (start >= 0 && start + kPlaneGroup <= n) {
        decode_group<kPlanes>(header, from.bits, plane, around_caches, y + start);
      } else {
        float values[kPlaneGroup];
        decode_group<kPlanes>(header, from.bits, plane, false, values);
        const int64_t begin = std::max<int64_t>(start, 0), end = std::min(start + kPlaneGroup, n);
        std::copy(values + (begin - start), values + (end - start), y + begin);
      }
    }
    if (around_caches) PlaneGroup::finish_stores();
  });
}

using Encode = int64_t (*)(uint64_t, int64_t, int64_t, const float*, const OrderedRange*,
                           const BitPlanes&);
using Decode = void (*)(const BitPlanes&, int64_t, int64_t, bool, float*);
constexpr Encode kEncode[] = {encode<0>, encode<1>, encode<2>, encode<3>, encode<4>,
                              encode<5>, encode<6>, encode<7>, encode<8>};
constexpr Decode kDecode[] = {decode<0>, decode<1>, decode<2>, decode<3>, decode<4>,
                              decode<5>, decode<6>, decode<7>, decode<8>};

}  // namespace

int64_t bitplane_encode(const StochasticRounding& rounding, int64_t first_group, int64_t n,
                        const float* x, const BitPlanes& to) {
  return DAF_ISA::bitplane_encode_ranges(rounding, first_group, n, x, nullptr, to);
}

int64_t bitplane_encode_ranges(const StochasticRounding& rounding, int64_t first_group, int64_t n,
                               const float* x, const OrderedRange* ranges, const BitPlanes& to) {
  return kEncode[to.bits](key_of(rounding), first_group, n, x, ranges, to);
}

int64_t bitplane_headers(const StochasticRounding& rounding, int64_t first_group, int64_t n_groups,
                         int bits, const OrderedRange* ranges, uint32_t* headers,
                         GroupCode* codes) {
  const uint64_t key = key_of(rounding);
  int64_t n_exact = 0;
  for (int64_t g = 0; g < n_groups; ++g) {
    float minimum, maximum;
    Header header = {0, 0, true};
    if (take_range(ranges[g], &minimum, &maximum)) {
      header = Header::of_range(minimum, maximum, bits);
    }
    headers[g] = header.packed();
    n_exact += header.is_exact;
    const uint64_t group_key = mix(key + static_cast<uint64_t>(first_group + g));
    codes[g] = {header.minimum, header.is_exact ? -1.0f : header.inverse(),
                static_cast<uint32_t>(group_key), static_cast<uint32_t>(group_key >> 32)};
  }
  return n_exact;
}

void bitplane_decode(const BitPlanes& from, int n_planes, int64_t first, int64_t n,
                     bool around_caches, float* y) {
  kDecode[n_planes](from, first, n, around_caches, y);
}

}  // namespace daf::DAF_ISA
