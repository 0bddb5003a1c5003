#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

struct Statistics {
  Doubles mean, var;  // biased
};

Statistics statistics(const BatchNorm& s, const Floats& x) {
  Statistics result{Doubles(s.c), Doubles(s.c)};
  const double count = static_cast<double>(s.n * s.spatial);
  for (size_t i = 0; i < x.size(); ++i) result.mean[i / s.spatial % s.c] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / s.spatial % s.c;
    result.var[c] += (x[i] - result.mean[c]) * (x[i] - result.mean[c]) / count;
  }
  return result;
}

Doubles normalized(const BatchNorm& s, const Floats& x, const Doubles& mean, const Doubles& var,
                   const float* weight, const float* bias) {
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / s.spatial % s.c;
    y[i] = (x[i] - mean[c]) / std::sqrt(var[c] + s.eps) * (weight ? weight[c] : 1.0) +
           (bias ? bias[c] : 0.0);
  }
  return y;
}

// sum(grad_y * y) as a function of everything batch_norm's gradient is taken of.
double objective(const BatchNorm& s, const Floats& grad_y, const Floats& x, const Floats& weight,
                 const Floats& bias) {
  const Statistics now = statistics(s, x);
  const Doubles y = normalized(s, x, now.mean, now.var, weight.data(), bias.data());
  double total = 0;
  for (size_t i = 0; i < y.size(); ++i) total += grad_y[i] * y[i];
  return total;
}

const BatchNorm kShapes[] = {{4, 3, 25, 1e-5f}, {2, 5, 1, 1e-3f}, {1, 2, 16, 1e-5f},
                             {3, 1, 9, 1e-5f},  {8, 7, 1, 1e-5f}, {2, 3, 300, 1e-5f}};

TEST(BatchNorm, TrainingMatchesTheDefinition) {
  for (const BatchNorm& s : kShapes) {
    const int64_t size = s.n * s.c * s.spatial;
    const Floats x = random_floats(size, 1, 2, 5), weight = random_floats(s.c, 2),
                 bias = random_floats(s.c, 3), old_mean = random_floats(s.c, 4),
                 old_var = random_floats(s.c, 5, 0, 2);
    Floats y = unset_floats(size), mean = unset_floats(s.c), var = mean, new_mean = mean,
           new_var = mean;
    batch_norm_train(s, x.data(), weight.data(), bias.data(), old_mean.data(), old_var.data(), 0.1f,
                     y.data(), mean.data(), var.data(), new_mean.data(), new_var.data());
    const Statistics expected = statistics(s, x);
    expect_close(mean, expected.mean);
    expect_close(var, expected.var);
    expect_close(y, normalized(s, x, expected.mean, expected.var, weight.data(), bias.data()),
                 1e-4);
    const double count = static_cast<double>(s.n * s.spatial);
    Doubles running_mean(s.c), running_var(s.c);
    for (int64_t c = 0; c < s.c; ++c) {
      running_mean[c] = 0.9 * old_mean[c] + 0.1 * expected.mean[c];
      running_var[c] = 0.9 * old_var[c] + 0.1 * expected.var[c] * count / (count - 1);
    }
    expect_close(new_mean, running_mean);
    expect_close(new_var, running_var);
  }
}

TEST(BatchNorm, WithoutRunningStatisticsGivesThoseOfTheBatch) {
  const BatchNorm s = {2, 3, 4, 1e-5f};
  const Floats x = random_floats(24, 1);
  Floats y(24), mean(3), var(3), new_mean(3), new_var(3);
  batch_norm_train(s, x.data(), nullptr, nullptr, nullptr, nullptr, 0.1f, y.data(), mean.data(),
                   var.data(), new_mean.data(), new_var.data());
  Statistics expected = statistics(s, x);
  expect_close(y, normalized(s, x, expected.mean, expected.var, nullptr, nullptr));
  expect_close(new_mean, expected.mean);
  for (double& v : expected.var) v *= 8.0 / 7.0;
  expect_close(new_var, expected.var);
}

TEST(BatchNorm, RunningStatisticsMayBeUpdatedInPlace) {
  const BatchNorm s = {2, 2, 3, 1e-5f};
  const Floats x = random_floats(12, 1), old_mean = {1, 2}, old_var = {3, 4};
  Floats y(12), mean(2), var(2), new_mean(2), new_var(2), in_place_mean = old_mean,
                                                          in_place_var = old_var;
  batch_norm_train(s, x.data(), nullptr, nullptr, old_mean.data(), old_var.data(), 0.3f, y.data(),
                   mean.data(), var.data(), new_mean.data(), new_var.data());
  batch_norm_train(s, x.data(), nullptr, nullptr, in_place_mean.data(), in_place_var.data(), 0.3f,
                   y.data(), mean.data(), var.data(), in_place_mean.data(), in_place_var.data());
  EXPECT_EQ(new_mean, in_place_mean);
  EXPECT_EQ(new_var, in_place_var);
}

TEST(BatchNorm, SingleValueHasNoUnbiasedVariance) {
  const BatchNorm s = {1, 2, 1, 1e-5f};
  const Floats x = {3, -1}, old = {0, 1};
  Floats y(2), mean(2), var(2), new_mean(2), new_var(2);
  batch_norm_train(s, x.data(), nullptr, nullptr, old.data(), old.data(), 0.1f, y.data(),
                   mean.data(), var.data(), new_mean.data(), new_var.data());
  EXPECT_EQ(y, (Floats{0, 0}));
  EXPECT_EQ(var, (Floats{0, 0}));
  expect_close(new_mean, {0.3, 0.8});
  EXPECT_TRUE(std::isnan(new_var[0]) && std::isnan(new_var[1]));
}

// A mean a thousand times the deviation, as an unnormalised input has it.
TEST(BatchNorm, LargeMeanKeepsItsPrecision) {
  const BatchNorm s = {4, 1, 100, 1e-5f};
  const Floats x = random_floats(400, 1, 1000, 1001);
  Floats y(400), mean(1), var(1), new_mean(1), new_var(1);
  batch_norm_train(s, x.data(), nullptr, nullptr, nullptr, nullptr, 0.1f, y.data(), mean.data(),
                   var.data(), new_mean.data(), new_var.data());
  expect_close(var, statistics(s, x).var, 1e-6);
}

TEST(BatchNorm, EvalMatchesTheDefinition) {
  for (const BatchNorm& s : kShapes) {
    const int64_t size = s.n * s.c * s.spatial;
    const Floats x = random_floats(size, 1), weight = random_floats(s.c, 2),
                 bias = random_floats(s.c, 3), mean = random_floats(s.c, 4),
                 var = random_floats(s.c, 5, 0.1f, 2);
    Floats y = unset_floats(size);
    batch_norm_eval(s, x.data(), weight.data(), bias.data(), mean.data(), var.data(), y.data());
    expect_close(y,
                 normalized(s, x, to_doubles(mean), to_doubles(var), weight.data(), bias.data()));
    batch_norm_eval(s, x.data(), nullptr, nullptr, mean.data(), var.data(), y.data());
    expect_close(y, normalized(s, x, to_doubles(mean), to_doubles(var), nullptr, nullptr));
  }
}

TEST(BatchNorm, TrainingGradientIsTheSlopeOfTheDefinition) {
  for (const BatchNorm& s : kShapes) {
    if (s.spatial > 100) continue;
    const int64_t size = s.n * s.c * s.spatial;
    Floats x = random_floats(size, 1, 0, 4), weight = random_floats(s.c, 2, 0.5f, 2),
           bias = random_floats(s.c, 3);
    const Floats grad_y = random_floats(size, 4);
    const Statistics now = statistics(s, x);
    const Floats mean(now.mean.begin(), now.mean.end()), var(now.var.begin(), now.var.end());
    Floats grad_x = unset_floats(size), grad_weight = unset_floats(s.c), grad_bias = grad_weight;
    batch_norm_backward(s, true, grad_y.data(), nullptr, x.data(), weight.data(), mean.data(),
                        var.data(), grad_x.data(), grad_weight.data(), grad_bias.data());
    const auto slopes = [&](Floats& of) {
      Doubles result(of.size());
      for (size_t i = 0; i < of.size(); ++i) {
        const float kept = of[i];
        const float above = kept + 0x1p-8f, below = kept - 0x1p-8f;
        of[i] = above;
        const double high = objective(s, grad_y, x, weight, bias);
        of[i] = below;
        const double low = objective(s, grad_y, x, weight, bias);
        of[i] = kept;
        result[i] = (high - low) / (static_cast<double>(above) - below);
      }
      return result;
    };
    expect_close(grad_x, slopes(x), 2e-3);
    expect_close(grad_weight, slopes(weight), 1e-4);
    expect_close(grad_bias, slopes(bias), 1e-4);
  }
}

TEST(BatchNorm, GradientWithConstantStatistics) {
  const BatchNorm s = {2, 3, 5, 1e-5f};
  const Floats x = random_floats(30, 1), grad_y = random_floats(30, 2), mean = random_floats(3, 3),
               var = random_floats(3, 4, 0.5f, 1);
  Floats grad_x = unset_floats(30), grad_weight = unset_floats(3), grad_bias = grad_weight;
  batch_norm_backward(s, false, grad_y.data(), nullptr, x.data(), nullptr, mean.data(), var.data(),
                      grad_x.data(), grad_weight.data(), grad_bias.data());
  Doubles expected_x(30), expected_weight(3), expected_bias(3);
  for (size_t i = 0; i < 30; ++i) {
    const size_t c = i / 5 % 3;
    const double invstd = 1 / std::sqrt(static_cast<double>(var[c]) + s.eps);
    expected_x[i] = grad_y[i] * invstd;
    expected_weight[c] += grad_y[i] * (x[i] - mean[c]) * invstd;
    expected_bias[c] += grad_y[i];
  }
  expect_close(grad_x, expected_x);
  expect_close(grad_weight, expected_weight);
  expect_close(grad_bias, expected_bias);
}

// With bounds, forward is the clamp of what it is without them, and backward that of the gradient
// of the clamp.
TEST(BatchNorm, BoundsAreThoseOfAnActivation) {
  const struct {
    float low, high;
    Activation kind;
  } cases[] = {{0, kNan, Activation::kRelu}, {-0.5f, 0.75f, Activation::kHardtanh}};
  for (const BatchNorm& plain : kShapes) {
    const int64_t size = plain.n * plain.c * plain.spatial;
    const Floats x = random_floats(size, 1, -2, 2), weight = random_floats(plain.c, 2, 0.5f, 2),
                 bias = random_floats(plain.c, 3), grad_y = random_floats(size, 4);
    for (const auto& [low, high, kind] : cases) {
      BatchNorm bounded = plain;
      bounded.low = low;
      bounded.high = high;
      Floats y(size), fused = unset_floats(size), stat[4];
      for (Floats& s : stat) s.resize(plain.c);
      const auto train = [&](const BatchNorm& s, Floats& out) {
        batch_norm_train(s, x.data(), weight.data(), bias.data(), nullptr, nullptr, 0.1f,
                         out.data(), stat[0].data(), stat[1].data(), stat[2].data(),
                         stat[3].data());
      };
      train(plain, y);
      activation(kind, low, high, size, y.data(), y.data());
      train(bounded, fused);
      EXPECT_EQ(fused, y);

      Floats grad(size), grads[3] = {Floats(size), Floats(plain.c), Floats(plain.c)};
      Floats fused_grads[3] = {unset_floats(size), unset_floats(plain.c), unset_floats(plain.c)};
      activation_backward(kind, low, high, size, grad_y.data(), y.data(), grad.data());
      const auto backward = [&](const BatchNorm& s, const Floats& from, const float* out,
                                Floats(&to)[3]) {
        batch_norm_backward(s, true, from.data(), out, x.data(), weight.data(), stat[0].data(),
                            stat[1].data(), to[0].data(), to[1].data(), to[2].data());
      };
      backward(plain, grad, nullptr, grads);
      backward(bounded, grad_y, y.data(), fused_grads);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(fused_grads[i], grads[i]);
    }
  }
}

TEST(BatchNorm, NanStaysInItsChannel) {
  const BatchNorm s = {2, 2, 3, 1e-5f};
  Floats x = random_floats(12, 1);
  x[7] = kNan;  // image 1, channel 0
  Floats y(12), mean(2), var(2), new_mean(2), new_var(2);
  batch_norm_train(s, x.data(), nullptr, nullptr, nullptr, nullptr, 0.1f, y.data(), mean.data(),
                   var.data(), new_mean.data(), new_var.data());
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(y[i]), i / 3 % 2 == 0) << i;
}

TEST(BatchNorm, GradientsNotAskedForAreNotComputed) {
  const BatchNorm s = {2, 2, 3, 1e-5f};
  const Floats x = random_floats(12, 1), grad_y = random_floats(12, 2), mean(2), var(2, 1.0f);
  Floats all[3] = {Floats(12), Floats(2), Floats(2)};
  batch_norm_backward(s, true, grad_y.data(), nullptr, x.data(), nullptr, mean.data(), var.data(),
                      all[0].data(), all[1].data(), all[2].data());
  for (int wanted = 0; wanted < 3; ++wanted) {
    Floats one = unset_floats(static_cast<int64_t>(all[wanted].size()));
    const auto out = [&](int i) { return i == wanted ? one.data() : nullptr; };
    batch_norm_backward(s, true, grad_y.data(), nullptr, x.data(), nullptr, mean.data(), var.data(),
                        out(0), out(1), out(2));
    EXPECT_EQ(one, all[wanted]);
  }
}

}  // namespace
}  // namespace daf::testing
