#include "runtime_ops/kernels/common/gemm_driver.h"
#include "runtime_ops/kernels/common/matrix_packer.h"

namespace daf::DAF_ISA {
namespace {

MatrixPacker rows_of(const Gemm& shape, const float* a) {
  return shape.transpose_a ? MatrixPacker{a, 1, shape.lda} : MatrixPacker{a, shape.lda, 1};
}

MatrixPacker columns_of(const Gemm& shape, const float* b) {
  return shape.transpose_b ? MatrixPacker{b, shape.ldb, 1} : MatrixPacker{b, 1, shape.ldb};
}

}  // namespace

void gemm(const Gemm& shape, const float* a, const float* b, const GemmTerms& terms, float* c,
          Scratch& scratch) {
  const GemmPanels panels = take_panels(shape.m, shape.n, shape.k, scratch);
  blocked_gemm(shape.m, shape.n, shape.k, rows_of(shape, a), columns_of(shape, b),
               MatrixWriter{c, shape.ldc, terms}, panels);
}

void batch_gemm(const GemmBatch& shape, const float* a, const float* b, float alpha, float* c,
                Scratch& scratch) {
  const Gemm& s = shape.product;
  const int64_t n_products = shape.outer * shape.inner;
  const auto multiply = [&](int64_t index, auto product) {
    const int64_t i = index / shape.inner, j = index % shape.inner;
    const auto start = [&](const int64_t (&step)[2]) { return i * step[0] + j * step[1]; };
    product(rows_of(s, a + start(shape.a_step)), columns_of(s, b + start(shape.b_step)),
            MatrixWriter{c + start(shape.c_step), s.ldc, {alpha}});
  };
  GemmPanels panels;
  if (n_products < n_threads()) {  // the threads share each product
    panels.add_product(s.m, s.n, s.k);
    panels.take(scratch);
    for (int64_t index = 0; index < n_products; ++index) {
      multiply(index, [&](const auto& pack_a, const auto& pack_b, const auto& write) {
        blocked_gemm(s.m, s.n, s.k, pack_a, pack_b, write, panels);
      });
    }
    return;
  }
  panels.add_whole_products(s.m, s.n, s.k);
  panels.take(scratch);
  for_each_task(n_products, [&](int64_t index, int worker) {
    multiply(index, [&](const auto& pack_a, const auto& pack_b, const auto& write) {
      gemm_task(0, s.m, 0, s.n, s.k, pack_a, pack_b, write, panels.a(worker), panels.b(worker));
    });
  });
}

}  // namespace daf::DAF_ISA
