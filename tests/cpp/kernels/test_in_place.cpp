// The planner of memory lets an operator write over what it reads (exporter/plan_memory.py), where
// kernels.h says that it may: the result is then the same, to the bit.
#include <cstring>
#include <functional>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

// kernel(x, y) reads x and writes y; both have as many elements.
void expect_same_in_place(const Floats& x,
                          const std::function<void(const float*, float*)>& kernel) {
  Floats apart = unset_floats(static_cast<int64_t>(x.size())), in_place = x;
  kernel(x.data(), apart.data());
  kernel(in_place.data(), in_place.data());
  EXPECT_EQ(std::memcmp(in_place.data(), apart.data(), x.size() * sizeof(float)), 0);
}

// Sizes with and without a part of a vector at the end.
const int64_t kSizes[] = {1, 7, 64, 1003};

TEST(InPlace, Activations) {
  for (int kind = 0; kind <= static_cast<int>(Activation::kExp); ++kind) {
    SCOPED_TRACE(::testing::Message() << "activation " << kind);
    const auto which = static_cast<Activation>(kind);
    for (const int64_t n : kSizes) {
      const Floats x = random_floats(n, 1, -4, 4), saved = random_floats(n, 2, -4, 4);
      expect_same_in_place(
          x, [&](const float* in, float* out) { activation(which, 0.5f, 2, n, in, out); });
      expect_same_in_place(x, [&](const float* in, float* out) {
        activation_backward(which, 0.5f, 2, n, in, saved.data(), out);
      });
    }
  }
}

TEST(InPlace, ActivationsWithMask) {
  for (const Activation kind : {Activation::kRelu, Activation::kHardtanh, Activation::kLeakyRelu}) {
    for (const int64_t n : kSizes) {
      const Floats x = random_floats(n, 1, -4, 4);
      std::vector<uint32_t> mask(static_cast<size_t>((n + 31) / 32)), first;
      expect_same_in_place(x, [&](const float* in, float* out) {
        first = mask;
        activation_with_mask(kind, -1, 2, n, in, out, mask.data());
      });
      EXPECT_EQ(mask, first);
      expect_same_in_place(
          x, [&](const float* in, float* out) { apply_mask(n, mask.data(), 0, 0.5f, in, out); });
    }
  }
}

TEST(InPlace, BatchNorm) {
  for (const int64_t spatial : {1, 9, 64, 100}) {
    for (const float low : {kNoBound, 0.0f}) {
      const BatchNorm s{3, 5, spatial, 1e-5f, low, kNoBound};
      const int64_t size = s.n * s.c * s.spatial;
      const Floats x = random_floats(size, 1, -2, 3), grad = random_floats(size, 2);
      const Floats weight = random_floats(s.c, 3), bias = random_floats(s.c, 4);
      Floats mean(5), var(5), running_mean(5), running_var(5), y(x.size()), of_weight(5),
          of_bias(5);
      expect_same_in_place(x, [&](const float* in, float* out) {
        batch_norm_train(s, in, weight.data(), bias.data(), nullptr, nullptr, 0.1f, out,
                         mean.data(), var.data(), running_mean.data(), running_var.data());
      });
      expect_same_in_place(x, [&](const float* in, float* out) {
        batch_norm_eval(s, in, weight.data(), bias.data(), mean.data(), var.data(), out);
      });
      batch_norm_eval(s, x.data(), weight.data(), bias.data(), mean.data(), var.data(), y.data());
      for (const bool batch_statistics : {false, true}) {
        expect_same_in_place(grad, [&](const float* in, float* out) {
          batch_norm_backward(s, batch_statistics, in, y.data(), x.data(), weight.data(),
                              mean.data(), var.data(), out, of_weight.data(), of_bias.data());
        });
      }
    }
  }
}

TEST(InPlace, Arithmetic) {
  for (const Arithmetic kind :
       {Arithmetic::kAdd, Arithmetic::kSubtract, Arithmetic::kMultiply, Arithmetic::kDivide}) {
    const int64_t sizes[] = {3, 5, 13}, whole[] = {65, 13, 1}, repeated[] = {0, 1, 0};
    const Floats a = random_floats(195, 1), b = random_floats(195, 2, 1, 2);
    expect_same_in_place(a, [&](const float* in, float* out) {
      arithmetic(kind, 3, sizes, whole, whole, in, b.data(), out);
    });
    expect_same_in_place(b, [&](const float* in, float* out) {
      arithmetic(kind, 3, sizes, whole, whole, a.data(), in, out);
    });
    expect_same_in_place(a, [&](const float* in, float* out) {
      arithmetic(kind, 3, sizes, whole, repeated, in, b.data(), out);
    });
    expect_same_in_place(b, [&](const float* in, float* out) {
      arithmetic(kind, 3, sizes, repeated, whole, a.data(), in, out);
    });
  }
  for (const int64_t n : kSizes) {
    const Floats a = random_floats(n, 1), b = random_floats(n, 2);
    expect_same_in_place(
        a, [&](const float* in, float* out) { add_clamped(n, 0, 0.5f, in, b.data(), out); });
    expect_same_in_place(
        b, [&](const float* in, float* out) { add_clamped(n, 0, 0.5f, a.data(), in, out); });
  }
}

TEST(InPlace, Softmax) {
  for (const int64_t inner : {1, 3, 65}) {
    for (const bool log : {false, true}) {
      const Softmax s{4, 37, inner, log};
      const int64_t size = s.outer * s.n * s.inner;
      const Floats x = random_floats(size, 1, -3, 3), grad = random_floats(size, 2);
      Floats y = unset_floats(size);
      softmax(s, x.data(), y.data());
      expect_same_in_place(
          grad, [&](const float* in, float* out) { softmax_backward(s, in, y.data(), out); });
      if (log) continue;
      const Softmax rounded{s.outer, s.n, s.inner, false, true};
      expect_same_in_place(
          grad, [&](const float* in, float* out) { softmax_backward(rounded, in, y.data(), out); });
    }
  }
  const int64_t sizes[] = {2, 3, 37}, strides[] = {0, 37, 1};
  const Floats x = random_floats(222, 1, -3, 3), mask = random_floats(111, 2, -3, 0);
  expect_same_in_place(x, [&](const float* in, float* out) {
    masked_softmax(3, sizes, strides, in, mask.data(), out);
  });
}

TEST(InPlace, CrossEntropy) {
  const int64_t target[] = {3, 0, 40, 7, -100};
  const NllLoss s{5, 41, 1, -100, Reduction::kMean};
  float loss;
  expect_same_in_place(random_floats(205, 1, -3, 3), [&](const float* in, float* out) {
    EXPECT_TRUE(cross_entropy(s, in, target, nullptr, &loss, out));
  });
}

}  // namespace
}  // namespace daf::testing
