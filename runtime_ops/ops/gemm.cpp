#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"

namespace daf::ops {
namespace {

struct Product {
  Gemm gemm;
  int64_t n_batches;
  Shape c;
};

// a and b are both matrices or both batches of matrices; the flags transpose them.
Product product_of(const Arguments& args, const Shape& a, const Shape& b, bool transpose_a,
                   bool transpose_b) {
  args.require(a.rank() == b.rank() && (a.rank() == 2 || a.rank() == 3), "a has shape ", a,
               ", b has shape ", b, ": expected two matrices or two batches of them");
  const int64_t rows = a.rank() - 2, columns = a.rank() - 1;  // the axes as they lie in memory
  Product product;
  Gemm& gemm = product.gemm;
  gemm.m = a[transpose_a ? columns : rows];
  gemm.k = a[transpose_a ? rows : columns];
  gemm.n = b[transpose_b ? rows : columns];
  gemm.transpose_a = transpose_a;
  gemm.transpose_b = transpose_b;
  gemm.lda = a[columns];
  gemm.ldb = b[columns];
  gemm.ldc = gemm.n;
  args.require(b[transpose_b ? columns : rows] == gemm.k && a.slice(0, rows) == b.slice(0, rows),
               "a has shape ", a, ", b has shape ", b, ": they do not multiply");
  product.n_batches = a.product(0, rows);
  product.c = a.slice(0, rows);
  product.c.append(gemm.m);
  product.c.append(gemm.n);
  return product;
}

}  // namespace

void gemm(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const Floats bias = args.optional_floats("bias");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const Product product = product_of(args, a.shape, b.shape, transpose_a, transpose_b);
  const Gemm& shape = product.gemm;
  args.require_shape(bias, {shape.n});
  const Array<float> c = args.output("out", product.c);
  if (c.n_elements() == 0) return;

  ReusedScratch scratch(args.scratch());
  for (int64_t i = 0; i < product.n_batches; ++i, scratch.reuse()) {
    daf::gemm(shape, a.data + i * shape.m * shape.k, b.data + i * shape.k * shape.n, bias.data,
              c.data + i * shape.m * shape.n, scratch);
  }
}

void stored_gemm(Arguments& args) {
  const Floats other = args.floats("other");
  StoredValue stored(args);
  const bool stored_is_a = args.boolean("stored_is_a");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const Product product =
      product_of(args, stored_is_a ? stored.shape() : other.shape,
                 stored_is_a ? other.shape : stored.shape(), transpose_a, transpose_b);
  const Gemm& whole = product.gemm;
  const Array<float> c = args.output("out", product.c);
  ReusedScratch scratch(args.scratch());

  stored.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    if (product.c.rank() == 3) {  // samples are matrices
      for (int64_t i = 0; i < count; ++i) {
        const float* mine = part + i * stored.sample_elements();
        const float* theirs =
            other.data + (first + i) * (stored_is_a ? whole.k * whole.n : whole.m * whole.k);
        scratch.reuse();
        daf::gemm(whole, stored_is_a ? mine : theirs, stored_is_a ? theirs : mine, nullptr,
                  c.data + (first + i) * whole.m * whole.n, scratch);
      }
      return;
    }
    // Samples are rows of the stored matrix: of c, columns of c, or terms of the sum.
    Gemm shape = whole;
    const float* theirs = other.data;
    float* to = c.data;
    if (stored_is_a ? transpose_a : !transpose_b) {
      shape.k = count;
      shape.accumulate = first > 0;
      const bool rows_are_depth = stored_is_a ? !transpose_b : transpose_a;
      theirs += first * (rows_are_depth ? other.size(1) : 1);
    } else if (stored_is_a) {
      shape.m = count;
      to += first * shape.ldc;
    } else {
      shape.n = count;
      to += first;
    }
    scratch.reuse();
    daf::gemm(shape, stored_is_a ? part : theirs, stored_is_a ? theirs : part, nullptr, to,
              scratch);
  });
  stored.release();
}

}  // namespace daf::ops
