#include <algorithm>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

using Targets = std::vector<int64_t>;

void check(NllLoss s, const Targets& target, const Floats* weight) {
  const int64_t places = s.n * s.spatial, size = s.n * s.c * s.spatial;
  const Floats log_p = random_floats(size, 1, -4, 0);
  for (Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
    SCOPED_TRACE(static_cast<int>(reduction));
    s.reduction = reduction;
    const bool none = reduction == Reduction::kNone, mean = reduction == Reduction::kMean;
    const Floats grad_loss = random_floats(none ? places : 1, 2);
    double loss_sum = 0, weight_sum = 0;
    Doubles losses(places), grad(size);
    for (int64_t i = 0; i < places; ++i) {
      if (target[i] == s.ignore_index) continue;
      const double w = weight ? (*weight)[target[i]] : 1.0;
      losses[i] = -w * log_p[(i / s.spatial * s.c + target[i]) * s.spatial + i % s.spatial];
      loss_sum += losses[i];
      weight_sum += w;
    }
    for (int64_t i = 0; i < places; ++i) {
      if (target[i] == s.ignore_index) continue;
      const double w = weight ? (*weight)[target[i]] : 1.0;
      grad[(i / s.spatial * s.c + target[i]) * s.spatial + i % s.spatial] =
          -w * grad_loss[none ? i : 0] / (mean ? weight_sum : 1.0);
    }
    Floats loss = unset_floats(none ? places : 1), grad_log_p = unset_floats(size);
    float total_weight = kNan;
    const float* weights = weight ? weight->data() : nullptr;
    ASSERT_TRUE(nll_loss(s, log_p.data(), target.data(), weights, loss.data(), &total_weight));
    expect_close(loss, none ? losses : Doubles{mean ? loss_sum / weight_sum : loss_sum});
    EXPECT_NEAR(total_weight, none ? 0 : weight_sum, 1e-5);
    nll_loss_backward(s, grad_loss.data(), target.data(), weights, &total_weight,
                      grad_log_p.data());
    expect_close(grad_log_p, grad);
  }
}

TEST(NllLoss, ReductionsWeightsAndIgnoredTargets) {
  const Floats weight = {0.5f, 2, 0, 1.5f};
  for (const Floats* w : {static_cast<const Floats*>(nullptr), &weight}) {
    check({5, 4, 1, -100, Reduction::kMean}, {0, 3, 1, 2, 3}, w);
    check({5, 4, 1, -100, Reduction::kMean}, {0, -100, 1, 2, -100}, w);
    check({4, 4, 1, 2, Reduction::kMean}, {2, 3, 1, 2}, w);  // a class is ignored
    check({2, 4, 3, 255, Reduction::kMean}, {0, 1, 2, 255, 3, 0}, w);
  }
}

TEST(NllLoss, MeanOfNothingIsNan) {
  check({3, 4, 1, -100, Reduction::kMean}, {-100, -100, -100}, nullptr);
  check({0, 4, 1, -100, Reduction::kMean}, {}, nullptr);
}

TEST(NllLoss, RefusesTargetsOutsideTheClasses) {
  const Floats log_p(6);
  Floats loss(2);
  float total_weight = 0;
  for (const Targets& target : {Targets{0, 3}, Targets{-1, 0}, Targets{1, int64_t{1} << 40}}) {
    EXPECT_FALSE(nll_loss({2, 3, 1, -100, Reduction::kMean}, log_p.data(), target.data(), nullptr,
                          loss.data(), &total_weight));
  }
}

TEST(NllLoss, NanPropagates) {
  const Floats log_p = {-1, kNan};
  const Targets target = {1};
  float loss = 0, total_weight = 0;
  ASSERT_TRUE(nll_loss({1, 2, 1, -100, Reduction::kMean}, log_p.data(), target.data(), nullptr,
                       &loss, &total_weight));
  EXPECT_TRUE(std::isnan(loss));
}

void check_cross_entropy(NllLoss s, const Targets& target, const Floats* weight, float spread) {
  const Floats x = random_floats(s.n * s.c, 1, -spread, spread);
  const float* weights = weight ? weight->data() : nullptr;
  for (Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    SCOPED_TRACE(static_cast<int>(reduction));
    s.reduction = reduction;
    double loss_sum = 0, weight_sum = 0;
    for (int64_t i = 0; i < s.n; ++i) {
      if (target[i] != s.ignore_index) weight_sum += weight ? (*weight)[target[i]] : 1.0;
    }
    const double divisor = reduction == Reduction::kMean ? weight_sum : 1.0;
    Doubles grad(s.n * s.c);
    for (int64_t i = 0; i < s.n; ++i) {
      if (target[i] == s.ignore_index) continue;
      const float* row = x.data() + i * s.c;
      const double w = weight ? (*weight)[target[i]] : 1.0,
                   most = *std::max_element(row, row + s.c);
      double total = 0;
      for (int64_t k = 0; k < s.c; ++k) total += std::exp(row[k] - most);
      loss_sum -= w * (row[target[i]] - most - std::log(total));
      for (int64_t k = 0; k < s.c; ++k) {
        grad[i * s.c + k] = (std::exp(row[k] - most) / total - (k == target[i])) * w / divisor;
      }
    }
    float loss = kNan;
    Floats grad_x = unset_floats(s.n * s.c), in_place = x;
    ASSERT_TRUE(cross_entropy(s, x.data(), target.data(), weights, &loss, grad_x.data()));
    expect_close({loss}, {loss_sum / divisor});
    expect_close(grad_x, grad);
    ASSERT_TRUE(cross_entropy(s, in_place.data(), target.data(), weights, &loss, in_place.data()));
    expect_close(in_place, to_doubles(grad_x), 0);
  }
}

TEST(CrossEntropy, LossAndGradientOfLogits) {
  const Floats weight = {0.5f, 2, 0, 1.5f};
  for (const Floats* w : {static_cast<const Floats*>(nullptr), &weight}) {
    check_cross_entropy({5, 4, 1, -100, Reduction::kMean}, {0, 3, 1, 2, 3}, w, 4);
    check_cross_entropy({5, 4, 1, -100, Reduction::kMean}, {0, -100, 1, 2, -100}, w, 4);
    check_cross_entropy({4, 4, 1, 2, Reduction::kMean}, {2, 3, 1, 2}, w, 4);
  }
  check_cross_entropy({3, 1003, 1, -100, Reduction::kMean}, {0, 1002, 500}, nullptr, 10);
  // The probability of a target may be too small for a float; its logarithm is not.
  check_cross_entropy({3, 40, 1, -100, Reduction::kMean}, {0, 39, 20}, nullptr, 1000);
  check_cross_entropy({3, 4, 1, -100, Reduction::kMean}, {-100, -100, -100}, nullptr, 4);
}

TEST(CrossEntropy, RefusesTargetsOutsideTheClasses) {
  const Floats x(6);
  Floats grad_x(6);
  float loss = 0;
  for (const Targets& target : {Targets{0, 3}, Targets{-1, 0}, Targets{1, int64_t{1} << 40}}) {
    EXPECT_FALSE(cross_entropy({2, 3, 1, -100, Reduction::kMean}, x.data(), target.data(), nullptr,
                               &loss, grad_x.data()));
  }
}

TEST(CrossEntropy, NanPropagates) {
  const Floats x = {-1, kNan};
  Floats grad_x(2);
  const Targets target = {0};
  float loss = 0;
  ASSERT_TRUE(cross_entropy({1, 2, 1, -100, Reduction::kMean}, x.data(), target.data(), nullptr,
                            &loss, grad_x.data()));
  EXPECT_TRUE(std::isnan(loss) && std::isnan(grad_x[0]) && std::isnan(grad_x[1]));
}

}  // namespace
}  // namespace daf::testing
