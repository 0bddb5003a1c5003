// Every product is made of runs of multiply-adds as long as a whole plane, whatever the width of a
// row, the stride and the dilation are.
//
// The padded input is laid out in stride_h x stride_w phases: phase (a, b) has the places whose row
// is a and whose column is b modulo the stride. In a phase, moving one output to the right is
// moving one place to the right, so tap (r, c) reads one phase at a constant offset from the
// output. All phases and the output have rows of the same `length`, longer than an output row by
// what the taps reach; so row follows row without a seam, and what the extra columns give is
// dropped (or is multiplied by 0).
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/blocks.h"
#include "runtime_ops/kernels/common/span.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA::depthwise {

constexpr int kUnroll = 4;  // vectors worked on together

// Where a tap reads: offset in the phase it belongs to.
struct Tap {
  int64_t phase, offset;
};

struct Layout {
  const Conv2d& s;
  int64_t reach_h, reach_w;  // how far taps reach in a phase
  int64_t length;            // of a row
  int64_t band;              // output rows worked on at once
  int64_t phase_size, n_phases;

  explicit Layout(const Conv2d& s)
      : s(s),
        reach_h((s.kh - 1) * s.dilation_h / s.stride_h),
        reach_w((s.kw - 1) * s.dilation_w / s.stride_w),
        length(s.out_w + reach_w),
        n_phases(s.stride_h * s.stride_w) {
    const int64_t rows = kMaxPanelFloats / 8 / (length * (n_phases + 2));
    band = std::clamp<int64_t>(rows - 2 * reach_h, 1, s.out_h + reach_h);
    phase_size = (band + 2 * reach_h + 1) * length + (kUnroll + 1) * kWidth;
  }

  int64_t n_taps() const { return s.kh * s.kw; }
  Tap tap(int64_t index) const {
    const int64_t h = index / s.kw * s.dilation_h, w = index % s.kw * s.dilation_w;
    return {h % s.stride_h * s.stride_w + w % s.stride_w, h / s.stride_h * length + w / s.stride_w};
  }
  // Memory of one worker: the phases, and one plane more.
  int64_t work_size() const { return (n_phases + 1) * phase_size; }
};

// ---- between tensors and the layout -------------------------------------------------------

inline void copy_strided(int64_t n, const float* from, int64_t stride, float* to) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  } else if (stride == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

// The places of a plane that phase column b has: elements [span) of its rows, from plane column
// start + span.first * stride on.
struct PhaseColumns {
  int64_t start;
  Span span;

  PhaseColumns(const Layout& l, int64_t b)
      : start(b - l.s.pad_w), span(outputs_inside(start, l.s.stride_w, l.s.w, l.length)) {}
};

// Rows [first, first + n_rows) of all phases of a plane of x, padding included.
inline void load_phases(const Layout& l, const float* x, int64_t first, int64_t n_rows,
                        float* phases) {
  const Conv2d& s = l.s;
  for (int64_t b = 0; b < s.stride_w; ++b) {
    const PhaseColumns columns(l, b);
    for (int64_t a = 0; a < s.stride_h; ++a) {
      float* row = phases + (a * s.stride_w + b) * l.phase_size;
      for (int64_t i = 0; i < n_rows; ++i, row += l.length) {
        const int64_t h = (first + i) * s.stride_h + a - s.pad_h;
        if (h < 0 || h >= s.h || columns.span.first >= columns.span.last) {
          std::fill_n(row, l.length, 0.0f);
          continue;
        }
        std::fill_n(row, columns.span.first, 0.0f);
        copy_strided(columns.span.last - columns.span.first,
                     x + h * s.w + columns.start + columns.span.first * s.stride_w, s.stride_w,
                     row + columns.span.first);
        std::fill(row + columns.span.last, row + l.length, 0.0f);
      }
    }
  }
}

// Rows [first, first + n_rows) of a plane of grad_y, 0 where there are none.
inline void load_grads(const Layout& l, const float* grad_y, int64_t first, int64_t n_rows,
                       float* rows) {
  for (int64_t i = first; i < first + n_rows; ++i, rows += l.length) {
    const bool is_real = i >= 0 && i < l.s.out_h;
    if (is_real) copy_strided(l.s.out_w, grad_y + i * l.s.out_w, 1, rows);
    std::fill(rows + (is_real ? l.s.out_w : 0), rows + l.length, 0.0f);
  }
}

// ---- runs ---------------------------------------------------------------------------------

// y[i] = shift + sum over taps of weight * source[i]; writes and reads up to kUnroll vectors more.
inline void correlate(int64_t n, int64_t n_taps, const float* const* source, const float* weight,
                      float shift, float* y) {
  for (int64_t i = 0; i < n; i += kUnroll * kWidth) {
    Vec total[kUnroll];
    for (Vec& v : total) v = splat(shift);
    for (int64_t t = 0; t < n_taps; ++t) {
      const Vec w = splat(weight[t]);
      for (int u = 0; u < kUnroll; ++u) {
        total[u] = fma(w, load(source[t] + i + u * kWidth), total[u]);
      }
    }
    for (int u = 0; u < kUnroll; ++u) store(y + i + u * kWidth, total[u]);
  }
}

// total[t] += sum of grad[i] * source[t][i], of a few dozen terms in float and of those in double.
template <int kTaps>
void add_dots(int64_t n, const float* grad, const float* const* source, double* total) {
  int64_t i = 0;
  while (i + kWidth <= n) {
    Vec sum[kTaps] = {};
    for (const int64_t last = std::min(n, i + 64 * kWidth); i + kWidth <= last; i += kWidth) {
      const Vec g = load(grad + i);
      for (int t = 0; t < kTaps; ++t) sum[t] = fma(g, load(source[t] + i), sum[t]);
    }
    for (int t = 0; t < kTaps; ++t) {
      for (int lane = 0; lane < kWidth; ++lane) total[t] += sum[t][lane];
    }
  }
  for (; i < n; ++i) {
    for (int t = 0; t < kTaps; ++t) total[t] += grad[i] * source[t][i];
  }
}

}  // namespace daf::DAF_ISA::depthwise
