// Packers that let a convolution run as matrix products (gemm_driver.h) without its column matrix
// ever existing: a panel of it is made where it is consumed. windows.h names the index spaces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/gemm_driver.h"
#include "runtime_ops/kernels/common/matrix_packer.h"
#include "runtime_ops/kernels/common/windows.h"

namespace daf::DAF_ISA {

inline bool is_inside(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}

// Lane l is row[first + l * stride] for l < count, where that lies inside of the row; otherwise 0.
inline Vec load_window(const float* row, int64_t width, int64_t first, int64_t stride,
                       int64_t count) {
  if (stride == 1) {
    if (count == kWidth && first >= 0 && first + kWidth <= width) return load(row + first);
    const IntVec lane = lane_numbers(), place = lane + static_cast<int32_t>(first);
    return load_masked(row + first, (place >= 0) & (place < static_cast<int32_t>(width)) &
                                        (lane < static_cast<int32_t>(count)));
  }
  if (stride == 2 && count == kWidth && first >= 0 && first + 2 * kWidth - 1 <= width) {
    return load_even(row + first);
  }
  Vec v = {};
  for (int64_t l = 0; l < count; ++l) {
    if (is_inside(first + l * stride, width)) v[l] = row[first + l * stride];
  }
  return v;
}

// The column matrix: columns = pixels, depth = taps.
struct Im2colPacker {
  const Windows& s;
  Planes<const float> x;

  template <int kSize>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    Group group[kSize / kWidth];
    for (int g = 0; g < kSize / kWidth; ++g) {
      group[g] = Group(s, x, first + g * kWidth, std::min<int64_t>(count - g * kWidth, kWidth));
    }
    const Segment& start = group[0].segment[0];
    const bool is_row =
        count == kSize && s.w.stride == 1 && start.window_j + kSize <= s.w.n_windows;

    // The taps of all channels at one (r, c) read the same places of their planes: find the places
    // once, then walk the channels.
    const int64_t n_taps = s.n_taps();
    int64_t tap = n_taps > 0 ? p0 % n_taps : 0, channel = n_taps > 0 ? p0 / n_taps : 0;
    int64_t r = s.w.n_taps > 0 ? tap / s.w.n_taps : 0, c = tap - r * s.w.n_taps;
    for (int64_t t = 0; t < std::min(n_taps, depth); ++t) {
      const float* const plane = x.base + channel * x.spatial;
      float* const end = panel + depth * kSize;
      const int64_t h = s.h.at(start.window_i, r), w = s.w.at(start.window_j, c);
      if (is_row && is_inside(h, s.h.size) && w >= 0 && w + kSize <= s.w.size) {
        const float* from = plane + start.image + h * s.w.size + w;
        for (float* out = panel + t * kSize; out < end; out += n_taps * kSize, from += x.spatial) {
          std::memcpy(out, from, kSize * sizeof(float));
        }
      } else {
        for (int g = 0; g < kSize / kWidth; ++g) {
          pack_group(group[g], r, c, plane, n_taps * kSize, panel + t * kSize + g * kWidth, end);
        }
      }
      if (++c == s.w.n_taps) {
        c = 0;
        if (++r == s.h.n_taps) r = 0, ++channel;
      }
    }
  }

 private:
  // Windows of one row.
  struct Segment {
    int first, last;  // lanes
    int64_t image;    // offset of it
    int64_t window_i, window_j;
  };

  // kWidth columns of a panel.
  struct Group {
    int n_segments;
    Segment segment[kWidth];

    Group() {}
    Group(const Windows& s, const Planes<const float>& x, int64_t first, int64_t count)
        : n_segments(0) {
      Pixel pixel(s, first);
      for (int64_t lane = 0; lane < count;) {
        const int64_t run = std::min(count - lane, s.w.n_windows - pixel.j);
        segment[n_segments++] = {static_cast<int>(lane), static_cast<int>(lane + run),
                                 pixel.image * x.image_stride, pixel.i, pixel.j};
        pixel.advance(s, run);
        lane += run;
      }
    }
  };

  void pack_group(const Group& group, int64_t r, int64_t c, const float* plane, int64_t out_step,
                  float* out, const float* end) const {
    if (s.w.stride == 1) {
      pack_runs(group, r, c, plane, out_step, out, end);
    } else {
      pack_lanes(group, r, c, plane, out_step, out, end);
    }
  }

  // A segment is then a run of memory, of which padding is masked out.
  void pack_runs(const Group& group, int64_t r, int64_t c, const float* plane, int64_t out_step,
                 float* out, const float* end) const {
    int64_t offset[kWidth];
    IntVec mask[kWidth];
    int n_runs = 0;
    bool is_whole = false;
    const int32_t width = static_cast<int32_t>(s.w.size);
    for (int k = 0; k < group.n_segments; ++k) {
      const Segment& segment = group.segment[k];
      const int64_t h = s.h.at(segment.window_i, r);
      if (!is_inside(h, s.h.size)) continue;
      const int64_t w = s.w.at(segment.window_j, c) - segment.first;  // of lane 0
      const IntVec lane = lane_numbers(), place = lane + static_cast<int32_t>(w);
      offset[n_runs] = segment.image + h * width + w;
      mask[n_runs++] =
          (place >= 0) & (place < width) & (lane >= segment.first) & (lane < segment.last);
      is_whole = segment.last - segment.first == kWidth && w >= 0 && w + kWidth <= width;
    }
    const auto walk = [&](auto read) {
      for (; out < end; out += out_step, plane += x.spatial) store(out, read());
    };
    const auto masked = [&](int k) { return load_masked(plane + offset[k], mask[k]); };
    if (n_runs == 0) {
      walk([] { return Vec{}; });
    } else if (is_whole) {
      walk([&] { return load(plane + offset[0]); });
    } else if (n_runs == 1) {
      walk([&] { return masked(0); });
    } else if (n_runs == 2) {
      walk([&] { return masked(0) + masked(1); });
    } else {
      walk([&] {
        Vec v = masked(0);
        for (int k = 1; k < n_runs; ++k) v += masked(k);
        return v;
      });
    }
  }

  void pack_lanes(const Group& group, int64_t r, int64_t c, const float* plane, int64_t out_step,
                  float* out, const float* end) const {
    int64_t offset[kWidth];
    int n_real = 0, lanes[kWidth];  // those that are not padding
    for (int k = 0; k < group.n_segments; ++k) {
      const Segment& segment = group.segment[k];
      const int64_t h = s.h.at(segment.window_i, r);
      if (!is_inside(h, s.h.size)) continue;
      for (int lane = segment.first; lane < segment.last; ++lane) {
        const int64_t w = s.w.at(segment.window_j + lane - segment.first, c);
        if (!is_inside(w, s.w.size)) continue;
        offset[n_real] = segment.image + h * s.w.size + w;
        lanes[n_real++] = lane;
      }
    }
    if (n_real == kWidth && group.n_segments == 1 && s.w.stride == 2) {
      for (; out < end; out += out_step, plane += x.spatial) {
        store(out, load_even(plane + offset[0]));
      }
      return;
    }
    for (; out < end; out += out_step, plane += x.spatial) {
      if (n_real < kWidth) store(out, Vec{});
      for (int k = 0; k < n_real; ++k) out[lanes[k]] = plane[offset[k]];
    }
  }
};

// Its transpose: columns = taps, depth = pixels.
struct Im2colTransposedPacker {
  const Windows& s;
  Planes<const float> x;

  template <int kSize>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    int64_t channel[kSize], r[kSize], c[kSize];
    for (int64_t j = 0; j < kSize; ++j) {  // beyond `count` the last one again
      const int64_t tap = first + std::min(j, count - 1);
      channel[j] = tap / s.n_taps() * x.spatial;
      r[j] = tap / s.w.n_taps % s.h.n_taps;
      c[j] = tap % s.w.n_taps;
    }
    const int64_t width = s.w.size, stride = s.w.stride;
    Pixel pixel(s, p0);
    while (depth > 0) {  // row of windows by row
      const int64_t run = std::min(depth, s.w.n_windows - pixel.j);
      const float* row[kSize];  // null: padding
      int64_t w[kSize];
      for (int j = 0; j < kSize; ++j) {
        const int64_t h = s.h.at(pixel.i, r[j]);
        row[j] = is_inside(h, s.h.size)
                     ? x.base + pixel.image * x.image_stride + channel[j] + h * width
                     : nullptr;
        w[j] = s.w.at(pixel.j, c[j]);
      }
      pack_transposed<kSize>(
          run,
          [&](int j, int64_t p, int64_t n) {
            if (row[j] == nullptr) return Vec{};
            return load_window(row[j], width, w[j] + p * stride, stride, n);
          },
          panel);
      panel += run * kSize;
      depth -= run;
      pixel.advance(s, run);
    }
  }
};

// Where windows are places: columns = channels, depth = places.
struct ChannelsPacker {
  Planes<const float> x;

  template <int kSize>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    while (depth > 0) {  // image by image: within one this is a matrix
      const int64_t place = p0 % x.spatial, run = std::min(depth, x.spatial - place);
      const float* image = x.base + p0 / x.spatial * x.image_stride;
      MatrixPacker{image, x.spatial, 1}.pack<kSize>(first, count, place, run, panel);
      panel += run * kSize;
      p0 += run;
      depth -= run;
    }
  }
};

}  // namespace daf::DAF_ISA
