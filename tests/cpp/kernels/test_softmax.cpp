#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

// Calls body(offset of element 0, stride) for every vector softmax is taken of.
template <class Body>
void for_each_vector(const Softmax& s, Body body) {
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) body(o * s.n * s.inner + i, s.inner);
  }
}

void check(Softmax s, float spread = 4) {
  const int64_t size = s.outer * s.n * s.inner;
  const Floats x = random_floats(size, 1, -spread, spread), grad_y = random_floats(size, 2);
  for (const bool log : {false, true}) {
    SCOPED_TRACE(::testing::Message() << s.outer << "," << s.n << "," << s.inner << " log " << log);
    s.log = log;
    Doubles y(x.size()), grad(x.size());
    for_each_vector(s, [&](int64_t start, int64_t step) {
      double largest = -kInf, total = 0, sum = 0;
      for (int64_t k = 0; k < s.n; ++k) {
        largest = std::max<double>(largest, x[start + k * step]);
      }
      for (int64_t k = 0; k < s.n; ++k) total += std::exp(x[start + k * step] - largest);
      for (int64_t k = 0; k < s.n; ++k) {
        const int64_t i = start + k * step;
        const double log_p = x[i] - largest - std::log(total);
        y[i] = log ? log_p : std::exp(log_p);
        sum += log ? grad_y[i] : grad_y[i] * y[i];
      }
      for (int64_t k = 0; k < s.n; ++k) {
        const int64_t i = start + k * step;
        grad[i] = log ? grad_y[i] - std::exp(y[i]) * sum : y[i] * (grad_y[i] - sum);
      }
    });
    Floats actual = unset_floats(size), grad_x = unset_floats(size);
    softmax(s, x.data(), actual.data());
    expect_close(actual, y, 2e-6);
    softmax_backward(s, grad_y.data(), actual.data(), grad_x.data());
    expect_close(grad_x, grad);
  }
}

TEST(Softmax, EveryAxisPosition) {
  check({5, 10, 1, false});
  check({1, 1, 1, false});
  check({3, 1000, 1, false});
  check({2, 7, 3, false});
  check({2, 5, 64, false});
  check({2, 5, 65, false});
  check({1, 4, 200, false});
  check({0, 4, 2, false});
}

// What all gradients of a row have in common has no effect, also where rounding has left
// probabilities that do not add up to 1, or none at all.
TEST(Softmax, BackwardOfRoundedProbabilitiesIgnoresWhatGradientsShare) {
  for (const int64_t inner : {1, 3}) {
    const Softmax shape{2, 40, inner, false, true};
    const int64_t size = 2 * 40 * inner;
    Floats y = random_floats(size, 1, 0, 0.1f);
    std::fill_n(y.begin() + 40 * inner, 40 * inner, 0.0f);
    Floats grad_y = random_floats(size, 2), grad_x = unset_floats(size),
           shifted = unset_floats(size);
    softmax_backward(shape, grad_y.data(), y.data(), grad_x.data());
    for (int64_t i = 0; i < inner; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 40; ++k) sum += grad_x[k * inner + i];
      EXPECT_NEAR(sum, 0, 1e-6);
    }
    for (float& g : grad_y) g += 100;
    softmax_backward(shape, grad_y.data(), y.data(), shifted.data());
    expect_close(shifted, Doubles(grad_x.begin(), grad_x.end()), 1e-4);
    EXPECT_EQ(Floats(grad_x.begin() + 40 * inner, grad_x.end()), Floats(40 * inner, 0.0f));
  }
}

TEST(Softmax, LargeValuesDoNotOverflow) { check({4, 9, 1, false}, 500); }

TEST(Softmax, InfinityAndNan) {
  const auto at = [](bool log, Floats x) {
    Floats y = unset_floats(static_cast<int64_t>(x.size()));
    softmax({1, static_cast<int64_t>(x.size()), 1, log}, x.data(), y.data());
    return y;
  };
  EXPECT_EQ(at(false, {-kInf, 1}), (Floats{0, 1}));
  EXPECT_EQ(at(true, {-kInf, 1}), (Floats{-kInf, 0}));
  for (const Floats& x :
       {Floats{-kInf, -kInf}, Floats{kInf, 1}, Floats{kNan, 1}, Floats{1, kNan}}) {
    EXPECT_TRUE(std::isnan(at(false, x)[0])) << x[0];
    EXPECT_TRUE(std::isnan(at(true, x)[0])) << x[0];
  }
}

TEST(MaskedSoftmax, AddsTheMaskItBroadcasts) {
  const int64_t sizes[] = {2, 3, 4, 21}, n = 2 * 3 * 4 * 21;
  const Floats x = random_floats(n, 1, -4, 4);
  Floats mask = random_floats(n, 2);
  mask[3] = mask[20] = std::numeric_limits<float>::lowest();
  const int64_t all_strides[][4] = {{252, 84, 21, 1}, {21, 0, 0, 1}, {0, 0, 21, 1}, {0, 4, 1, 0}};
  for (const auto& strides : all_strides) {
    Floats sum(n), expected = unset_floats(n), y = x;
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = x[i] + mask[i / 252 * strides[0] + i / 84 % 3 * strides[1] +
                           i / 21 % 4 * strides[2] + i % 21 * strides[3]];
    }
    softmax({24, 21, 1, false}, sum.data(), expected.data());
    masked_softmax(4, sizes, strides, x.data(), mask.data(), y.data());
    EXPECT_EQ(y, expected);
    Floats in_place = x;
    masked_softmax(4, sizes, strides, in_place.data(), mask.data(), in_place.data());
    EXPECT_EQ(in_place, expected);
  }
}

}  // namespace
}  // namespace daf::testing
