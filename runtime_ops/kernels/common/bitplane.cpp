#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/plane_forms.h"
#include "runtime_ops/kernels/common/plane_group.h"
#include "runtime_ops/kernels/common/plane_header.h"
#include "runtime_ops/kernels/common/plane_noise.h"

namespace daf::DAF_ISA {
namespace {

constexpr int64_t kCost = 2;  // of a value, in additions
constexpr int64_t kGroupWords = kPlaneGroupBytes / 4;

template <int kPlanes>
void decode_group(const BitPlanes& from, int64_t g, bool around_caches, float* y) {
  const Header h = Header::of(from.headers[g]);
  const uint32_t* plane[kMaxPlanes] = {};
  for (int p = 0; p < kPlanes; ++p) plane[p] = from.plane[p] + g * kGroupWords;
  const float step = h.step(from.bits, kPlanes);
  const auto unpack = [&](bool is_dithered, bool streams, float* to) {
    if (is_dithered && kPlanes > 0) {
      PlaneGroup::unpack_dithered<kPlanes>(
          plane, from.bits - kPlanes, lattice_noise(from.coding, static_cast<uint32_t>(g)),
          h.dithered_base(from.bits, kPlanes), h.dithered_step(), streams, to);
    } else {
      PlaneGroup::unpack<kPlanes>(plane, h.base(from.bits, kPlanes), step, streams, to);
    }
  };
  alignas(64) float made[kPlaneGroup];
  switch (from.coding.form) {
    case PlaneForm::kPlain:
      return unpack(false, around_caches, y);
    case PlaneForm::kDithered:
      return unpack(true, around_caches, y);
    case PlaneForm::kRotated:
      unpack(true, false, made);
      return rotate_back(made, y);
    case PlaneForm::kRoots:
      unpack(true, false, made);
      return take_squares(made, step * step * (1.0f / 12), y);
  }
}

struct Range {
  float minimum, maximum;  // an infinite maximum where one of the values is not finite
};

Range range_of(const float* x) {
  Range range;
  if (!PlaneGroup::find_range(x, &range.minimum, &range.maximum)) return {0, HUGE_VALF};
  return range;
}

// A NaN is beyond both infinities.
Range range_of(const OrderedRange& range) {
  const auto value = [](uint32_t key) {
    return float_of_bits(key >> 31 != 0 ? key & 0x7fffffff : ~key);
  };
  const float minimum = value(~range.not_minimum), maximum = value(range.maximum);
  if (!std::isfinite(minimum) || !std::isfinite(maximum)) return {0, HUGE_VALF};
  return {minimum, maximum};
}

// What happens to a group before it is encoded; null: nothing.
using Change = void (*)(const float* x, float* y);
Change change_of(PlaneForm form) {
  if (form == PlaneForm::kRotated) return rotate;
  return form == PlaneForm::kRoots ? take_roots : nullptr;
}

constexpr int64_t kGroupsAtOnce = 8;

// Planes start where pages do, so the same group of all of them competes for the same few places in
// the caches: groups are made beside that, and brought to one plane after the other.
template <int kBits>
int64_t encode_groups(const float* x, int64_t n_groups, const OrderedRange* ranges,
                      bool around_caches, const BitPlanes& to, int64_t first) {
  alignas(64) float changed[kGroupsAtOnce * kPlaneGroup];
  if (const auto change = change_of(to.coding.form); change != nullptr) {
    for (int64_t g = 0; g < n_groups; ++g) change(x + g * kPlaneGroup, changed + g * kPlaneGroup);
    x = changed;
    ranges = nullptr;
  }
  Range range[kGroupsAtOnce] = {};
  for (int64_t g = 0; g < n_groups; ++g) {
    range[g] = ranges != nullptr ? range_of(ranges[g]) : range_of(x + g * kPlaneGroup);
  }
  float minimum[kGroupsAtOnce], inverse[kGroupsAtOnce];
  uint32_t packed[kGroupsAtOnce];
  for (int64_t g = 0; g < kGroupsAtOnce; ++g) {
    const Header header = Header::of_range(range[g].minimum, range[g].maximum, kBits);
    minimum[g] = header.minimum;
    inverse[g] = header.inverse();
    packed[g] = header.packed();
  }
  alignas(64) uint32_t made[std::max(kBits, 1)][kGroupsAtOnce * kGroupWords];
  int64_t n_exact = 0;
  for (int64_t g = 0; g < n_groups; ++g) {
    uint32_t* plane[kMaxPlanes] = {};
    for (int p = 0; p < kBits; ++p) plane[p] = made[p] + g * kGroupWords;
    to.headers[first + g] = packed[g];
    if ((packed[g] & kExactGroup) != 0) {
      for (int p = 0; p < kBits; ++p) std::memset(plane[p], 0, kPlaneGroupBytes);
      ++n_exact;
    } else {
      PlaneGroup::pack<kBits>(x + g * kPlaneGroup, minimum[g], inverse[g],
                              lattice_noise(to.coding, static_cast<uint32_t>(first + g)), plane);
    }
  }
  for (int p = 0; p < kBits; ++p) {
    uint32_t* plane = to.plane[p] + first * kGroupWords;
    if (n_groups < kGroupsAtOnce) {
      std::copy_n(made[p], n_groups * kGroupWords, plane);
    } else if (around_caches) {
      PlaneGroup::copy_around_caches(kGroupsAtOnce, made[p], plane);
    } else {
      std::memcpy(plane, made[p], sizeof(made[p]));  // of a size that is known
    }
  }
  return n_exact;
}

template <int kBits>
int64_t encode(int64_t n, const float* x, const OrderedRange* ranges, bool around_caches,
               const BitPlanes& to) {
  std::atomic<int64_t> n_exact{0};
  const int64_t n_groups = (n + kPlaneGroup - 1) / kPlaneGroup, n_whole = n / kPlaneGroup;
  for_each_range(n_groups, kCost * kPlaneGroup, [&](int64_t from, int64_t last) {
    int64_t found = 0;
    for (int64_t first = from, end; first < last; first = end) {
      const OrderedRange* of_these = ranges != nullptr ? ranges + first : nullptr;
      const float* values = x + first * kPlaneGroup;
      if (first < n_whole) {
        end = std::min({last, n_whole, first + kGroupsAtOnce});
        found += encode_groups<kBits>(values, end - first, of_these, around_caches, to, first);
      } else {  // filled up with the first value: it does not change the range
        end = first + 1;
        float padded[kPlaneGroup];
        std::fill(std::copy_n(values, n - first * kPlaneGroup, padded), padded + kPlaneGroup,
                  values[0]);
        found += encode_groups<kBits>(padded, 1, of_these, around_caches, to, first);
      }
    }
    if (around_caches) PlaneGroup::finish_stores();
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
      if ((from.headers[g] & kExactGroup) != 0) continue;
      const int64_t start = g * kPlaneGroup - first;  // of the group, in y
      if (start >= 0 && start + kPlaneGroup <= n) {
        decode_group<kPlanes>(from, g, around_caches, y + start);
      } else {
        float values[kPlaneGroup];
        decode_group<kPlanes>(from, g, false, values);
        const int64_t begin = std::max<int64_t>(start, 0), end = std::min(start + kPlaneGroup, n);
        std::copy(values + (begin - start), values + (end - start), y + begin);
      }
    }
    if (around_caches) PlaneGroup::finish_stores();
  });
}

using Encode = int64_t (*)(int64_t, const float*, const OrderedRange*, bool, const BitPlanes&);
using Decode = void (*)(const BitPlanes&, int64_t, int64_t, bool, float*);
constexpr Encode kEncode[] = {encode<0>, encode<1>, encode<2>, encode<3>, encode<4>,
                              encode<5>, encode<6>, encode<7>, encode<8>};
constexpr Decode kDecode[] = {decode<0>, decode<1>, decode<2>, decode<3>, decode<4>,
                              decode<5>, decode<6>, decode<7>, decode<8>};

// The finalizer of splitmix64.
uint64_t mix(uint64_t v) {
  v += 0x9e3779b97f4a7c15;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
  v = (v ^ v >> 27) * 0x94d049bb133111eb;
  return v ^ v >> 31;
}

}  // namespace

uint32_t noise_key(const StochasticRounding& rounding) {
  return static_cast<uint32_t>(mix(mix(mix(rounding.seed) + rounding.step) + rounding.tensor));
}

PlaneForm bitplane_choose_form(int bits, int64_t n, const float* x) {
  constexpr int64_t kSampled = 16;       // groups
  constexpr double kRotationPays = 0.7;  // it takes time too
  const int64_t n_groups = n / kPlaneGroup, n_sampled = std::min(kSampled, n_groups);
  double plain = 0, dithered = 0, rotated = 0;  // sums of squared errors
  const auto header_of = [&](const float* group) {
    const Range range = range_of(group);
    return Header::of_range(range.minimum, range.maximum, bits);
  };
  for (int64_t k = 0; k < n_sampled; ++k) {
    const float* group = x + k * n_groups / n_sampled * kPlaneGroup;
    const Header header = header_of(group);
    if (header.is_exact || header.scale == 0) continue;
    int64_t spread = 0;  // the sum of f (1 - f), in 1/256 squared
    for (int64_t i = 0; i < kPlaneGroup; ++i) {
      const auto fixed = std::lrint((group[i] - header.minimum) * header.inverse());
      spread += (fixed & 255) * (256 - (fixed & 255));
    }
    const auto square = [](const Header& h) { return static_cast<double>(h.scale) * h.scale; };
    plain += square(header) * static_cast<double>(spread) / (256 * 256);
    dithered += square(header) * kPlaneGroup / 12;
    alignas(64) float turned[kPlaneGroup];
    rotate(group, turned);
    rotated += square(header_of(turned)) * kPlaneGroup / 12;
  }
  if (rotated < kRotationPays * std::min(plain, dithered)) return PlaneForm::kRotated;
  return plain < dithered ? PlaneForm::kPlain : PlaneForm::kDithered;
}

int64_t bitplane_encode(int64_t n, const float* x, bool around_caches, const BitPlanes& to) {
  return DAF_ISA::bitplane_encode_ranges(n, x, nullptr, around_caches, to);
}

int64_t bitplane_encode_ranges(int64_t n, const float* x, const OrderedRange* ranges,
                               bool around_caches, const BitPlanes& to) {
  return kEncode[to.bits](n, x, ranges, around_caches, to);
}

int64_t bitplane_headers(const Coding& coding, int64_t n_groups, int bits,
                         const OrderedRange* ranges, uint32_t* headers, GroupCode* codes) {
  int64_t n_exact = 0;
  for (int64_t g = 0; g < n_groups; ++g) {
    const Range range = range_of(ranges[g]);
    const Header header = Header::of_range(range.minimum, range.maximum, bits);
    headers[g] = header.packed();
    n_exact += header.is_exact;
    const LatticePlace place = LatticePlace::of(coding, static_cast<uint32_t>(g));
    codes[g] = {header.minimum, header.is_exact ? -1.0f : header.inverse(), place.start,
                kNoiseSteps[place.which]};
  }
  return n_exact;
}

void bitplane_decode(const BitPlanes& from, int n_planes, int64_t first, int64_t n,
                     bool around_caches, float* y) {
  kDecode[n_planes](from, first, n, around_caches, y);
}

}  // namespace daf::DAF_ISA
