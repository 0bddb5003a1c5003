// Every product is made of runs of multiply-adds as long as a whole plane, whatever the width of a
// row, the stride and the dilation are.
//
// The padded input is laid out in stride_h x stride_w phases: phase (a, b) has the places whose row
// is a and whose column is b modulo the stride. In a phase, moving one output to the right is
// moving one place to the right, so tap (r, c) reads one phase at a constant offset from the
// output. All phases and the output have rows of the same `length`, longer than an output row by
// what the taps reach; so row follows row without a seam, and what the extra columns give is
// dropped (or is multiplied by 0).
#include "runtime_ops/kernels/common/depthwise.h"

#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/blocks.h"
#include "runtime_ops/kernels/common/depthwise_small.h"
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/span.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

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
void load_phases(const Layout& l, const float* x, int64_t first, int64_t n_rows, float* phases) {
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
void load_grads(const Layout& l, const float* grad_y, int64_t first, int64_t n_rows, float* rows) {
  for (int64_t i = first; i < first + n_rows; ++i, rows += l.length) {
    const bool is_real = i >= 0 && i < l.s.out_h;
    if (is_real) copy_strided(l.s.out_w, grad_y + i * l.s.out_w, 1, rows);
    std::fill(rows + (is_real ? l.s.out_w : 0), rows + l.length, 0.0f);
  }
}

// ---- runs ---------------------------------------------------------------------------------

// y[i] = shift + sum over taps of weight * source[i]; writes and reads up to kUnroll vectors more.
void correlate(int64_t n, int64_t n_taps, const float* const* source, const float* weight,
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

// ---- weight gradient ------------------------------------------------------------------------

constexpr int kDots = 9;  // taps worked on together: those of a 3 x 3 filter

// One tap by the definition, for sums that are not finite: columns that are dropped elsewhere are
// multiplied by 0 in add_dots, which makes NaN of an infinity that this tap may never see.
double exact_dot(const Conv2d& s, int64_t channel, int64_t tap, const float* grad_y,
                 const float* x) {
  const int64_t r = tap / s.kw, c = tap % s.kw;
  double total = 0;
  for (int64_t image = 0; image < s.n; ++image) {
    const float* plane = x + (image * s.c_in + channel / (s.c_out / s.groups)) * s.h * s.w;
    const float* grad = grad_y + (image * s.c_out + channel) * s.out_h * s.out_w;
    for (int64_t oh = 0; oh < s.out_h; ++oh) {
      const int64_t h = oh * s.stride_h - s.pad_h + r * s.dilation_h;
      if (h < 0 || h >= s.h) continue;
      const int64_t start = c * s.dilation_w - s.pad_w;
      const Span span = outputs_inside(start, s.stride_w, s.w, s.out_w);
      for (int64_t ow = span.first; ow < span.last; ++ow) {
        total += grad[oh * s.out_w + ow] * plane[h * s.w + start + ow * s.stride_w];
      }
    }
  }
  return total;
}

void channel_weight_grad(const Layout& l, int64_t channel, const float* grad_y, const float* x,
                         float* grad_weight, float* work) {
  const Conv2d& s = l.s;
  float *phases = work, *grads = work + l.n_phases * l.phase_size;
  for (int64_t tap0 = 0; tap0 < l.n_taps(); tap0 += kDots) {
    const int64_t n_taps = std::min<int64_t>(kDots, l.n_taps() - tap0);
    double total[kDots] = {};
    const float* source[kDots];
    for (int64_t t = 0; t < n_taps; ++t) {
      const Tap tap = l.tap(tap0 + t);
      source[t] = phases + tap.phase * l.phase_size + tap.offset;
    }
    for (int64_t image = 0; image < s.n; ++image) {
      const int64_t input = image * s.c_in + channel / (s.c_out / s.groups);
      for (int64_t oh = 0; oh < s.out_h; oh += l.band) {
        const int64_t rows = std::min(l.band, s.out_h - oh);
        load_phases(l, x + input * s.h * s.w, oh, rows + l.reach_h, phases);
        load_grads(l, grad_y + (image * s.c_out + channel) * s.out_h * s.out_w, oh, rows, grads);
        const int64_t n = (rows - 1) * l.length + s.out_w;
        if (n_taps == kDots) {
          add_dots<kDots>(n, grads, source, total);
        } else {
          for (int64_t t = 0; t < n_taps; ++t) add_dots<1>(n, grads, source + t, total + t);
        }
      }
    }
    for (int64_t t = 0; t < n_taps; ++t) {
      if (!std::isfinite(total[t])) total[t] = exact_dot(s, channel, tap0 + t, grad_y, x);
      grad_weight[channel * l.n_taps() + tap0 + t] = static_cast<float>(total[t]);
    }
  }
}

// ---- forward --------------------------------------------------------------------------------

constexpr int64_t kMaxTaps = 64;  // added in one go

void plane_forward(const Layout& l, const float* x, const float* weight, float shift, float* y,
                   float* work) {
  const Conv2d& s = l.s;
  float *phases = work, *out = work + l.n_phases * l.phase_size;
  for (int64_t oh = 0; oh < s.out_h; oh += l.band) {
    const int64_t rows = std::min(l.band, s.out_h - oh);
    load_phases(l, x, oh, rows + l.reach_h, phases);
    for (int64_t tap0 = 0; tap0 < l.n_taps(); tap0 += kMaxTaps) {
      const int64_t n_taps = std::min(kMaxTaps, l.n_taps() - tap0);
      const float* source[kMaxTaps];
      for (int64_t t = 0; t < n_taps; ++t) {
        const Tap tap = l.tap(tap0 + t);
        source[t] = phases + tap.phase * l.phase_size + tap.offset;
      }
      correlate((rows - 1) * l.length + s.out_w, n_taps, source, weight + tap0,
                tap0 == 0 ? shift : 0.0f, out);
      for (int64_t i = 0; i < rows; ++i) {
        float* to = y + (oh + i) * s.out_w;
        const float* from = out + i * l.length;
        if (tap0 == 0) {
          copy_strided(s.out_w, from, 1, to);
        } else {
          for (int64_t j = 0; j < s.out_w; ++j) to[j] += from[j];
        }
      }
    }
  }
}

// ---- input gradient -------------------------------------------------------------------------

// Adds to rows [first, first + n_rows) of phase (a, b) of a plane of x.
void add_phase(const Layout& l, int64_t a, int64_t b, int64_t first, int64_t n_rows,
               const float* rows, float* x) {
  const Conv2d& s = l.s;
  const PhaseColumns columns(l, b);
  for (int64_t i = 0; i < n_rows; ++i, rows += l.length) {
    const int64_t h = (first + i) * s.stride_h + a - s.pad_h;
    if (h < 0 || h >= s.h) continue;
    float* row = x + h * s.w + columns.start;
    if (s.stride_w == 1) {
      for (int64_t j = columns.span.first; j < columns.span.last; ++j) row[j] += rows[j];
    } else {
      for (int64_t j = columns.span.first; j < columns.span.last; ++j) {
        row[j * s.stride_w] += rows[j];
      }
    }
  }
}

void plane_input_grad(const Layout& l, const float* grad_y, const float* weight, float* grad_x,
                      float* work) {
  const Conv2d& s = l.s;
  float *out = work, *grads = work + l.phase_size;
  const int64_t n_rows = s.out_h + l.reach_h;  // of a phase
  for (int64_t first = 0; first < n_rows; first += l.band) {
    const int64_t rows = std::min(l.band, n_rows - first);
    // One row more, of which a tap in the first column reads the zeros at the end.
    std::fill_n(grads, l.length, 0.0f);
    load_grads(l, grad_y, first - l.reach_h, rows + l.reach_h, grads + l.length);
    const float* start = grads + (1 + l.reach_h) * l.length;
    for (int64_t phase = 0; phase < l.n_phases; ++phase) {
      const float* source[kMaxTaps];
      float factor[kMaxTaps];
      int64_t n_taps = 0;
      const auto flush = [&] {
        if (n_taps == 0) return;
        correlate(rows * l.length, n_taps, source, factor, 0.0f, out);
        add_phase(l, phase / s.stride_w, phase % s.stride_w, first, rows, out, grad_x);
        n_taps = 0;
      };
      for (int64_t t = 0; t < l.n_taps(); ++t) {
        const Tap tap = l.tap(t);
        if (tap.phase != phase) continue;
        source[n_taps] = start - tap.offset;
        factor[n_taps++] = weight[t];
        if (n_taps == kMaxTaps) flush();
      }
      flush();
    }
  }
}

// Memory for every worker, all of it numbers: what lies beyond the rows is read, and dropped.
float* take_work(const Layout& l, int64_t n_tasks, Scratch& scratch) {
  const int64_t n_workers = std::max<int64_t>(1, std::min<int64_t>(n_threads(), n_tasks));
  const int64_t size = n_workers * l.work_size();
  float* work = scratch.take<float>(static_cast<size_t>(size));
  std::fill_n(work, size, 0.0f);
  return work;
}

}  // namespace

void depthwise_conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias,
                      float* y, Scratch& scratch) {
  if (is_small_depthwise(s)) return small_depthwise_conv2d(s, x, weight, bias, y, scratch);
  const Layout l(s);
  const int64_t multiplier = s.c_out / s.groups, n_planes = s.n * s.c_out;
  float* work = take_work(l, n_planes, scratch);
  for_each_task(n_planes, [&](int64_t plane, int worker) {
    const int64_t channel = plane % s.c_out;
    plane_forward(l, x + plane / multiplier * s.h * s.w, weight + channel * l.n_taps(),
                  bias != nullptr ? bias[channel] : 0.0f, y + plane * s.out_h * s.out_w,
                  work + worker * l.work_size());
  });
}

void depthwise_conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight,
                                 const float* bias, float* grad_x, Scratch& scratch) {
  if (is_small_depthwise(s)) {
    return small_depthwise_conv2d_input_grad(s, grad_y, weight, bias, grad_x, scratch);
  }
  const Layout l(s);
  const int64_t multiplier = s.c_out / s.groups, n_planes = s.n * s.c_in;
  float* work = take_work(l, n_planes, scratch);
  for_each_task(n_planes, [&](int64_t plane, int worker) {
    const int64_t channel = plane % s.c_in;
    float* to = grad_x + plane * s.h * s.w;
    std::fill_n(to, s.h * s.w, bias != nullptr ? bias[channel] : 0.0f);
    for (int64_t m = 0; m < multiplier; ++m) {
      plane_input_grad(l, grad_y + (plane * multiplier + m) * s.out_h * s.out_w,
                       weight + (channel * multiplier + m) * l.n_taps(), to,
                       work + worker * l.work_size());
    }
  });
}

void depthwise_conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x,
                                  float* grad_weight, Scratch& scratch) {
  if (is_small_depthwise(s)) {
    return small_depthwise_conv2d_weight_grad(s, grad_y, x, grad_weight, scratch);
  }
  const Layout l(s);
  float* work = take_work(l, s.c_out, scratch);
  for_each_task(s.c_out, [&](int64_t channel, int worker) {
    channel_weight_grad(l, channel, grad_y, x, grad_weight, work + worker * l.work_size());
  });
}

}  // namespace daf::DAF_ISA
