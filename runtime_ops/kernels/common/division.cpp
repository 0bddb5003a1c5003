// Averages of blocks, and what they leave of a map. Nothing here may be contracted to a fused
// multiply-add (see CMakeLists.txt).
#include <algorithm>

#include "runtime_ops/kernels/common/bfloat16.h"
#include "runtime_ops/kernels/common/plane_group.h"
#include "runtime_ops/kernels/common/plane_header.h"
#include "runtime_ops/kernels/common/plane_noise.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

// Room for values of a group, and for what is written beyond the last one.
using Values = float[kPlaneGroup + kWidth];

// The average of each value; up to kWidth more are written.
void upsample(const MapSegment& segment, float* y) {
  const int64_t n = segment.count;
  if (segment.is_one_average) {
    const Vec v = splat(from_bfloat16(segment.average[0]));
    for (int64_t i = 0; i < n; i += kWidth) store(y + i, v);
  } else if (segment.n_alike == nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = from_bfloat16(segment.average[i]);
  } else {
    const uint16_t* average = segment.average;
    for (int64_t i = 0; i < n;) {
      const Vec v = splat(from_bfloat16(*average++));
      const int64_t end = std::min<int64_t>(n, i + segment.n_alike[i]);
      for (int64_t k = i; k < end; k += kWidth) store(y + k, v);
      i = end;
    }
  }
}

template <int kBits>
void encode(int64_t n_segments, const MapSegment* segments, const float* x, const BitPlanes& to) {
  Values fixed;  // codes with 8 fractional bits
  int64_t done = 0;
  for (int64_t s = 0; s < n_segments; done += segments[s++].count) {
    const Header header = Header::of(segments[s].header);
    float* out = fixed + done;
    if (header.is_exact) {
      std::fill_n(out, segments[s].count, 0.0f);
      continue;
    }
    const Vec minimum = splat(header.minimum), inverse = splat(header.inverse());
    upsample(segments[s], out);
    map(segments[s].count, x + done, out, out,
        [=](Vec v, Vec average) { return (v - average - minimum) * inverse; });
  }
  std::fill(fixed + done, fixed + kPlaneGroup, 0.0f);
  uint8_t noise[kPlaneGroup];
  fill_noise(to.coding, 0, noise);
  PlaneGroup::pack<kBits>(fixed, 0.0f, 1.0f, noise, to.plane);
}

template <int kPlanes>
void decode(const BitPlanes& from, int64_t first, int64_t n_segments, const MapSegment* segments,
            float* y) {
  float codes[kPlaneGroup];
  Values averages;
  PlaneGroup::unpack<kPlanes>(from.plane, 0.0f, 1.0f, false, codes);
  int64_t done = 0;
  for (int64_t s = 0; s < n_segments; done += segments[s++].count) {
    const Header header = Header::of(segments[s].header);
    if (header.is_exact) continue;
    const Vec base = splat(header.base(from.bits, kPlanes));
    const Vec step = splat(header.step(from.bits, kPlanes));
    upsample(segments[s], averages);
    map(segments[s].count, codes + first + done, averages, y + done,
        [=](Vec code, Vec average) { return average + (base + step * code); });
  }
}

using Encode = void (*)(int64_t, const MapSegment*, const float*, const BitPlanes&);
using Decode = void (*)(const BitPlanes&, int64_t, int64_t, const MapSegment*, float*);
constexpr Encode kEncode[] = {encode<0>, encode<1>, encode<2>, encode<3>, encode<4>,
                              encode<5>, encode<6>, encode<7>, encode<8>};
constexpr Decode kDecode[] = {decode<0>, decode<1>, decode<2>, decode<3>, decode<4>,
                              decode<5>, decode<6>, decode<7>, decode<8>};

}  // namespace

// In double: the order of the sum does not show in a bfloat16.
void division_averages(int64_t n, int64_t block_height, int64_t block_width, int64_t stride,
                       const float* x, uint16_t* averages) {
  double columns[8 * kMaxMapBlock];
  const int64_t at_once = 8 * kMaxMapBlock / block_width;
  const double size = static_cast<double>(block_height * block_width);
  for (int64_t block = 0; block < n; block += at_once) {
    const int64_t n_blocks = std::min(at_once, n - block), n_columns = n_blocks * block_width;
    const float* row = x + block * block_width;
    std::copy_n(row, n_columns, columns);
    for (int64_t y = 1; y < block_height; ++y) {
      row += stride;
      for (int64_t i = 0; i < n_columns; ++i) columns[i] += static_cast<double>(row[i]);
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      double sum = 0;
      for (int64_t i = 0; i < block_width; ++i) sum += columns[b * block_width + i];
      averages[block + b] = to_bfloat16(static_cast<float>(sum / size));
    }
  }
}

void division_range(int64_t n_segments, const MapSegment* segments, const float* x,
                    MapRange* range) {
  Vec low = splat(range->minimum), high = splat(range->maximum), zero = Vec{};
  const auto widen = [&](Vec v) {
    low = v < low ? v : low;
    high = v > high ? v : high;
    zero += v * 0.0f;  // NaN once a value is not finite
  };
  for (int64_t s = 0; s < n_segments; x += segments[s++].count) {
    Values averages;
    upsample(segments[s], averages);
    int64_t i = 0;
    for (; i + kWidth <= segments[s].count; i += kWidth) widen(load(x + i) - load(averages + i));
    for (; i < segments[s].count; ++i) widen(splat(x[i] - averages[i]));
  }
  for (int i = 0; i < kWidth; ++i) {
    range->minimum = std::min(range->minimum, low[i]);
    range->maximum = std::max(range->maximum, high[i]);
    range->is_finite &= zero[i] == 0;
  }
}

uint32_t division_header(const MapRange& range, int bits) {
  if (!range.is_finite) return kExactGroup;
  return Header::of_range(range.minimum, range.maximum, bits).packed();
}

void division_encode(int64_t n_segments, const MapSegment* segments, const float* x,
                     const BitPlanes& to) {
  kEncode[to.bits](n_segments, segments, x, to);
}

void division_decode(const BitPlanes& from, int n_planes, int64_t first, int64_t n_segments,
                     const MapSegment* segments, float* y) {
  kDecode[n_planes](from, first, n_segments, segments, y);
}

}  // namespace daf::DAF_ISA
