#include <algorithm>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/reduce.h"

namespace daf::DAF_ISA {
namespace {

struct Axis {
  int64_t size, stride;
};

// A set of axes, walked in row-major order.
struct Axes {
  Axis axis[16];
  int n = 0;

  int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < n; ++i) product *= axis[i].size;
    return product;
  }

  // Offset in memory of the element `index` of the walk.
  int64_t offset(int64_t index) const {
    int64_t result = 0;
    for (int i = n - 1; i >= 0; --i) {
      result += index % axis[i].size * axis[i].stride;
      index /= axis[i].size;
    }
    return result;
  }

  // Adds an axis outside of those already there, merging it where the two are one run of memory.
  void prepend(Axis outer) {
    if (outer.size == 1) return;
    if (n > 0 && outer.stride == axis[0].stride * axis[0].size) {
      axis[0].size *= outer.size;
      return;
    }
    std::copy_backward(axis, axis + n, axis + n + 1);
    axis[0] = outer;
    ++n;
  }

  // Takes the innermost axis if it is contiguous; otherwise an axis of size 1.
  Axis take_contiguous() {
    if (n > 0 && axis[n - 1].stride == 1) return axis[--n];
    return {1, 1};
  }
};

}  // namespace

void sum_axes(int n_dims, const int64_t* sizes, uint32_t axis_mask, float scale, const float* x,
              float* y) {
  Axes kept, summed;
  int64_t stride = 1;
  for (int d = n_dims - 1; d >= 0; --d) {
    ((axis_mask >> d & 1) != 0 ? summed : kept).prepend({sizes[d], stride});
    stride *= sizes[d];
  }
  // One of the two runs has length 1: at most one set has the innermost axis.
  const int64_t summed_run = summed.take_contiguous().size;
  const int64_t kept_run = kept.take_contiguous().size;
  const int64_t n_summed = summed.count(), n_kept = kept.count();

  // A task is a strip of results that lie next to each other.
  constexpr int64_t kStrip = 64;
  const int64_t n_strips = (kept_run + kStrip - 1) / kStrip;
  const int64_t cost = n_summed * summed_run * std::min(kStrip, kept_run);
  for_each_range(n_kept * n_strips, cost, [&](int64_t from, int64_t to) {
    for (int64_t strip = from; strip < to; ++strip) {
      const int64_t k = strip / n_strips, first = strip % n_strips * kStrip;
      const int64_t width = std::min(kStrip, kept_run - first);
      const float* source = x + kept.offset(k) + first;
      double total[kStrip];
      std::fill_n(total, width, 0.0);
      for (int64_t s = 0; s < n_summed; ++s) {
        const float* run = source + summed.offset(s);
        if (summed_run != 1) {
          total[0] += sum(summed_run, run);
        } else {
          for (int64_t i = 0; i < width; ++i) total[i] += run[i];
        }
      }
      float* out = y + k * kept_run + first;
      for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(total[i] * scale);
    }
  });
}

}  // namespace daf::DAF_ISA
