// Writers (gemm_driver.h) that put a product [channel, pixel] into planes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/gemm_driver.h"
#include "runtime_ops/kernels/common/windows.h"

namespace daf::DAF_ISA {

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

    void operator()(int64_t i, int64_t rows, const float* tile, Part part) const {
      for (int64_t r = 0; r < rows; ++r, tile += kNr) {
        const float shift = bias != nullptr ? bias[i + r] : 0.0f;
        float* plane = image + (i + r) * y.spatial;
        int64_t place = start;
        for (int64_t done = 0; done < columns;) {  // image by image
          const int64_t run = std::min(columns - done, y.spatial - place);
          write_run(run, tile + done, part.first, shift, plane + place);
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

    void operator()(int64_t i, int64_t rows, const float* tile, Part part) const {
      for (int64_t r = 0; r < rows; ++r, tile += kNr) {
        const float shift = bias != nullptr ? bias[i + r] : 0.0f;
        float* plane = y.base + (i + r) * y.spatial;
        if (part.first) {
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
