#include <vector>

#include "runtime_ops/ops/operators.h"

namespace daf::ops {
namespace {

// Lends the same memory to each of several equal kernel calls: ExecuTorch takes it back only when
// the operator returns, and a batch of many small products would hold many times what it needs.
class ReusedScratch final : public Scratch {
 public:
  explicit ReusedScratch(Scratch& source) : source_(source) {}

  void* allocate(size_t size_bytes) override {
    if (n_lent_ == blocks_.size()) blocks_.push_back({source_.allocate(size_bytes), size_bytes});
    Block& block = blocks_[n_lent_++];
    if (block.size_bytes < size_bytes) block = {source_.allocate(size_bytes), size_bytes};
    return block.memory;
  }
  void reuse() { n_lent_ = 0; }

 private:
  struct Block {
    void* memory;
    size_t size_bytes;
  };
  Scratch& source_;
  std::vector<Block> blocks_;
  size_t n_lent_ = 0;
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

  const int64_t rows = a.rank() - 2, columns = a.rank() - 1;  // the axes as they lie in memory
  Gemm shape;
  shape.m = a.size(transpose_a ? columns : rows);
  shape.k = a.size(transpose_a ? rows : columns);
  shape.n = b.size(transpose_b ? rows : columns);
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.lda = a.size(columns);
  shape.ldb = b.size(columns);
  shape.ldc = shape.n;

  Shape b_expected = a.shape.slice(0, rows), c_shape = b_expected;
  b_expected.append(transpose_b ? shape.n : shape.k);
  b_expected.append(transpose_b ? shape.k : shape.n);
  args.require_shape(b, b_expected);
  args.require_shape(bias, {shape.n});
  c_shape.append(shape.m);
  c_shape.append(shape.n);
  const Array<float> c = args.output("out", c_shape);
  if (c.n_elements() == 0) return;

  const int64_t n_batches = a.shape.product(0, rows);
  ReusedScratch scratch(args.scratch());
  for (int64_t i = 0; i < n_batches; ++i, scratch.reuse()) {
    daf::gemm(shape, a.data + i * shape.m * shape.k, b.data + i * shape.k * shape.n, bias.data,
              c.data + i * shape.m * shape.n, scratch);
  }
}

}  // namespace daf::ops
