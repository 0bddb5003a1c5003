// Packers and writers that let a convolution run as matrix products (gemm_driver.h) without its
// column matrix ever existing: a panel of it is made where it is consumed.
//
// Index spaces, all row-major:
//   channel  within one group
//   tap      (channel, r, c): a place in a filter, channels * kh * kw of them
//   place    (image, i): a place in a plane, over the whole batch
//   pixel    (image, oh, ow): a place in an output plane
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime_ops/kernels/gemm_driver.h"
#include "runtime_ops/kernels/kernels.h"

namespace daf {

// One group of a tensor [n, all channels, spatial]: `base` is its first channel of image 0.
template <class Float>
struct Planes {
  Float* base;
  int64_t spatial, image_stride;
};

struct Tap {
  int64_t channel, r, c;

  Tap(const Conv2d& s, int64_t index)
      : channel(index / (s.kh * s.kw)), r(index / s.kw % s.kh), c(index % s.kw) {}

  void advance(const Conv2d& s) {
    if (++c < s.kw) return;
    c = 0;
    if (++r < s.kh) return;
    r = 0;
    ++channel;
  }
  // Where it lies in the input plane, relative to the corner of a window.
  int64_t dh(const Conv2d& s) const { return r * s.dilation_h; }
  int64_t dw(const Conv2d& s) const { return c * s.dilation_w; }
};

struct Pixel {
  int64_t image, oh, ow;

  Pixel(const Conv2d& s, int64_t index)
      : image(index / (s.out_h * s.out_w)), oh(index / s.out_w % s.out_h), ow(index % s.out_w) {}

  void advance(const Conv2d& s) {
    if (++ow < s.out_w) return;
    ow = 0;
    if (++oh < s.out_h) return;
    oh = 0;
    ++image;
  }
  // The top left corner of its window, which may lie outside of the input plane.
  int64_t h(const Conv2d& s) const { return oh * s.stride_h - s.pad_h; }
  int64_t w(const Conv2d& s) const { return ow * s.stride_w - s.pad_w; }
};

inline bool is_inside(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}

// ---- packers ----------------------------------------------------------------------------

// Columns = places, depth = channels.
struct PlacesPacker {
  Planes<const float> x;

  template <int kWidth>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    const float* source[kWidth];
    for (int64_t i = 0; i < kWidth; ++i) {
      const int64_t place = first + std::min(i, count - 1);
      source[i] = x.base + place / x.spatial * x.image_stride + place % x.spatial + p0 * x.spatial;
    }
    const bool is_run = source[kWidth - 1] == source[0] + kWidth - 1;
    for (int64_t p = 0; p < depth; ++p, panel += kWidth) {
      const int64_t plane = p * x.spatial;
      if (is_run) {
        for (int i = 0; i < kWidth; ++i) panel[i] = source[0][plane + i];
      } else {
        for (int i = 0; i < kWidth; ++i) panel[i] = source[i][plane];
      }
    }
  }
};

// The transpose: columns = channels, depth = places.
struct ChannelsPacker {
  Planes<const float> x;

  template <int kWidth>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    while (depth > 0) {  // image by image: within one this is a matrix
      const int64_t place = p0 % x.spatial, run = std::min(depth, x.spatial - place);
      const float* image = x.base + p0 / x.spatial * x.image_stride;
      MatrixPacker{image, x.spatial, 1}.pack<kWidth>(first, count, place, run, panel);
      panel += run * kWidth;
      p0 += run;
      depth -= run;
    }
  }
};

// The column matrix: columns = pixels, depth = taps.
struct Im2colPacker {
  const Conv2d& s;
  Planes<const float> x;

  template <int kWidth>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    int64_t image[kWidth], h[kWidth], w[kWidth];
    Pixel pixel(s, first);
    for (int64_t j = 0; j < count; ++j, pixel.advance(s)) {
      image[j] = pixel.image * x.image_stride;
      h[j] = pixel.h(s);
      w[j] = pixel.w(s);
    }
    const bool is_run = count == kWidth && s.stride_w == 1 && h[kWidth - 1] == h[0] &&
                        image[kWidth - 1] == image[0];

    // The taps of all channels at one (r, c) read the same places of their planes: find the
    // places once, then walk the channels.
    const int64_t n_taps = s.kh * s.kw;
    for (int64_t i = 0; i < std::min(n_taps, depth); ++i) {
      const Tap tap(s, p0 + i);
      const int64_t dh = tap.dh(s), dw = tap.dw(s);
      const float* plane = x.base + tap.channel * x.spatial;
      const int64_t out_stride = n_taps * kWidth;
      float* out = panel + i * kWidth;
      float* const end = panel + depth * kWidth;

      if (is_run && is_inside(h[0] + dh, s.h) && w[0] + dw >= 0 && w[kWidth - 1] + dw < s.w) {
        const float* source = plane + image[0] + (h[0] + dh) * s.w + w[0] + dw;
        for (; out < end; out += out_stride, source += x.spatial) {
          for (int j = 0; j < kWidth; ++j) out[j] = source[j];
        }
        continue;
      }
      // Padding reads some place that is real, and becomes zero by the mask.
      int64_t offset[kWidth], real = -1;
      bool is_real[kWidth] = {};
      for (int64_t j = 0; j < count; ++j) {
        is_real[j] = is_inside(h[j] + dh, s.h) && is_inside(w[j] + dw, s.w);
        if (is_real[j]) real = offset[j] = image[j] + (h[j] + dh) * s.w + w[j] + dw;
      }
      for (int j = 0; j < kWidth; ++j) {
        if (!is_real[j]) offset[j] = real;
      }
      for (; out < end; out += out_stride, plane += x.spatial) {
        for (int j = 0; j < kWidth; ++j) {
          const float value = real < 0 ? 0.0f : plane[offset[j]];
          out[j] = is_real[j] ? value : 0.0f;
        }
      }
    }
  }
};

// Its transpose: columns = taps, depth = pixels.
struct Im2colTransposedPacker {
  const Conv2d& s;
  Planes<const float> x;

  template <int kWidth>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    int64_t offset[kWidth], dh[kWidth], dw[kWidth];
    Tap tap(s, first);
    for (int64_t j = 0; j < kWidth; ++j) {
      dh[j] = tap.dh(s);
      dw[j] = tap.dw(s);
      offset[j] = tap.channel * x.spatial + dh[j] * s.w + dw[j];
      if (j + 1 < count) tap.advance(s);  // beyond `count` the last one again
    }
    const auto [dh_min, dh_max] = std::minmax_element(dh, dh + kWidth);
    const auto [dw_min, dw_max] = std::minmax_element(dw, dw + kWidth);

    Pixel pixel(s, p0);
    for (int64_t p = 0; p < depth; ++p, panel += kWidth, pixel.advance(s)) {
      const int64_t h = pixel.h(s), w = pixel.w(s);
      const int64_t corner = pixel.image * x.image_stride + h * s.w + w;
      if (h + *dh_min >= 0 && h + *dh_max < s.h && w + *dw_min >= 0 && w + *dw_max < s.w) {
        for (int j = 0; j < kWidth; ++j) panel[j] = x.base[corner + offset[j]];
      } else {
        for (int j = 0; j < kWidth; ++j) {
          const bool is_real = is_inside(h + dh[j], s.h) && is_inside(w + dw[j], s.w);
          panel[j] = is_real ? x.base[corner + offset[j]] : 0.0f;
        }
      }
    }
  }
};

// ---- writers ----------------------------------------------------------------------------

// C[channel, place] into a tensor; `bias` has an entry per channel, or is null.
struct PlacesWriter {
  Planes<float> y;
  const float* bias;

  template <int kNr>
  auto panel(int64_t j, int64_t columns) const {
    const int64_t start = j % y.spatial;
    float* const image = y.base + j / y.spatial * y.image_stride;
    return [=, *this](int64_t i, int64_t rows, const float* tile, bool first) {
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
    };
  }
};

// Adds C[tap, pixel] to where im2col would have read it (col2im). x is cleared beforehand.
struct Col2imWriter {
  const Conv2d& s;
  Planes<float> x;

  // Pixels of one output row.
  struct Run {
    int64_t first, count, image, h, w;
  };

  template <int kNr>
  auto panel(int64_t j, int64_t columns) const {
    std::array<Run, kNr> runs;
    int n_runs = 0;
    Pixel pixel(s, j);
    for (int64_t done = 0; done < columns; pixel.advance(s)) {
      const int64_t count = std::min(columns - done, s.out_w - pixel.ow);
      runs[n_runs++] = {done, count, pixel.image * x.image_stride, pixel.h(s), pixel.w(s)};
      done += count;
      pixel.ow += count - 1;
    }
    return [=, *this](int64_t i, int64_t rows, const float* tile, bool /*first*/) {
      Tap tap(s, i);
      for (int64_t r = 0; r < rows; ++r, tile += kNr, tap.advance(s)) {
        for (int n = 0; n < n_runs; ++n) add<kNr>(runs[n], tap, tile + runs[n].first);
      }
    };
  }

 private:
  template <int kNr>
  void add(const Run& run, const Tap& tap, const float* tile) const {
    const int64_t h = run.h + tap.dh(s), w = run.w + tap.dw(s), stride = s.stride_w;
    if (!is_inside(h, s.h)) return;
    float* row = x.base + run.image + tap.channel * x.spatial + h * s.w;
    if (w < 0 || w + (run.count - 1) * stride >= s.w) {
      for (int64_t c = 0; c < run.count; ++c) {
        if (is_inside(w + c * stride, s.w)) row[w + c * stride] += tile[c];
      }
    } else if (stride != 1) {
      for (int64_t c = 0; c < run.count; ++c) row[w + c * stride] += tile[c];
    } else if (run.count == kNr) {
      for (int c = 0; c < kNr; ++c) row[w + c] += tile[c];
    } else {
      for (int64_t c = 0; c < run.count; ++c) row[w + c] += tile[c];
    }
  }
};

}  // namespace daf
