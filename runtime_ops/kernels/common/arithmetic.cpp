#include "runtime_ops/kernels/common/strided_axes.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

template <class F>
void run(const StridedAxes<2>& axes, const float* a, const float* b, float* y, F f) {
  const int64_t last = axes.n_axes - 1, width = axes.inner();
  const int64_t a_step = axes.stride[0][last], b_step = axes.stride[1][last];
  axes.for_each_run([&](int64_t row, int64_t column, int64_t count) {
    const float* p = a + axes.start(0, row) + column * a_step;
    const float* q = b + axes.start(1, row) + column * b_step;
    float* out = y + row * width + column;
    if (a_step != 0 && b_step != 0) {
      map(count, p, q, out, f);
    } else if (a_step != 0) {
      map(count, p, out, [f, c = splat(*q)](Vec v) { return f(v, c); });
    } else if (b_step != 0) {
      map(count, q, out, [f, c = splat(*p)](Vec v) { return f(c, v); });
    } else {
      const Vec value = f(splat(*p), splat(*q));
      for (int64_t i = 0; i < count; ++i) out[i] = value[0];
    }
  });
}

}  // namespace

void arithmetic(Arithmetic kind, int n_dims, const int64_t* sizes, const int64_t* a_strides,
                const int64_t* b_strides, const float* a, const float* b, float* y) {
  const StridedAxes<2> axes(n_dims, sizes, {a_strides, b_strides});
  switch (kind) {
    case Arithmetic::kAdd:
      return run(axes, a, b, y, [](Vec v, Vec w) { return v + w; });
    case Arithmetic::kSubtract:
      return run(axes, a, b, y, [](Vec v, Vec w) { return v - w; });
    case Arithmetic::kMultiply:
      return run(axes, a, b, y, [](Vec v, Vec w) { return v * w; });
    case Arithmetic::kDivide:
      return run(axes, a, b, y, [](Vec v, Vec w) { return v / w; });
  }
}

void add_clamped(int64_t n, float low, float high, const float* a, const float* b, float* y) {
  for_each_range(n, 1, [=](int64_t first, int64_t last) {
    map(last - first, a + first, b + first, y + first,
        [=](Vec v, Vec w) { return clamp(v + w, low, high); });
  });
}

}  // namespace daf::DAF_ISA
