#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

struct Expected {
  Doubles y, mean, rstd, grad_x, grad_weight, grad_bias;
};

Expected reference(const GroupNorm& s, const Floats& x, const float* weight, const float* bias,
                   const Floats& grad_y) {
  const int64_t n = s.c / s.groups * s.spatial, instances = s.n * s.groups;
  Expected e{Doubles(x.size()), Doubles(instances), Doubles(instances),
             Doubles(x.size()), Doubles(s.c),       Doubles(s.c)};
  for (int64_t instance = 0; instance < instances; ++instance) {
    const int64_t start = instance * n;
    double mean = 0, var = 0, sum_grad = 0, sum_grad_normal = 0;
    for (int64_t i = start; i < start + n; ++i) mean += x[i] / static_cast<double>(n);
    for (int64_t i = start; i < start + n; ++i) {
      var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    }
    const double rstd = 1 / std::sqrt(var + s.eps);
    e.mean[instance] = mean;
    e.rstd[instance] = rstd;
    const auto factor = [&](int64_t i) { return weight ? weight[i / s.spatial % s.c] : 1.0; };
    for (int64_t i = start; i < start + n; ++i) {
      const int64_t c = i / s.spatial % s.c;
      const double normal = (x[i] - mean) * rstd;
      e.y[i] = normal * factor(i) + (bias ? bias[c] : 0.0);
      e.grad_weight[c] += grad_y[i] * normal;
      e.grad_bias[c] += grad_y[i];
      sum_grad += grad_y[i] * factor(i) / static_cast<double>(n);
      sum_grad_normal += grad_y[i] * factor(i) * normal / static_cast<double>(n);
    }
    for (int64_t i = start; i < start + n; ++i) {
      const double normal = (x[i] - mean) * rstd;
      e.grad_x[i] = rstd * (grad_y[i] * factor(i) - sum_grad - normal * sum_grad_normal);
    }
  }
  return e;
}

void check(const GroupNorm& s, bool affine) {
  SCOPED_TRACE(::testing::Message() << s.n << "x" << s.c << "x" << s.spatial << " in " << s.groups);
  const int64_t size = s.n * s.c * s.spatial;
  const Floats x = random_floats(size, 1, -1, 4), w = random_floats(s.c, 2),
               b = random_floats(s.c, 3), grad_y = random_floats(size, 4);
  const float* weight = affine ? w.data() : nullptr;
  const float* bias = affine ? b.data() : nullptr;
  const Expected expected = reference(s, x, weight, bias, grad_y);

  Floats y = unset_floats(size), mean = unset_floats(s.n * s.groups), rstd = mean;
  group_norm(s, x.data(), weight, bias, y.data(), mean.data(), rstd.data());
  expect_close(y, expected.y);
  expect_close(mean, expected.mean);
  expect_close(rstd, expected.rstd);

  Floats grad_x = unset_floats(size), grad_weight = unset_floats(s.c), grad_bias = grad_weight;
  group_norm_backward(s, grad_y.data(), x.data(), weight, mean.data(), rstd.data(), grad_x.data(),
                      grad_weight.data(), grad_bias.data());
  expect_close(grad_x, expected.grad_x);
  expect_close(grad_weight, expected.grad_weight);
  expect_close(grad_bias, expected.grad_bias);
}

TEST(GroupNorm, ForwardAndBackwardMatchTheDefinition) {
  for (const bool affine : {true, false}) {
    check({2, 6, 20, 3, 1e-5f}, affine);
    check({3, 4, 9, 1, 1e-5f}, affine);   // as LayerNorm over channels
    check({2, 5, 33, 5, 1e-4f}, affine);  // as InstanceNorm
    check({4, 8, 1, 2, 1e-5f}, affine);
  }
}

TEST(GroupNorm, EmptyBatchGivesZeroGradients) { check({0, 4, 9, 2, 1e-5f}, true); }

TEST(GroupNorm, GradientsNotAskedForAreNotComputed) {
  const GroupNorm s = {2, 4, 3, 2, 1e-5f};
  const Floats x = random_floats(24, 1), grad_y = random_floats(24, 2), mean(4), rstd(4, 1.0f);
  Floats all[3] = {Floats(24), Floats(4), Floats(4)};
  group_norm_backward(s, grad_y.data(), x.data(), nullptr, mean.data(), rstd.data(), all[0].data(),
                      all[1].data(), all[2].data());
  for (int wanted = 0; wanted < 3; ++wanted) {
    Floats one = unset_floats(static_cast<int64_t>(all[wanted].size()));
    const auto out = [&](int i) { return i == wanted ? one.data() : nullptr; };
    group_norm_backward(s, grad_y.data(), x.data(), nullptr, mean.data(), rstd.data(), out(0),
                        out(1), out(2));
    EXPECT_EQ(one, all[wanted]);
  }
}

}  // namespace
}  // namespace daf::testing
