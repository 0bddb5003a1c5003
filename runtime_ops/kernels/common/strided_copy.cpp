#include <cstring>

#include "runtime_ops/kernels/common/strided_axes.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

// y[i * y_step + j] = x[i + j * x_step] for rows x columns of y: squares are turned in registers.
void transpose_copy(int64_t rows, int64_t columns, int64_t x_step, int64_t y_step, const float* x,
                    float* y) {
  for (int64_t i = 0; i < rows; i += kWidth) {
    const int64_t n_i = std::min<int64_t>(kWidth, rows - i);
    for (int64_t j = 0; j < columns; j += kWidth) {
      const int64_t n_j = std::min<int64_t>(kWidth, columns - j);
      Vec square[kWidth] = {};
      for (int64_t l = 0; l < n_j; ++l) {
        const float* from = x + i + (j + l) * x_step;
        square[l] = n_i == kWidth ? load(from) : load_part(from, n_i);
      }
      transpose(square);
      for (int64_t l = 0; l < n_i; ++l) {
        float* to = y + (i + l) * y_step + j;
        n_j == kWidth ? store(to, square[l]) : store_part(to, square[l], n_j);
      }
    }
  }
}

// The axis but the last one along which x is contiguous; -1 where there is none.
int contiguous_axis(const StridedAxes<1>& axes) {
  for (int axis = 0; axis + 1 < axes.n_axes; ++axis) {
    if (axes.stride[0][axis] == 1) return axis;
  }
  return -1;
}

// Rows of y are made together with their neighbours along `axis`, where x is contiguous.
void copy_transposed(const StridedAxes<1>& axes, int axis, const float* x, float* y) {
  const int last = axes.n_axes - 1;
  const int64_t rows = axes.size[axis], columns = axes.size[last];
  int64_t between = 1;  // rows of y from one along `axis` to the next
  for (int i = last - 1; i > axis; --i) between *= axes.size[i];
  const int64_t y_step = between * columns, n_planes = axes.n_rows() / rows;
  for_each_range(n_planes, rows * columns, [&](int64_t from, int64_t to) {
    for (int64_t plane = from; plane < to; ++plane) {
      const int64_t row = plane / between * between * rows + plane % between;
      transpose_copy(rows, columns, axes.stride[0][last], y_step, x + axes.start(0, row),
                     y + row * columns);
    }
  });
}

}  // namespace

void strided_copy(int n_dims, const int64_t* sizes, const int64_t* x_strides, const float* x,
                  float* y) {
  const StridedAxes<1> axes(n_dims, sizes, {x_strides});
  const int64_t step = axes.stride[0][axes.n_axes - 1], width = axes.inner();
  const int axis = contiguous_axis(axes);
  if (step > 1 && axis >= 0) return copy_transposed(axes, axis, x, y);
  axes.for_each_run([&](int64_t row, int64_t column, int64_t count) {
    const float* from = x + axes.start(0, row) + column * step;
    float* out = y + row * width + column;
    if (step == 1) {
      std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
    } else if (step == 0) {
      std::fill_n(out, count, *from);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = from[i * step];
    }
  });
}

}  // namespace daf::DAF_ISA
