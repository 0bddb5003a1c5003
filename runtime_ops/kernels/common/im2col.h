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
  int64_t size;    // of the plane
  int64_t n_windows;
  int64_t stride, base;
  int64_t n_taps, step;

  int64_t at(int64_t window, int64_t tap) const { return base + window * stride + tap * step; }
};

struct Windows {
  Axis h, w;

  int64_t n_taps() const { return h.n_taps * w.n_taps; }
  int64_t n_pixels() const { return h.n_windows * w.n_windows; }  // of an image
  // The columns are then the planes themselves.
  bool is_plain() const {
    const auto plain = [](const Axis& a) {
      return a.n_taps == 1 && a.stride == 1 && a.base == 0 && a.n_windows == a.size;
    };
    return plain(h) && plain(w);
  }
};

struct Pixel {
  int64_t image, i, j;

  Pixel(const Windows& s, int64_t index)
      : image(index / s.n_pixels()),
        i(index / s.w.n_windows % s.h.n_windows),
        j(index % s.w.n_windows) {}

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
    for (int64_t lane0 = 0; lane0 < kSize; lane0 += kWidth) {
      pack_lanes<kSize>(first + lane0, std::clamp<int64_t>(count - lane0, 0, kWidth), p0, depth,
                        panel + lane0);
    }
  }

 private:
  // kWidth columns of the panel.
  template <int kSize>
  void pack_lanes(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    const Pixel pixel(s, first);
    const bool is_row = pixel.j + count <= s.w.n_windows;
    // The taps of all channels at one (r, c) read the same places of their planes: find the places
    // once, then walk the channels.
    const int64_t n_taps = s.n_taps();
    for (int64_t t = 0; t < std::min(n_taps, depth); ++t) {
      const int64_t tap = (p0 + t) % n_taps, channel = (p0 + t) / n_taps;
      const int64_t r = tap / s.w.n_taps, c = tap % s.w.n_taps;
      const float* plane = x.base + channel * x.spatial;
      float* out = panel + t * kSize;
      float* const end = panel + depth * kSize;
      const auto walk = [&](auto read) {
        for (; out < end; out += n_taps * kSize, plane += x.spatial) store(out, read(plane));
      };
      if (is_row && count > 0) {
        pack_row(pixel, count, r, c, walk);
      } else {
        pack_scattered(pixel, count, r, c, walk);
      }
    }
  }

  // Columns of one row of windows.
  template <class Walk>
  void pack_row(const Pixel& pixel, int64_t count, int64_t r, int64_t c, Walk walk) const {
    const int64_t h = s.h.at(pixel.i, r), w = s.w.at(pixel.j, c), width = s.w.size;
    if (!is_inside(h, s.h.size)) return walk([](const float*) { return Vec{}; });
    const int64_t row = pixel.image * x.image_stride + h * width, stride = s.w.stride;
    const bool is_whole = count == kWidth && w >= 0;
    if (stride == 1 && is_whole && w + kWidth <= width) {
      return walk([=](const float* plane) { return load(plane + row + w); });
    }
    if (stride == 1) {
      const IntVec lane = lane_numbers(), place = lane + static_cast<int32_t>(w);
      const IntVec mask = (place >= 0) & (place < static_cast<int32_t>(width)) &
                          (lane < static_cast<int32_t>(count));
      return walk([=](const float* plane) { return load_masked(plane + row + w, mask); });
    }
    if (stride == 2 && is_whole && w + 2 * kWidth - 1 <= width) {
      return walk([=](const float* plane) { return load_even(plane + row + w); });
    }
    walk([=](const float* plane) { return load_window(plane + row, width, w, stride, count); });
  }

  // Columns of several rows or images.
  template <class Walk>
  void pack_scattered(Pixel pixel, int64_t count, int64_t r, int64_t c, Walk walk) const {
    int64_t offset[kWidth];
    int n_real = 0, lanes[kWidth];  // those that are not padding
    for (int l = 0; l < count; ++l, pixel.advance(s)) {
      const int64_t h = s.h.at(pixel.i, r), w = s.w.at(pixel.j, c);
      if (!is_inside(h, s.h.size) || !is_inside(w, s.w.size)) continue;
      offset[n_real] = pixel.image * x.image_stride + h * s.w.size + w;
      lanes[n_real++] = l;
    }
    if (n_real == kWidth) {
      return walk([=, &offset](const float* plane) {
        Vec v;
        for (int l = 0; l < kWidth; ++l) v[l] = plane[offset[l]];
        return v;
      });
    }
    walk([=, &offset, &lanes](const float* plane) {
      alignas(sizeof(Vec)) float v[kWidth] = {};
      for (int l = 0; l < n_real; ++l) v[lanes[l]] = plane[offset[l]];
      return load(v);
    });
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
          if (first) {
            for (int64_t c = 0; c < run; ++c) plane[place + c] = tile[done + c] + shift;
          } else {
            for (int64_t c = 0; c < run; ++c) plane[place + c] += tile[done + c];
          }
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
    return {{run, y.spatial, bias, nullptr}, image, start, columns, y, bias};
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
