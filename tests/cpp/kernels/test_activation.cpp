#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

using Function = double (*)(double x, double a, double b);

struct Case {
  const char* name;
  Activation kind;
  float a, b;
  bool backward_reads_y;
  Function value, slope;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const Case kCases[] = {
    {"relu", Activation::kRelu, 0, 0, true,
     [](double x, double, double) { return x < 0 ? 0.0 : x; },
     [](double x, double, double) { return x <= 0 ? 0.0 : 1.0; }},
    {"hardtanh", Activation::kHardtanh, -0.5f, 2, false,
     [](double x, double a, double b) { return x < a   ? a
                                               : x > b ? b
                                                       : x; },
     [](double x, double a, double b) { return x <= a || x >= b ? 0.0 : 1.0; }},
    {"leaky_relu", Activation::kLeakyRelu, 0.25f, 0, false,
     [](double x, double a, double) { return x > 0 ? x : a * x; },
     [](double x, double a, double) { return x > 0 ? 1.0 : a; }},
    {"elu", Activation::kElu, 1.5f, 0, false,
     [](double x, double a, double) { return x <= 0 ? a * std::expm1(x) : x; },
     [](double x, double a, double) { return x <= 0 ? a * std::exp(x) : 1.0; }},
    {"sigmoid", Activation::kSigmoid, 0, 0, true,
     [](double x, double, double) { return sigmoid(x); },
     [](double x, double, double) { return sigmoid(x) * sigmoid(-x); }},
    {"tanh", Activation::kTanh, 0, 0, true, [](double x, double, double) { return std::tanh(x); },
     [](double x, double, double) { return 1 / (std::cosh(x) * std::cosh(x)); }},
    {"silu", Activation::kSilu, 0, 0, false,
     [](double x, double, double) { return x * sigmoid(x); },
     [](double x, double, double) { return sigmoid(x) * (1 + x * sigmoid(-x)); }},
    {"hardswish", Activation::kHardswish, 0, 0, false,
     [](double x, double, double) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; },
     [](double x, double, double) { return x <= -3 ? 0.0
                                           : x < 3 ? x / 3 + 0.5
                                                   : 1.0; }},
    {"gelu", Activation::kGelu, 0, 0, false,
     [](double x, double, double) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); },
     [](double x, double, double) {
       return 0.5 * std::erfc(-x * std::sqrt(0.5)) +
              x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
     }},
    {"gelu_tanh", Activation::kGeluTanh, 0, 0, false,
     [](double x, double, double) { return gelu_tanh(x); },
     [](double x, double, double) { return (gelu_tanh(x + 1e-6) - gelu_tanh(x - 1e-6)) / 2e-6; }},
};

TEST(Activation, ValuesAndSlopesMatchTheDefinition) {
  Floats x = random_floats(301, 1, -6, 6);
  const float corners[] = {0, -0.0f, 3, -3, -0.5f, 2, 20, -20, 80, -80};
  x.insert(x.end(), std::begin(corners), std::end(corners));
  const Floats grad_y = random_floats(static_cast<int64_t>(x.size()), 2, -2, 2);
  const int64_t n = static_cast<int64_t>(x.size());
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Doubles value(x.size()), grad(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      value[i] = c.value(x[i], c.a, c.b);
      grad[i] = grad_y[i] * c.slope(x[i], c.a, c.b);
    }
    Floats y = unset_floats(n), grad_x = unset_floats(n);
    activation(c.kind, c.a, c.b, n, x.data(), y.data());
    expect_close(y, value, 1e-6);
    const Floats& saved = c.backward_reads_y ? y : x;
    activation_backward(c.kind, c.a, c.b, n, grad_y.data(), saved.data(), grad_x.data());
    expect_close(grad_x, grad, 1e-6);
    Floats derivative = unset_floats(n), ones(x.size(), 1.0f), of_ones = unset_floats(n);
    activation_derivative(c.kind, c.a, c.b, n, saved.data(), derivative.data());
    activation_backward(c.kind, c.a, c.b, n, ones.data(), saved.data(), of_ones.data());
    EXPECT_EQ(derivative, of_ones);

    Floats in_place = x, grad_in_place = grad_y;
    activation(c.kind, c.a, c.b, n, in_place.data(), in_place.data());
    EXPECT_EQ(in_place, y);
    activation_backward(c.kind, c.a, c.b, n, grad_in_place.data(), saved.data(),
                        grad_in_place.data());
    EXPECT_EQ(grad_in_place, grad_x);
  }
}

TEST(Activation, NanPropagatesForward) {
  const float x = kNan;
  for (const Case& c : kCases) {
    float y = 0;
    activation(c.kind, c.a, c.b, 1, &x, &y);
    EXPECT_TRUE(std::isnan(y)) << c.name;
  }
}

// Comparisons with NaN are false: piecewise slopes let the gradient through, as PyTorch's formulas
// do one element at a time (its vector code differs from them for some).
TEST(Activation, GradientAtNanFollowsTheComparisons) {
  const float saved = kNan, grad_y = 2;
  const auto grad_x = [&](Activation kind, float a, float b) {
    float result = 0;
    activation_backward(kind, a, b, 1, &grad_y, &saved, &result);
    return result;
  };
  EXPECT_EQ(grad_x(Activation::kRelu, 0, 0), 2);
  EXPECT_EQ(grad_x(Activation::kHardtanh, -1, 1), 2);
  EXPECT_EQ(grad_x(Activation::kLeakyRelu, 0.25f, 0), 0.5f);
  EXPECT_EQ(grad_x(Activation::kElu, 1.5f, 0), 2);
  EXPECT_EQ(grad_x(Activation::kHardswish, 0, 0), 2);
  for (Activation kind : {Activation::kSigmoid, Activation::kTanh, Activation::kSilu,
                          Activation::kGelu, Activation::kGeluTanh}) {
    EXPECT_TRUE(std::isnan(grad_x(kind, 0, 0)));
  }
}

TEST(Activation, InfinityIsPyTorchs) {
  const auto at = [](Activation kind, float x) {
    float y = 0;
    activation(kind, 0.5f, 1, 1, &x, &y);
    return y;
  };
  EXPECT_EQ(at(Activation::kRelu, kInf), kInf);
  EXPECT_EQ(at(Activation::kRelu, -kInf), 0);
  EXPECT_EQ(at(Activation::kElu, -kInf), -0.5f);
  EXPECT_EQ(at(Activation::kSigmoid, -kInf), 0);
  EXPECT_EQ(at(Activation::kGelu, kInf), kInf);
  EXPECT_TRUE(std::isnan(at(Activation::kSilu, -kInf)));
  EXPECT_TRUE(std::isnan(at(Activation::kGelu, -kInf)));
}

}  // namespace
}  // namespace daf::testing
