#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

struct Expected {
  Doubles y, mean, rstd, grad_x, grad_weight, grad_bias;
};

Expected reference(const LayerNorm& s, const Floats& x, const float* weight, const float* bias,
                   const Floats& grad_y) {
  const double n = static_cast<double>(s.n);
  Expected e{Doubles(x.size()), Doubles(s.rows), Doubles(s.rows),
             Doubles(x.size()), Doubles(s.n),    Doubles(s.n)};
  for (int64_t row = 0; row < s.rows; ++row) {
    const float* v = x.data() + row * s.n;
    const float* g = grad_y.data() + row * s.n;
    double mean = 0, var = 0, sum_grad = 0, sum_grad_normal = 0;
    for (int64_t i = 0; i < s.n; ++i) mean += v[i] / n;
    for (int64_t i = 0; i < s.n; ++i) var += (v[i] - mean) * (v[i] - mean) / n;
    const double rstd = 1 / std::sqrt(var + s.eps);
    e.mean[row] = mean;
    e.rstd[row] = rstd;
    for (int64_t i = 0; i < s.n; ++i) {
      const double normal = (v[i] - mean) * rstd, w = weight ? weight[i] : 1.0;
      e.y[row * s.n + i] = normal * w + (bias ? bias[i] : 0.0);
      e.grad_weight[i] += g[i] * normal;
      e.grad_bias[i] += g[i];
      sum_grad += g[i] * w;
      sum_grad_normal += g[i] * w * normal;
    }
    for (int64_t i = 0; i < s.n; ++i) {
      const double normal = (v[i] - mean) * rstd, w = weight ? weight[i] : 1.0;
      e.grad_x[row * s.n + i] = rstd * (g[i] * w - sum_grad / n - normal * sum_grad_normal / n);
    }
  }
  return e;
}

const LayerNorm kShapes[] = {{3, 7, 1e-5f},  {1, 1, 1e-5f},   {5, 64, 1e-6f},
                             {2, 65, 1e-5f}, {4, 200, 1e-5f}, {17, 8, 1e-3f}};

void check(const LayerNorm& s, bool affine) {
  SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.n << (affine ? " affine" : ""));
  const int64_t size = s.rows * s.n;
  const Floats x = random_floats(size, 1, -1, 4), w = random_floats(s.n, 2),
               b = random_floats(s.n, 3), grad_y = random_floats(size, 4);
  const float* weight = affine ? w.data() : nullptr;
  const float* bias = affine ? b.data() : nullptr;
  const Expected expected = reference(s, x, weight, bias, grad_y);

  Floats y = unset_floats(size), mean = unset_floats(s.rows), rstd = mean;
  layer_norm(s, x.data(), weight, bias, y.data(), mean.data(), rstd.data());
  expect_close(y, expected.y);
  expect_close(mean, expected.mean);
  expect_close(rstd, expected.rstd);

  Floats grad_x = unset_floats(size), grad_weight = unset_floats(s.n), grad_bias = grad_weight;
  layer_norm_backward(s, grad_y.data(), x.data(), weight, mean.data(), rstd.data(), grad_x.data(),
                      grad_weight.data(), grad_bias.data());
  expect_close(grad_x, expected.grad_x);
  expect_close(grad_weight, expected.grad_weight);
  expect_close(grad_bias, expected.grad_bias);
}

TEST(LayerNorm, ForwardAndBackwardMatchTheDefinition) {
  for (const LayerNorm& s : kShapes) {
    check(s, true);
    check(s, false);
  }
}

TEST(LayerNorm, NoRowsGiveZeroGradients) { check({0, 5, 1e-5f}, true); }

TEST(LayerNorm, NanAndInfStayInTheirRow) {
  const LayerNorm s = {3, 9, 1e-5f};
  Floats x = random_floats(27, 1);
  x[4] = kNan;
  x[22] = kInf;
  Floats y(27), mean(3), rstd(3);
  layer_norm(s, x.data(), nullptr, nullptr, y.data(), mean.data(), rstd.data());
  for (size_t i = 0; i < 27; ++i) EXPECT_EQ(std::isnan(y[i]), i / 9 != 1) << i;
}

TEST(LayerNorm, GradientsNotAskedForAreNotComputed) {
  const LayerNorm s = {3, 4, 1e-5f};
  const Floats x = random_floats(12, 1), grad_y = random_floats(12, 2), mean(3), rstd(3, 1.0f);
  Floats all[3] = {Floats(12), Floats(4), Floats(4)};
  layer_norm_backward(s, grad_y.data(), x.data(), nullptr, mean.data(), rstd.data(), all[0].data(),
                      all[1].data(), all[2].data());
  for (int wanted = 0; wanted < 3; ++wanted) {
    Floats one = unset_floats(static_cast<int64_t>(all[wanted].size()));
    const auto out = [&](int i) { return i == wanted ? one.data() : nullptr; };
    layer_norm_backward(s, grad_y.data(), x.data(), nullptr, mean.data(), rstd.data(), out(0),
                        out(1), out(2));
    EXPECT_EQ(one, all[wanted]);
  }
}

}  // namespace
}  // namespace daf::testing
