#include <algorithm>

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

bool embedding(int64_t n_rows, int64_t dim, int64_t n_indices, const float* weight,
               const int64_t* index, float* y) {
  for (int64_t i = 0; i < n_indices; ++i) {
    if (index[i] < 0 || index[i] >= n_rows) return false;
    std::copy_n(weight + index[i] * dim, dim, y + i * dim);
  }
  return true;
}

bool embedding_backward(int64_t n_rows, int64_t dim, int64_t n_indices, int64_t padding_idx,
                        const float* grad_y, const int64_t* index, float* grad_weight) {
  std::fill(grad_weight, grad_weight + n_rows * dim, 0.0f);
  for (int64_t i = 0; i < n_indices; ++i) {
    if (index[i] < 0 || index[i] >= n_rows) return false;
    if (index[i] == padding_idx) continue;
    const float* from = grad_y + i * dim;
    float* to = grad_weight + index[i] * dim;
    for (int64_t d = 0; d < dim; ++d) to[d] += from[d];
  }
  return true;
}

}  // namespace daf::DAF_ISA
