// Where the windows of a convolution lie, in a batch of planes.
//
// Index spaces, all row-major:
//   channel  within one group
//   tap      (channel, r, c): a place in a filter
//   pixel    (image, i, j): a place in the grid of windows, over the whole batch
#pragma once

#include <cstdint>

#include "runtime_ops/kernels/common/isa.h"

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

}  // namespace daf::DAF_ISA
