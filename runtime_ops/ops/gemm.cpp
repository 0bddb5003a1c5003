#include "runtime_ops/ops/activation_kind.h"
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"

namespace daf::ops {
namespace {

// Terms of a sum that a product should have at once. As MIN_DEPTH in
// exporter/compress_activations.py.
constexpr int64_t kMinDepth = 256;

// op(a) op(b) of the last two axes; leaves lda, ldb and ldc as of matrices that lie alone.
Gemm product_of(const Arguments& args, const Shape& a, const Shape& b, bool transpose_a,
                bool transpose_b) {
  args.require(a.rank() == b.rank() && (a.rank() == 2 || a.rank() == 3), "a has shape ", a,
               ", b has shape ", b, ": expected two matrices or two batches of them");
  const int64_t rows = a.rank() - 2, columns = a.rank() - 1;
  Gemm shape;
  shape.m = a[transpose_a ? columns : rows];
  shape.k = a[transpose_a ? rows : columns];
  shape.n = b[transpose_b ? rows : columns];
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.lda = a[columns];
  shape.ldb = b[columns];
  shape.ldc = shape.n;
  args.require(b[transpose_b ? columns : rows] == shape.k && a.slice(0, rows) == b.slice(0, rows),
               "a has shape ", a, ", b has shape ", b, ": they do not multiply");
  return shape;
}

Shape result_shape(const Gemm& product, const Shape& a) {
  Shape c = a.slice(0, a.rank() - 2);
  c.append(product.m);
  c.append(product.n);
  return c;
}

// As many matrices as a.size(0), one after the other.
GemmBatch batch_of(const Gemm& shape, int64_t n_products) {
  return {
      shape, 1, n_products, {0, shape.m * shape.k}, {0, shape.k * shape.n}, {0, shape.m * shape.n}};
}

// An operand of batch_gemm: [batch, heads, rows, columns], or [batch, rows, heads, columns] where
// `rows_first`.
struct Heads {
  int64_t batch, heads, rows, columns, row_stride, step[2];

  Heads(const Shape& shape, bool rows_first)
      : batch(shape[0]),
        heads(shape[rows_first ? 2 : 1]),
        rows(shape[rows_first ? 1 : 2]),
        columns(shape[3]),
        row_stride(rows_first ? heads * columns : columns),
        step{heads * rows * columns, rows_first ? columns : rows * columns} {}
};

}  // namespace

void gemm(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const Floats bias = args.optional_floats("bias");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const Gemm shape = product_of(args, a.shape, b.shape, transpose_a, transpose_b);
  args.require_shape(bias, {shape.n});
  args.require(a.rank() == 2 || bias.is_none, "a batch of products takes no bias");
  const Array<float> c = args.output("out", result_shape(shape, a.shape));
  if (c.n_elements() == 0) return;
  if (a.rank() == 2) {
    return daf::gemm(shape, a.data, b.data, {1.0f, bias.data}, c.data, args.scratch());
  }
  daf::batch_gemm(batch_of(shape, a.size(0)), a.data, b.data, 1.0f, c.data, args.scratch());
}

void gemm_add(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const Floats bias = args.optional_floats("bias");
  const Floats addend = args.optional_floats("addend");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const auto alpha = static_cast<float>(args.number("alpha"));
  args.require_rank(a, 2, 2);
  args.require_rank(b, 2, 2);
  const Gemm shape = product_of(args, a.shape, b.shape, transpose_a, transpose_b);
  args.require_shape(bias, {shape.n});
  args.require_shape(addend, {shape.m, shape.n});
  const Array<float> c = args.output("out", {shape.m, shape.n});
  if (c.n_elements() == 0) return;
  daf::gemm(shape, a.data, b.data, {alpha, bias.data, addend.data}, c.data, args.scratch());
}

void gemm_activation(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const Floats bias = args.optional_floats("bias");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const Bounds bounds = read_bounds(args);
  args.require_rank(a, 2, 2);
  args.require_rank(b, 2, 2);
  const Gemm shape = product_of(args, a.shape, b.shape, transpose_a, transpose_b);
  args.require_shape(bias, {shape.n});
  const Array<float> c = args.output("out", {shape.m, shape.n});
  if (c.n_elements() == 0) return;
  daf::gemm(shape, a.data, b.data, {1.0f, bias.data, nullptr, bounds.low, bounds.high}, c.data,
            args.scratch());
}

namespace {

// The flags of batch_gemm, and what follows from them and the shapes of its operands.
struct HeadsProduct {
  GemmBatch batch;
  Shape c;
  float alpha;
};

HeadsProduct read_heads_product(Arguments& args, const Shape& a, const Shape& b) {
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const bool a_rows_first = args.boolean("a_rows_first");
  const bool b_rows_first = args.boolean("b_rows_first");
  const bool out_rows_first = args.boolean("out_rows_first");
  const auto alpha = static_cast<float>(args.number("alpha"));
  args.require(a.rank() == 4 && b.rank() == 4, "a has shape ", a, " and b ", b,
               ", expected four axes");
  const Heads at_a(a, a_rows_first), at_b(b, b_rows_first);
  const int64_t m = transpose_a ? at_a.columns : at_a.rows;
  const int64_t k = transpose_a ? at_a.rows : at_a.columns;
  const int64_t n = transpose_b ? at_b.rows : at_b.columns;
  args.require(at_a.batch == at_b.batch && at_a.heads == at_b.heads &&
                   k == (transpose_b ? at_b.columns : at_b.rows),
               "a has shape ", a, " and b ", b, ", which do not fit each other");
  const Shape c =
      out_rows_first ? Shape{at_a.batch, m, at_a.heads, n} : Shape{at_a.batch, at_a.heads, m, n};
  const Heads at_c(c, out_rows_first);
  const Gemm product = {
      m, n, k, transpose_a, transpose_b, at_a.row_stride, at_b.row_stride, at_c.row_stride};
  return {{product,
           at_a.batch,
           at_a.heads,
           {at_a.step[0], at_a.step[1]},
           {at_b.step[0], at_b.step[1]},
           {at_c.step[0], at_c.step[1]}},
          c,
          alpha};
}

}  // namespace

void batch_gemm(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const HeadsProduct product = read_heads_product(args, a.shape, b.shape);
  const Array<float> c = args.output("out", product.c);
  if (c.n_elements() == 0) return;
  daf::batch_gemm(product.batch, a.data, b.data, product.alpha, c.data, args.scratch());
}

namespace {

// Each value of `other` meets an error of the stored operand in n_uses places of c.
void weigh(StoredValue& stored, int64_t n_uses, float alpha, const Floats& other,
           const Array<float>& c) {
  stored.weigh([&] {
    const double error = static_cast<double>(n_uses) * alpha * alpha * square_norm(other);
    return relative(error, square_norm(c));
  });
}

}  // namespace

void stored_batch_gemm(Arguments& args) {
  const Floats other = args.floats("other");
  StoredValue stored(args);
  const bool stored_is_a = args.boolean("stored_is_a");
  HeadsProduct product = read_heads_product(args, stored_is_a ? stored.shape() : other.shape,
                                            stored_is_a ? other.shape : stored.shape());
  GemmBatch& batch = product.batch;
  const Array<float> c = args.output("out", product.c);
  ReusedScratch scratch(args.scratch());
  stored.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    batch.outer = count;
    const float* theirs = other.data + first * (stored_is_a ? batch.b_step : batch.a_step)[0];
    scratch.reuse();
    daf::batch_gemm(batch, stored_is_a ? part : theirs, stored_is_a ? theirs : part, product.alpha,
                    c.data + first * batch.c_step[0], scratch);
  });
  weigh(stored, stored_is_a ? batch.product.m : batch.product.n, product.alpha, other, c);
  stored.release();
}

void stored_gemm(Arguments& args) {
  const Floats other = args.floats("other");
  StoredValue stored(args);
  const bool stored_is_a = args.boolean("stored_is_a");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const Shape& a = stored_is_a ? stored.shape() : other.shape;
  const Gemm whole =
      product_of(args, a, stored_is_a ? other.shape : stored.shape(), transpose_a, transpose_b);
  const Array<float> c = args.output("out", result_shape(whole, a));
  ReusedScratch scratch(args.scratch());
  const auto multiply = [&](const Gemm& shape, const float* part, const float* theirs,
                            const float* addend, float* to) {
    scratch.reuse();
    daf::gemm(shape, stored_is_a ? part : theirs, stored_is_a ? theirs : part,
              {1.0f, nullptr, addend}, to, scratch);
  };

  if (a.rank() == 3) {  // samples are matrices
    const int64_t their_step = stored_is_a ? whole.k * whole.n : whole.m * whole.k;
    stored.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
      const float* theirs = other.data + first * their_step;
      scratch.reuse();
      daf::batch_gemm(batch_of(whole, count), stored_is_a ? part : theirs,
                      stored_is_a ? theirs : part, 1.0f, c.data + first * whole.m * whole.n,
                      scratch);
    });
    weigh(stored, stored_is_a ? whole.m : whole.n, 1.0f, other, c);
    return stored.release();
  }
  // Samples are rows of the stored matrix: terms of the sum, rows of c, or columns of c.
  const bool are_terms = stored_is_a ? transpose_a : !transpose_b;
  if (are_terms) stored.read_at_least(kMinDepth);
  stored.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    Gemm shape = whole;
    if (are_terms) {
      shape.k = count;
      const bool rows_are_terms = stored_is_a ? !transpose_b : transpose_a;
      multiply(shape, part, other.data + first * (rows_are_terms ? other.size(1) : 1),
               first > 0 ? c.data : nullptr, c.data);
    } else {
      (stored_is_a ? shape.m : shape.n) = count;
      multiply(shape, part, other.data, nullptr, c.data + first * (stored_is_a ? shape.ldc : 1));
    }
  });
  weigh(stored, stored_is_a ? whole.m : whole.n, 1.0f, other, c);
  stored.release();
}

}  // namespace daf::ops
