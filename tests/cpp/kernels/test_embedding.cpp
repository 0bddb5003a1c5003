#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

using Indices = std::vector<int64_t>;

TEST(Embedding, CopiesRows) {
  const Floats weight = {0, 1, 10, 11, 20, 21};
  const Indices index = {2, 0, 2};
  Floats y = unset_floats(6);
  ASSERT_TRUE(embedding(3, 2, 3, weight.data(), index.data(), y.data()));
  EXPECT_EQ(y, (Floats{20, 21, 0, 1, 20, 21}));
}

TEST(Embedding, GradientAddsUpRepeatedRowsAndSkipsPadding) {
  const Floats grad_y = {1, 2, 3, 4, 5, 6, 7, 8};
  const Indices index = {2, 0, 2, 1};
  Floats grad = unset_floats(8);
  ASSERT_TRUE(embedding_backward(4, 2, 4, -1, grad_y.data(), index.data(), grad.data()));
  EXPECT_EQ(grad, (Floats{3, 4, 7, 8, 6, 8, 0, 0}));
  ASSERT_TRUE(embedding_backward(4, 2, 4, 2, grad_y.data(), index.data(), grad.data()));
  EXPECT_EQ(grad, (Floats{3, 4, 7, 8, 0, 0, 0, 0}));
}

TEST(Embedding, RefusesIndicesOutsideTheTable) {
  const Floats weight(6), grad_y(2);
  Floats y(2), grad(6);
  for (const int64_t index : {int64_t{-1}, int64_t{3}, int64_t{1} << 62}) {
    EXPECT_FALSE(embedding(3, 2, 1, weight.data(), &index, y.data()));
    EXPECT_FALSE(embedding_backward(3, 2, 1, -1, grad_y.data(), &index, grad.data()));
  }
}

TEST(Embedding, NoIndices) {
  const Floats weight(6);
  Floats grad = unset_floats(6);
  EXPECT_TRUE(embedding(3, 2, 0, weight.data(), nullptr, nullptr));
  EXPECT_TRUE(embedding_backward(3, 2, 0, -1, nullptr, nullptr, grad.data()));
  EXPECT_EQ(grad, Floats(6, 0.0f));
}

}  // namespace
}  // namespace daf::testing
