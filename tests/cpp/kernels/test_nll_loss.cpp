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

}  // namespace
}  // namespace daf::testing
