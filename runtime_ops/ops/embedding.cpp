#include "runtime_ops/ops/operators.h"

namespace daf::ops {
namespace {

void require_inside(const Arguments& args, const Indices& index, int64_t n_rows) {
  for (int64_t i = 0; i < index.n_elements(); ++i) {
    args.require(index.data[i] >= 0 && index.data[i] < n_rows, "index ", index.data[i],
                 " is outside [0, ", n_rows, ")");
  }
}

}  // namespace

void embedding(Arguments& args) {
  const Floats weight = args.floats("weight");
  const Indices index = args.indices("index");
  args.require_rank(weight, 2, 2);
  args.require_rank(index, 0, Shape::kMaxRank - 1);
  const int64_t n_rows = weight.size(0), dim = weight.size(1);

  Shape shape = index.shape;
  shape.append(dim);
  const Array<float> y = args.output("out", shape);
  if (!daf::embedding(n_rows, dim, index.n_elements(), weight.data, index.data, y.data)) {
    require_inside(args, index, n_rows);  // names the index
  }
}

void embedding_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Indices index = args.indices("index");
  const int64_t n_rows = args.integer("n_rows");
  const int64_t padding_idx = args.integer("padding_idx");
  args.require_rank(index, 0, Shape::kMaxRank - 1);
  args.require_rank(grad, index.rank() + 1, index.rank() + 1);
  const int64_t dim = grad.size(index.rank());
  Shape expected = index.shape;
  expected.append(dim);
  args.require_shape(grad, expected);

  const Array<float> grad_weight = args.output("out", {n_rows, dim});
  if (!daf::embedding_backward(n_rows, dim, index.n_elements(), padding_idx, grad.data, index.data,
                               grad_weight.data)) {
    require_inside(args, index, n_rows);
  }
}

}  // namespace daf::ops
