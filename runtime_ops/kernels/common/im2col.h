// Packers and writers that let a convolution run as matrix products (gemm_driver.h) without its
// column matrix ever existing: a panel of it is made where it is consumed.
//
// Index spaces, all row-major:
//   channel  within one group
//   tap      (channel, r, c): a place in a filter
//   pixel    (image, i, j): a place in the grid of windows, over the whole batch
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/gemm_driver.h"
#include "runtime_ops/kernels/common/matrix_packer.h"

namespace daf::DAF_ISA {

// One group of a tensor [n, all channels, spatial]: `base` is its first channel of image 0.
template <class Float>
struct Planes {
  Float* base;
  int64_t spatial, image_stride;
};

// Where windows read a plane of height x width, along each axis: tap t of window i reads
// base + i * stride + t * step.
struct Axis {
  int64_t size;  // of the plane
  int64_t n_windows;
  int64_t stride, base;
  int64_t n_taps, step;

  int64_t at(int64_t window, int64_t tap) const { return base + window * stride + tap * step; }
};

struct Windows {
  Axis h, w;

  int64_t n_taps() const { return h.n_taps * w.n_taps; }
  int64_t n_pixels() const { return h.n_windows * w.n_windows; }  // of an image
  // Every window is one place of the plane, and every place a window.
  bool is_plain() const {
    const auto plain = [](const Axis& a) {
      return a.n_taps == 1 && a.stride == 1 && a.base == 0 && a.n_windows == a.size;
    };
    return plain(h) && plain(w);
  }
  // The same, with the rows of a plane as one where that is possible: runs are longer.
  Windows flat() const {
    if (!is_plain()) return *this;
    const int64_t n = n_pixels();
    return {{1, 1, 1, 0, 1, 0}, {n, n, 1, 0, 1, 0}};
  }
};

struct Pixel {
  int64_t image, i, j;

  Pixel(const Windows& s, int64_t index) {
    const int64_t row = index / s.w.n_windows;
    j = index - row * s.w.n_windows;
    image = row / s.h.n_windows;
    i = row - image * s.h.n_windows;
  }

  void advance(const Windows& s, int64_t n = 1) {  // n: up to the end of the row
    if ((j += n) < s.w.n_windows) return;
    j = 0;
    if (++i < s.h.n_windows) return;
    i = 0;
    ++image;
  }
};

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

// A part of a row of a tile; it may be read up to a vector beyond.
inline void write_run(int64_t n, const float* tile, bool first, float shift, float* out) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t count = std::min<int64_t>(kWidth, n - i);
    const Vec v = load(tile + i);
    store_part(out + i, first ? v + shift : v + load_part(out + i, count), count);
  }
}

// C[channel, pixel] into a tensor where pixels are places; `bias` has an entry per channel, or is
// null.
struct PlacesWriter {
  Planes<float> y;
  const float* bias;

  struct Panel {
    Direct direct;
    float* image;
    int64_t start, columns;
    Planes<float> y;
    const float* bias;

    void operator()(int64_t i, int64_t rows, const float* tile, bool first) const {
      for (int64_t r = 0; r < rows; ++r, tile += kNr) {
        const float shift = bias != nullptr ? bias[i + r] : 0.0f;
        float* plane = image + (i + r) * y.spatial;
        int64_t place = start;
        for (int64_t done = 0; done < columns;) {  // image by image
          const int64_t run = std::min(columns - done, y.spatial - place);
          write_run(run, tile + done, first, shift, plane + place);
          done += run;
          plane += y.image_stride;
          place = 0;
        }
      }
    }
  };

  template <int kNr>
  Panel panel(int64_t j, int64_t columns) const {
    const int64_t start = j % y.spatial;
    float* image = y.base + j / y.spatial * y.image_stride;
    float* run = start + columns <= y.spatial ? image + start : nullptr;
    return {{run, y.spatial, 1.0f, bias}, image, start, columns, y, bias};
  }
};

// C[channel, pixel] into every stride-th place of a tensor, from (h0, w0) on.
struct StridedWriter {
  const Windows& s;
  Planes<float> y;
  int64_t width, h0, w0, stride_h, stride_w;
  const float* bias;

  struct Panel {
    Direct direct;
    int64_t offset[kNr], columns;
    Planes<float> y;
    const float* bias;

    void operator()(int64_t i, int64_t rows, const float* tile, bool first) const {
      for (int64_t r = 0; r < rows; ++r, tile += kNr) {
        const float shift = bias != nullptr ? bias[i + r] : 0.0f;
        float* plane = y.base + (i + r) * y.spatial;
        if (first) {
          for (int64_t c = 0; c < columns; ++c) plane[offset[c]] = tile[c] + shift;
        } else {
          for (int64_t c = 0; c < columns; ++c) plane[offset[c]] += tile[c];
        }
      }
    }
  };

  template <int kNr>
  Panel panel(int64_t j, int64_t columns) const {
    Panel result{{}, {}, columns, y, bias};
    Pixel pixel(s, j);
    for (int64_t c = 0; c < columns; ++c, pixel.advance(s)) {
      result.offset[c] = pixel.image * y.image_stride + (h0 + pixel.i * stride_h) * width + w0 +
                         pixel.j * stride_w;
    }
    return result;
  }
};

}  // namespace daf::DAF_ISA
