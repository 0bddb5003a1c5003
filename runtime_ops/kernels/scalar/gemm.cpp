#include "runtime_ops/kernels/gemm_driver.h"
#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/micro_kernel.h"

namespace daf {

void gemm(const Gemm& shape, const float* a, const float* b, const float* bias, float* c,
          Scratch& scratch) {
  const MatrixPacker pack_a =
      shape.transpose_a ? MatrixPacker{a, 1, shape.lda} : MatrixPacker{a, shape.lda, 1};
  const MatrixPacker pack_b =
      shape.transpose_b ? MatrixPacker{b, shape.ldb, 1} : MatrixPacker{b, 1, shape.ldb};
  const MatrixWriter write{c, shape.ldc, bias};
  const GemmPanels<ScalarMicroKernel> panels(shape.m, shape.n, shape.k, scratch);
  blocked_gemm(shape.m, shape.n, shape.k, pack_a, pack_b, write, panels);
}

size_t max_scratch_bytes() { return static_cast<size_t>((kMc + kNc) * kKc) * sizeof(float); }

}  // namespace daf
