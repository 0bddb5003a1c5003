#include "runtime_ops/kernels/common/depthwise_small.h"

#include <algorithm>
#include <type_traits>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr int64_t kMaxPlaces = 320;  // of a map: two maps of vectors then stay in L1
constexpr int64_t kMaxTaps = 25;

// One map of up to kWidth images, a vector per place.
struct Maps {
  Vec place[kMaxPlaces];
};

// Map `channel` of images [image, image + n) of a tensor whose images are `stride` apart.
void load_maps(int64_t size, int64_t n, const float* first, int64_t stride, Maps& to) {
  for (int64_t p = 0; p < size; p += kWidth) {
    const int64_t count = std::min<int64_t>(kWidth, size - p);
    Vec square[kWidth];
    for (int64_t i = 0; i < kWidth; ++i) {
      const float* from = first + i * stride + p;
      square[i] = i >= n ? Vec{} : count == kWidth ? load(from) : load_part(from, count);
    }
    transpose(square);
    for (int64_t i = 0; i < count; ++i) to.place[p + i] = square[i];
  }
}

void store_maps(int64_t size, int64_t n, const Maps& from, float* first, int64_t stride) {
  for (int64_t p = 0; p < size; p += kWidth) {
    const int64_t count = std::min<int64_t>(kWidth, size - p);
    Vec square[kWidth];
    for (int64_t i = 0; i < kWidth; ++i) square[i] = i < count ? from.place[p + i] : Vec{};
    transpose(square);
    for (int64_t i = 0; i < n; ++i) store_part(first + i * stride + p, square[i], count);
  }
}

// Calls body(output place, input place of tap (0, 0), r0, r1, c0, c1) for every output: the taps
// [r0, r1) x [c0, c1) read places of the map, the others padding.
template <class Body>
void for_each_window(const Conv2d& s, Body body) {
  const auto range = [](int64_t start, int64_t step, int64_t size, int64_t n_taps, int64_t* first,
                        int64_t* last) {
    *first = 0;
    while (*first < n_taps && start + *first * step < 0) ++*first;
    *last = n_taps;
    while (*last > *first && start + (*last - 1) * step >= size) --*last;
  };
  int64_t out = 0;
  for (int64_t oh = 0; oh < s.out_h; ++oh) {
    const int64_t h = oh * s.stride_h - s.pad_h;
    int64_t r0, r1;
    range(h, s.dilation_h, s.h, s.kh, &r0, &r1);
    for (int64_t ow = 0; ow < s.out_w; ++ow, ++out) {
      const int64_t w = ow * s.stride_w - s.pad_w;
      int64_t c0, c1;
      range(w, s.dilation_w, s.w, s.kw, &c0, &c1);
      body(out, h * s.w + w, r0, r1, c0, c1);
    }
  }
}

// Calls body(is_inner, tap, input place) for the taps of a window that are not padding. A 3 x 3
// window in the middle of the map, as most are, is `is_inner` and becomes straight code.
template <class Body>
inline __attribute__((always_inline)) void for_each_tap(const Conv2d& s, int64_t corner, int64_t r0,
                                                        int64_t r1, int64_t c0, int64_t c1,
                                                        Body body) {
  const int64_t row_step = s.dilation_h * s.w, column_step = s.dilation_w;
  if (s.kh == 3 && s.kw == 3 && r1 - r0 == 3 && c1 - c0 == 3) {
#pragma GCC unroll 3
    for (int r = 0; r < 3; ++r) {
#pragma GCC unroll 3
      for (int c = 0; c < 3; ++c) {
        body(std::true_type(), r * 3 + c, corner + r * row_step + c * column_step);
      }
    }
    return;
  }
  for (int64_t r = r0; r < r1; ++r) {
    for (int64_t c = c0; c < c1; ++c) {
      body(std::false_type(), r * s.kw + c, corner + r * row_step + c * column_step);
    }
  }
}

// Memory of one worker: maps of x and y.
struct Work {
  Maps x, y;
};

Work* take_work(int64_t n_tasks, Scratch& scratch) {
  return scratch.take<Work>(
      static_cast<size_t>(std::max<int64_t>(1, std::min<int64_t>(n_threads(), n_tasks))));
}

// Calls body(first image, images, channel, worker) for all channels, kWidth images at a time.
template <class Body>
void for_each_maps(const Conv2d& s, int64_t channels, Body body) {
  const int64_t n_groups = (s.n + kWidth - 1) / kWidth;
  for_each_task(n_groups * channels, [&](int64_t task, int worker) {
    const int64_t image = task / channels * kWidth;
    body(image, std::min<int64_t>(kWidth, s.n - image), task % channels, worker);
  });
}

}  // namespace

bool is_small_depthwise(const Conv2d& s) {
  return s.h * s.w <= kMaxPlaces && s.out_h * s.out_w <= kMaxPlaces && s.kh * s.kw <= kMaxTaps &&
         2 * s.n >= kWidth;
}

void small_depthwise_conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias,
                            float* y, Scratch& scratch) {
  const int64_t in = s.h * s.w, out = s.out_h * s.out_w, multiplier = s.c_out / s.groups;
  Work* work = take_work((s.n + kWidth - 1) / kWidth * s.c_out, scratch);
  for_each_maps(s, s.c_out, [&](int64_t image, int64_t n, int64_t channel, int worker) {
    Maps &maps_x = work[worker].x, &maps_y = work[worker].y;
    load_maps(in, n, x + (image * s.c_in + channel / multiplier) * in, s.c_in * in, maps_x);
    Vec w[kMaxTaps];
    for (int64_t t = 0; t < s.kh * s.kw; ++t) w[t] = splat(weight[channel * s.kh * s.kw + t]);
    const Vec shift = splat(bias != nullptr ? bias[channel] : 0.0f);
    for_each_window(
        s, [&](int64_t place, int64_t corner, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
          Vec total = shift;
          for_each_tap(s, corner, r0, r1, c0, c1, [&](auto, int64_t t, int64_t p) {
            total = fma(w[t], maps_x.place[p], total);
          });
          maps_y.place[place] = total;
        });
    store_maps(out, n, maps_y, y + (image * s.c_out + channel) * out, s.c_out * out);
  });
}

void small_depthwise_conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight,
                                       const float* bias, float* grad_x, Scratch& scratch) {
  const int64_t in = s.h * s.w, out = s.out_h * s.out_w, multiplier = s.c_out / s.groups;
  Work* work = take_work((s.n + kWidth - 1) / kWidth * s.c_in, scratch);
  for_each_maps(s, s.c_in, [&](int64_t image, int64_t n, int64_t channel, int worker) {
    Maps &maps_x = work[worker].x, &maps_y = work[worker].y;
    std::fill_n(maps_x.place, in, splat(bias != nullptr ? bias[channel] : 0.0f));
    for (int64_t m = channel * multiplier; m < (channel + 1) * multiplier; ++m) {
      load_maps(out, n, grad_y + (image * s.c_out + m) * out, s.c_out * out, maps_y);
      Vec w[kMaxTaps];
      for (int64_t t = 0; t < s.kh * s.kw; ++t) w[t] = splat(weight[m * s.kh * s.kw + t]);
      for_each_window(
          s, [&](int64_t place, int64_t corner, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
            const Vec g = maps_y.place[place];
            for_each_tap(s, corner, r0, r1, c0, c1, [&](auto, int64_t t, int64_t p) {
              maps_x.place[p] = fma(w[t], g, maps_x.place[p]);
            });
          });
    }
    store_maps(in, n, maps_x, grad_x + (image * s.c_in + channel) * in, s.c_in * in);
  });
}

void small_depthwise_conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x,
                                        float* grad_weight, Scratch& scratch) {
  const int64_t in = s.h * s.w, out = s.out_h * s.out_w, multiplier = s.c_out / s.groups;
  const int64_t n_taps = s.kh * s.kw;
  Work* work = take_work(s.c_out, scratch);
  for_each_task(s.c_out, [&](int64_t channel, int worker) {
    Maps &maps_x = work[worker].x, &maps_y = work[worker].y;
    double total[kMaxTaps] = {};
    for (int64_t image = 0; image < s.n; image += kWidth) {
      const int64_t n = std::min<int64_t>(kWidth, s.n - image);
      load_maps(in, n, x + (image * s.c_in + channel / multiplier) * in, s.c_in * in, maps_x);
      load_maps(out, n, grad_y + (image * s.c_out + channel) * out, s.c_out * out, maps_y);
      Vec sum[kMaxTaps] = {}, inner_sum[9] = {};  // the latter in registers
      for_each_window(
          s, [&](int64_t place, int64_t corner, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
            const Vec g = maps_y.place[place];
            for_each_tap(s, corner, r0, r1, c0, c1, [&](auto is_inner, int64_t t, int64_t p) {
              Vec& total = is_inner ? inner_sum[t] : sum[t];
              total = fma(g, maps_x.place[p], total);
            });
          });
      if (n_taps == 9) {
        for (int64_t t = 0; t < 9; ++t) sum[t] += inner_sum[t];
      }
      for (int64_t t = 0; t < n_taps; ++t) {
        for (int64_t i = 0; i < n; ++i) total[t] += sum[t][i];
      }
    }
    for (int64_t t = 0; t < n_taps; ++t) {
      grad_weight[channel * n_taps + t] = static_cast<float>(total[t]);
    }
  });
}

}  // namespace daf::DAF_ISA
