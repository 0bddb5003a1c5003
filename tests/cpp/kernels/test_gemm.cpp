#include <algorithm>
#include <string>
#include <tuple>

#include "runtime_ops/kernels/blocks.h"
#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

struct Problem {
  Gemm shape;
  Floats a, b, bias;
};

// Rows are a little longer than they need to be, so that strides are exercised.
Problem make_problem(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  Problem p;
  p.shape = {
      m,    n, k, transpose_a, transpose_b, (transpose_a ? m : k) + 3, (transpose_b ? k : n) + 1,
      n + 2};
  p.a = random_floats((transpose_a ? k : m) * p.shape.lda, 1);
  p.b = random_floats((transpose_b ? n : k) * p.shape.ldb, 2);
  p.bias = random_floats(n, 3);
  return p;
}

Doubles reference(const Problem& p, bool with_bias, const Floats& untouched) {
  const Gemm& s = p.shape;
  Doubles c = to_doubles(untouched);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double total = with_bias ? p.bias[j] : 0.0;
      for (int64_t q = 0; q < s.k; ++q) {
        const double a = s.transpose_a ? p.a[q * s.lda + i] : p.a[i * s.lda + q];
        const double b = s.transpose_b ? p.b[j * s.ldb + q] : p.b[q * s.ldb + j];
        total += a * b;
      }
      c[i * s.ldc + j] = total;
    }
  }
  return c;
}

void check(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, bool with_bias) {
  SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k << (transpose_a ? " ta" : "")
                                    << (transpose_b ? " tb" : "") << (with_bias ? " bias" : ""));
  const Problem p = make_problem(m, n, k, transpose_a, transpose_b);
  Floats c(static_cast<size_t>(m * p.shape.ldc), 7.0f);  // what lies between rows stays as it is
  const Doubles expected = reference(p, with_bias, c);
  VectorScratch scratch;
  gemm(p.shape, p.a.data(), p.b.data(), {1.0f, with_bias ? p.bias.data() : nullptr}, c.data(),
       scratch);
  expect_close(c, expected);
}

TEST(Gemm, EveryTransposeOfEverySmallShape) {
  for (int64_t m : {1, 3, 4, 5, 13}) {
    for (int64_t n : {1, 7, 8, 9, 12, 17}) {
      for (int64_t k : {1, 2, 8, 31}) {
        for (int flags = 0; flags < 8; ++flags) {
          check(m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0);
        }
      }
    }
  }
}

TEST(Gemm, ShapesBelowAtAndAboveABlock) {
  for (int64_t difference : {-1, 0, 1}) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
      check(kMc + difference, 10, 20, ta, tb, true);
      check(10, kNc + difference, 20, ta, tb, true);
      check(10, 20, kKc + difference, ta, tb, true);
      check(10, 20, 2 * kKc + difference, ta, tb, true);
    }
  }
  check(kMc + 5, kNc + 3, kKc + 7, false, false, true);
}

TEST(Gemm, EmptyDimensions) {
  check(0, 5, 4, false, false, true);
  check(5, 0, 4, false, true, true);
  check(5, 6, 0, false, false, true);  // only the bias
  check(5, 6, 0, true, true, false);   // zeros
}

TEST(Gemm, NanAndInfReachTheirRowAndColumnOnly) {
  Problem p = make_problem(6, 9, 11, false, false);
  p.a[2 * p.shape.lda + 4] = kNan;
  p.b[5 * p.shape.ldb + 3] = kInf;
  Floats c(static_cast<size_t>(6 * p.shape.ldc), 7.0f);
  const Doubles expected = reference(p, false, c);
  VectorScratch scratch;
  gemm(p.shape, p.a.data(), p.b.data(), {}, c.data(), scratch);
  expect_close(c, expected);
}

TEST(Gemm, ScalesAddsAndClampsInOnePass) {
  for (const int64_t k : {5, 700}) {  // of one block of depth and of several
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{13, 21}, {24, 32}}) {
      const Problem p = make_problem(m, n, k, false, true);
      const Floats addend = random_floats(m * p.shape.ldc, 4);
      Floats c(static_cast<size_t>(m * p.shape.ldc), 7.0f);
      Doubles expected = reference(p, false, c);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double& v = expected[i * p.shape.ldc + j];
          v = 0.5 * v + p.bias[j] + addend[i * p.shape.ldc + j];
          v = std::min(std::max(v, -0.5), 0.75);
        }
      }
      VectorScratch scratch;
      gemm(p.shape, p.a.data(), p.b.data(), {0.5f, p.bias.data(), addend.data(), -0.5f, 0.75f},
           c.data(), scratch);
      expect_close(c, expected);
    }
  }
}

// Products of heads that lie as [batch, row, head, column], written in the same order.
TEST(BatchGemm, ReadsAndWritesHeadsWhereTheyLie) {
  const int64_t batch = 2, heads = 3, m = 13, n = 9, k = 10;
  const Floats a = random_floats(batch * m * heads * k, 1);
  const Floats b = random_floats(batch * n * heads * k, 2);
  Doubles expected(batch * m * heads * n);
  for (int64_t q = 0; q < batch; ++q) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double total = 0;
          for (int64_t p = 0; p < k; ++p) {
            total += static_cast<double>(a[((q * m + i) * heads + h) * k + p]) *
                     b[((q * n + j) * heads + h) * k + p];
          }
          expected[((q * m + i) * heads + h) * n + j] = 0.25 * total;
        }
      }
    }
  }
  const GemmBatch shape = {{m, n, k, false, true, heads * k, heads * k, heads * n},
                           batch,
                           heads,
                           {m * heads * k, k},
                           {n * heads * k, k},
                           {m * heads * n, n}};
  const int before = n_threads();
  for (const int threads : {1, 2, 8}) {  // more than there are products: they are shared
    set_threads(threads);
    Floats c = unset_floats(batch * m * heads * n);
    VectorScratch scratch;
    batch_gemm(shape, a.data(), b.data(), 0.25f, c.data(), scratch);
    expect_close(c, expected);
    EXPECT_LE(scratch.size_bytes(), max_scratch_bytes());
  }
  set_threads(before);
}

TEST(Gemm, ScratchIsBounded) {
  const Problem p = make_problem(300, 1100, 600, false, false);
  Floats c(static_cast<size_t>(300 * p.shape.ldc));
  VectorScratch scratch;
  gemm(p.shape, p.a.data(), p.b.data(), {}, c.data(), scratch);
  EXPECT_LE(scratch.size_bytes(), max_scratch_bytes());
}

// Products that threads share in every way: many rows (with several blocks of columns and depth,
// and the last ones not whole), few rows, next to nothing.
TEST(Gemm, IsTheSameForAnyNumberOfThreads) {
  const int64_t shapes[][3] = {{517, 811, 700}, {193, 17, 1300}, {1030, 390, 330},
                               {100, 900, 400}, {400, 1, 5000},  {200, 100, 3}};
  const int before = n_threads();
  for (const auto& [m, n, k] : shapes) {
    const Problem p = make_problem(m, n, k, false, true);
    Floats alone;
    for (const int threads : {1, 2, 3, 8}) {
      set_threads(threads);
      Floats c(static_cast<size_t>(m * p.shape.ldc));
      VectorScratch scratch;
      gemm(p.shape, p.a.data(), p.b.data(), {}, c.data(), scratch);
      EXPECT_LE(scratch.size_bytes(), max_scratch_bytes());
      if (threads == 1) alone = c;
      EXPECT_EQ(c, alone) << m << "x" << n << "x" << k << " on " << threads << " threads";
    }
  }
  set_threads(before);
}

// A row's result does not depend on how many other rows there are: batch size changes nothing.
TEST(Gemm, SumOrderDependsOnDepthAlone) {
  const Problem p = make_problem(37, 19, 700, false, false);
  Floats whole(static_cast<size_t>(37 * p.shape.ldc)), one(static_cast<size_t>(p.shape.ldc));
  VectorScratch scratch;
  gemm(p.shape, p.a.data(), p.b.data(), {}, whole.data(), scratch);
  for (int64_t row : {0, 5, 36}) {
    Gemm single = p.shape;
    single.m = 1;
    gemm(single, p.a.data() + row * p.shape.lda, p.b.data(), {}, one.data(), scratch);
    for (int64_t j = 0; j < 19; ++j) EXPECT_EQ(one[j], whole[row * p.shape.ldc + j]);
  }
}

}  // namespace
}  // namespace daf::testing
