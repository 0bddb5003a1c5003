#include "runtime_ops/kernels/common/gemm_driver.h"
#include "runtime_ops/kernels/common/matrix_packer.h"

namespace daf::DAF_ISA {

void gemm(const Gemm& shape, const float* a, const float* b, const float* bias, float* c,
          Scratch& scratch) {
  const MatrixPacker pack_a =
      shape.transpose_a ? MatrixPacker{a, 1, shape.lda} : MatrixPacker{a, shape.lda, 1};
  const MatrixPacker pack_b =
      shape.transpose_b ? MatrixPacker{b, shape.ldb, 1} : MatrixPacker{b, 1, shape.ldb};
  const MatrixWriter write{c, shape.ldc, bias};
  const GemmPanels panels = take_panels(shape.m, shape.n, shape.k, scratch);
  blocked_gemm(shape.m, shape.n, shape.k, pack_a, pack_b, write, panels, shape.accumulate);
}

}  // namespace daf::DAF_ISA
