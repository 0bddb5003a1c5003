// Formulas and the order of their operations follow PyTorch's CPU kernels, including where
// comparisons send NaN.
#include <cmath>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/math.h"

namespace daf {
namespace {

constexpr float kSqrtHalf = 0.70710678118654752440f;
constexpr float kInvSqrtTwoPi = 0.39894228040143267794f;
constexpr float kSqrtTwoOverPi = 0.79788456080286535588f;
constexpr float kGeluCubic = 0.044715f;

float sigmoid(float x) { return 1.0f / (1.0f + math::exp(-x)); }

template <class F>
void map(int64_t n, const float* x, float* y, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
void map(int64_t n, const float* grad_y, const float* saved, float* grad_x, F f) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f(grad_y[i], saved[i]);
}

float gelu_grad(float g, float x) {
  const float cdf = 0.5f * (1.0f + math::erf(x * kSqrtHalf));
  const float pdf = math::exp(-0.5f * x * x) * kInvSqrtTwoPi;
  return g * (cdf + x * pdf);
}

float gelu_tanh(float x) {
  const float inner = kSqrtTwoOverPi * (x + kGeluCubic * x * x * x);
  return 0.5f * x * (1.0f + math::tanh(inner));
}

float gelu_tanh_grad(float g, float x) {
  const float t = math::tanh(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x));
  const float inner_grad = kSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
  return g * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_grad);
}

}  // namespace

void activation(Activation kind, float a, float b, int64_t n, const float* x, float* y) {
  switch (kind) {
    case Activation::kRelu:
      return map(n, x, y, [](float v) { return v < 0.0f ? 0.0f : v; });
    case Activation::kHardtanh:
      return map(n, x, y, [=](float v) { return v < a ? a : v > b ? b : v; });
    case Activation::kLeakyRelu:
      return map(n, x, y, [=](float v) { return v > 0.0f ? v : v * a; });
    case Activation::kElu:
      return map(n, x, y, [=](float v) { return v <= 0.0f ? std::expm1(v) * a : v; });
    case Activation::kSigmoid:
      return map(n, x, y, sigmoid);
    case Activation::kTanh:
      return map(n, x, y, [](float v) { return math::tanh(v); });
    case Activation::kSilu:
      return map(n, x, y, [](float v) { return v / (1.0f + math::exp(-v)); });
    case Activation::kHardswish:
      return map(n, x, y, [](float v) {
        const float ramp = v + 3.0f;
        return v * (ramp < 0.0f ? 0.0f : ramp > 6.0f ? 6.0f : ramp) / 6.0f;
      });
    case Activation::kGelu:
      return map(n, x, y, [](float v) { return 0.5f * v * (1.0f + math::erf(v * kSqrtHalf)); });
    case Activation::kGeluTanh:
      return map(n, x, y, gelu_tanh);
  }
}

void activation_backward(Activation kind, float a, float b, int64_t n, const float* grad_y,
                         const float* saved, float* grad_x) {
  switch (kind) {
    case Activation::kRelu:
      return map(n, grad_y, saved, grad_x, [](float g, float y) { return y <= 0.0f ? 0.0f : g; });
    case Activation::kHardtanh:
      return map(n, grad_y, saved, grad_x,
                 [=](float g, float x) { return x <= a || x >= b ? 0.0f : g; });
    case Activation::kLeakyRelu:
      return map(n, grad_y, saved, grad_x, [=](float g, float x) { return x > 0.0f ? g : g * a; });
    case Activation::kElu:
      return map(n, grad_y, saved, grad_x,
                 [=](float g, float x) { return x <= 0.0f ? g * a * math::exp(x) : g; });
    case Activation::kSigmoid:
      return map(n, grad_y, saved, grad_x, [](float g, float y) { return g * (1.0f - y) * y; });
    case Activation::kTanh:
      return map(n, grad_y, saved, grad_x, [](float g, float y) { return g * (1.0f - y * y); });
    case Activation::kSilu:
      return map(n, grad_y, saved, grad_x, [](float g, float x) {
        const float s = sigmoid(x);
        return g * s * (1.0f + x * (1.0f - s));
      });
    case Activation::kHardswish:
      return map(n, grad_y, saved, grad_x, [](float g, float x) {
        return x <= -3.0f ? 0.0f : x < 3.0f ? g * (x / 3.0f + 0.5f) : g;
      });
    case Activation::kGelu:
      return map(n, grad_y, saved, grad_x, gelu_grad);
    case Activation::kGeluTanh:
      return map(n, grad_y, saved, grad_x, gelu_tanh_grad);
  }
}

}  // namespace daf
