// Depthwise convolution in the layout of depthwise_layout.h.
#include "runtime_ops/kernels/common/depthwise.h"

#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/depthwise_layout.h"
#include "runtime_ops/kernels/common/depthwise_small.h"
#include "runtime_ops/kernels/common/parallel.h"

namespace daf::DAF_ISA {
namespace {

using namespace depthwise;

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
