#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

constexpr int64_t kN = 37;

Floats gradient(int64_t step) { return random_floats(kN, 100 + static_cast<uint32_t>(step)); }

// torch.optim.SGD, in double.
void check_sgd(Sgd options) {
  SCOPED_TRACE(::testing::Message()
               << "momentum " << options.momentum << " dampening " << options.dampening << " decay "
               << options.weight_decay << " nesterov " << options.nesterov);
  Floats weight = random_floats(kN, 1), buffer = unset_floats(kN);
  Doubles expected = to_doubles(weight), expected_buffer(kN);
  for (options.step = 0; options.step < 5; ++options.step) {
    const Floats grad = gradient(options.step);
    for (int64_t i = 0; i < kN; ++i) {
      double d = grad[i] + static_cast<double>(options.weight_decay) * expected[i];
      if (options.momentum != 0) {
        expected_buffer[i] = options.step == 0 ? d
                                               : options.momentum * expected_buffer[i] +
                                                     (1.0 - options.dampening) * d;
        d = options.nesterov ? d + options.momentum * expected_buffer[i] : expected_buffer[i];
      }
      expected[i] -= static_cast<double>(options.lr) * d;
    }
    sgd(options, kN, grad.data(), weight.data(), options.momentum != 0 ? buffer.data() : nullptr);
    expect_close(weight, expected, 1e-6);
    if (options.momentum != 0) expect_close(buffer, expected_buffer, 1e-6);
  }
}

TEST(Sgd, FollowsTorchOverSeveralSteps) {
  check_sgd({0.1f, 0, 0, 0, false, 0});
  check_sgd({0.1f, 0, 0, 0.01f, false, 0});
  check_sgd({0.1f, 0.9f, 0, 0, false, 0});
  check_sgd({0.1f, 0.9f, 0.3f, 0.01f, false, 0});
  check_sgd({0.1f, 0.9f, 0, 0.01f, true, 0});
}

// torch.optim.AdamW, in double.
void check_adamw(AdamW options) {
  SCOPED_TRACE(::testing::Message() << "betas " << options.beta1 << " " << options.beta2
                                    << " decay " << options.weight_decay);
  Floats weight = random_floats(kN, 1), m(kN), v(kN);
  Doubles expected = to_doubles(weight), expected_m(kN), expected_v(kN);
  for (options.step = 0; options.step < 5; ++options.step) {
    const Floats grad = gradient(options.step);
    const double t = static_cast<double>(options.step + 1), lr = options.lr;
    for (int64_t i = 0; i < kN; ++i) {
      expected[i] *= 1 - lr * options.weight_decay;
      expected_m[i] = options.beta1 * expected_m[i] + (1 - options.beta1) * grad[i];
      expected_v[i] = options.beta2 * expected_v[i] + (1 - options.beta2) * grad[i] * grad[i];
      const double m_hat = expected_m[i] / (1 - std::pow(options.beta1, t));
      const double v_hat = expected_v[i] / (1 - std::pow(options.beta2, t));
      expected[i] -= lr * m_hat / (std::sqrt(v_hat) + options.eps);
    }
    adamw(options, kN, grad.data(), weight.data(), m.data(), v.data());
    expect_close(weight, expected, 1e-6);
    expect_close(m, expected_m, 1e-6);
    expect_close(v, expected_v, 1e-6);
  }
}

TEST(AdamW, FollowsTorchOverSeveralSteps) {
  check_adamw({1e-2f, 0.9, 0.999, 1e-8f, 0.01f, 0});
  check_adamw({1e-2f, 0.9, 0.95, 1e-6f, 0, 0});
  check_adamw({1e-1f, 0.3, 0.5, 1e-8f, 0.1f, 0});  // lerp from the other end
}

TEST(AdamW, ZeroGradientMovesNothingButDecay) {
  Floats weight = {1, -2}, m(2), v(2);
  const Floats grad(2);
  adamw({0.1f, 0.9, 0.999, 1e-8f, 0.5f, 0}, 2, grad.data(), weight.data(), m.data(), v.data());
  expect_close(weight, {0.95, -1.9}, 1e-7);
}

TEST(Optimizers, NanReachesItsWeightOnly) {
  const Floats grad = {1, kNan, 1};
  Floats weight(3), buffer(3);
  sgd({0.1f, 0.9f, 0, 0, false, 0}, 3, grad.data(), weight.data(), buffer.data());
  EXPECT_TRUE(!std::isnan(weight[0]) && std::isnan(weight[1]) && !std::isnan(weight[2]));
  Floats m(3), v(3);
  weight = Floats(3);
  adamw({0.1f, 0.9, 0.999, 1e-8f, 0, 0}, 3, grad.data(), weight.data(), m.data(), v.data());
  EXPECT_TRUE(!std::isnan(weight[0]) && std::isnan(weight[1]) && !std::isnan(weight[2]));
}

}  // namespace
}  // namespace daf::testing
