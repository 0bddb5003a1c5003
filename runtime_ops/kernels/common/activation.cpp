// Formulas and the order of their operations follow PyTorch's CPU kernels, including where
// comparisons send NaN.
#include "runtime_ops/kernels/common/math.h"
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr float kSqrtHalf = 0.70710678118654752440f;
constexpr float kInvSqrtTwoPi = 0.39894228040143267794f;
constexpr float kSqrtTwoOverPi = 0.79788456080286535588f;
constexpr float kGeluCubic = 0.044715f;
constexpr int64_t kCost = 4;  // of an element, in additions

Vec zero() { return Vec{}; }
Vec sigmoid(Vec x) { return 1.0f / (1.0f + math::exp(-x)); }

Vec gelu_grad(Vec g, Vec x) {
  const Vec cdf = 0.5f * (1.0f + math::erf(x * kSqrtHalf));
  const Vec pdf = math::exp(-0.5f * x * x) * kInvSqrtTwoPi;
  return g * (cdf + x * pdf);
}

Vec gelu_tanh(Vec x) {
  const Vec inner = kSqrtTwoOverPi * (x + kGeluCubic * x * x * x);
  return 0.5f * x * (1.0f + math::tanh(inner));
}

Vec gelu_tanh_grad(Vec g, Vec x) {
  const Vec t = math::tanh(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x));
  const Vec inner_grad = kSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
  return g * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_grad);
}

// Calls `run` with the function (gradient of y, saved) -> gradient of x.
template <class Run>
void with_gradient(Activation kind, float a, float b, Run run) {
  switch (kind) {
    case Activation::kRelu:
      return run([](Vec g, Vec y) { return y <= 0.0f ? zero() : g; });
    case Activation::kHardtanh:
      return run([=](Vec g, Vec x) { return ((x <= a) | (x >= b)) ? zero() : g; });
    case Activation::kLeakyRelu:
      return run([=](Vec g, Vec x) { return x > 0.0f ? g : g * a; });
    case Activation::kElu:
      return run([=](Vec g, Vec x) { return x <= 0.0f ? g * a * math::exp(x) : g; });
    case Activation::kSigmoid:
      return run([](Vec g, Vec y) { return g * (1.0f - y) * y; });
    case Activation::kTanh:
      return run([](Vec g, Vec y) { return g * (1.0f - y * y); });
    case Activation::kSilu:
      return run([](Vec g, Vec x) {
        const Vec s = sigmoid(x);
        return g * s * (1.0f + x * (1.0f - s));
      });
    case Activation::kHardswish:
      return run([](Vec g, Vec x) {
        const Vec inner = x < 3.0f ? g * (x / 3.0f + 0.5f) : g;
        return x <= -3.0f ? zero() : inner;
      });
    case Activation::kGelu:
      return run([](Vec g, Vec x) { return gelu_grad(g, x); });
    case Activation::kGeluTanh:
      return run([](Vec g, Vec x) { return gelu_tanh_grad(g, x); });
    case Activation::kExp:
      return run([](Vec g, Vec y) { return g * y; });
  }
}

}  // namespace

void activation(Activation kind, float a, float b, int64_t n, const float* x, float* y) {
  // `f` is always a lambda: a pointer to a function would be called for every vector.
  const auto run = [=](auto f) {
    for_each_range(
        n, kCost, [=](int64_t first, int64_t last) { map(last - first, x + first, y + first, f); });
  };
  const Vec low = splat(a), high = splat(b);
  switch (kind) {
    case Activation::kRelu:
      return run([](Vec v) { return v < 0.0f ? zero() : v; });
    case Activation::kHardtanh:
      return run([=](Vec v) {
        const Vec capped = v > high ? high : v;
        return v < low ? low : capped;
      });
    case Activation::kLeakyRelu:
      return run([=](Vec v) { return v > 0.0f ? v : v * low; });
    case Activation::kElu:
      return run([=](Vec v) { return v <= 0.0f ? math::expm1(v) * low : v; });
    case Activation::kSigmoid:
      return run([](Vec v) { return sigmoid(v); });
    case Activation::kTanh:
      return run([](Vec v) { return math::tanh(v); });
    case Activation::kSilu:
      return run([](Vec v) { return v / (1.0f + math::exp(-v)); });
    case Activation::kHardswish:
      return run([](Vec v) {
        const Vec ramp = v + 3.0f;
        const Vec capped = ramp > 6.0f ? splat(6.0f) : ramp;
        return v * (ramp < 0.0f ? zero() : capped) / 6.0f;
      });
    case Activation::kGelu:
      return run([](Vec v) { return 0.5f * v * (1.0f + math::erf(v * kSqrtHalf)); });
    case Activation::kGeluTanh:
      return run([](Vec v) { return gelu_tanh(v); });
    case Activation::kExp:
      return run([](Vec v) { return math::exp(v); });
  }
}

void activation_backward(Activation kind, float a, float b, int64_t n, const float* grad_y,
                         const float* saved, float* grad_x) {
  with_gradient(kind, a, b, [=](auto f) {
    for_each_range(n, kCost, [=](int64_t first, int64_t last) {
      map(last - first, grad_y + first, saved + first, grad_x + first, f);
    });
  });
}

void activation_derivative(Activation kind, float a, float b, int64_t n, const float* saved,
                           float* y) {
  with_gradient(kind, a, b, [=](auto f) {
    for_each_range(n, kCost, [=](int64_t first, int64_t last) {
      map(last - first, saved + first, y + first, [=](Vec v) { return f(splat(1.0f), v); });
    });
  });
}

}  // namespace daf::DAF_ISA
