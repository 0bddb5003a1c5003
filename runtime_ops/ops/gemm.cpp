#include "runtime_ops/ops/activation_kind.h"
#include "runtime_ops/ops/operators.h"

namespace daf::ops {
namespace {

// op(a) op(b) of the last two axes; leaves lda, ldb and ldc as of matrices that lie alone.
Gemm read_product(Arguments& args, const Floats& a, const Floats& b, bool transpose_a,
                  bool transpose_b) {
  const int64_t rows = a.rank() - 2, columns = a.rank() - 1;
  Gemm shape;
  shape.m = a.size(transpose_a ? columns : rows);
  shape.k = a.size(transpose_a ? rows : columns);
  shape.n = b.size(transpose_b ? rows : columns);
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.lda = a.size(columns);
  shape.ldb = b.size(columns);
  shape.ldc = shape.n;

  Shape b_expected = a.shape.slice(0, rows);
  b_expected.append(transpose_b ? shape.n : shape.k);
  b_expected.append(transpose_b ? shape.k : shape.n);
  args.require_shape(b, b_expected);
  return shape;
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
  args.require_rank(a, 2, 3);
  args.require_rank(b, a.rank(), a.rank());
  const Gemm shape = read_product(args, a, b, transpose_a, transpose_b);
  args.require_shape(bias, {shape.n});
  args.require(a.rank() == 2 || bias.is_none, "a batch of products takes no bias");
  Shape c_shape = a.shape.slice(0, a.rank() - 2);
  c_shape.append(shape.m);
  c_shape.append(shape.n);
  const Array<float> c = args.output("out", c_shape);
  if (c.n_elements() == 0) return;
  if (a.rank() == 2) {
    return daf::gemm(shape, a.data, b.data, {1.0f, bias.data}, c.data, args.scratch());
  }
  const GemmBatch batch = {
      shape, 1, a.size(0), {0, shape.m * shape.k}, {0, shape.k * shape.n}, {0, shape.m * shape.n}};
  daf::batch_gemm(batch, a.data, b.data, 1.0f, c.data, args.scratch());
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
  const Gemm shape = read_product(args, a, b, transpose_a, transpose_b);
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
  const Gemm shape = read_product(args, a, b, transpose_a, transpose_b);
  args.require_shape(bias, {shape.n});
  const Array<float> c = args.output("out", {shape.m, shape.n});
  if (c.n_elements() == 0) return;
  daf::gemm(shape, a.data, b.data, {1.0f, bias.data, nullptr, bounds.low, bounds.high}, c.data,
            args.scratch());
}

void batch_gemm(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const bool transpose_a = args.boolean("transpose_a");
  const bool transpose_b = args.boolean("transpose_b");
  const bool a_rows_first = args.boolean("a_rows_first");
  const bool b_rows_first = args.boolean("b_rows_first");
  const bool out_rows_first = args.boolean("out_rows_first");
  const auto alpha = static_cast<float>(args.number("alpha"));
  args.require_rank(a, 4, 4);
  args.require_rank(b, 4, 4);
  const Heads at_a(a.shape, a_rows_first), at_b(b.shape, b_rows_first);
  const int64_t m = transpose_a ? at_a.columns : at_a.rows;
  const int64_t k = transpose_a ? at_a.rows : at_a.columns;
  const int64_t n = transpose_b ? at_b.rows : at_b.columns;
  args.require(at_a.batch == at_b.batch && at_a.heads == at_b.heads &&
                   k == (transpose_b ? at_b.columns : at_b.rows),
               "a has shape ", a.shape, " and b ", b.shape, ", which do not fit each other");
  const Shape shape =
      out_rows_first ? Shape{at_a.batch, m, at_a.heads, n} : Shape{at_a.batch, at_a.heads, m, n};
  const Heads at_c(shape, out_rows_first);
  const Array<float> c = args.output("out", shape);
  if (c.n_elements() == 0) return;
  const Gemm product = {
      m, n, k, transpose_a, transpose_b, at_a.row_stride, at_b.row_stride, at_c.row_stride};
  const GemmBatch batch = {product,
                           at_a.batch,
                           at_a.heads,
                           {at_a.step[0], at_a.step[1]},
                           {at_b.step[0], at_b.step[1]},
                           {at_c.step[0], at_c.step[1]}};
  daf::batch_gemm(batch, a.data, b.data, alpha, c.data, args.scratch());
}

}  // namespace daf::ops
