#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "runtime_ops/session/channel_schedule.h"
#include "runtime_ops/session/error.h"

namespace daf {
namespace {

constexpr int64_t kOuter = 3, kChannels = 12, kRun = 2, kChosen = 4, kSlice = kOuter * kRun;

// The state of one convolution [3, 12, 1, 2] of which 4 input channels train.
struct State {
  std::vector<float> weight = std::vector<float>(kOuter * kChannels * kRun, 1.0f);
  std::vector<float> momentum = std::vector<float>(kChosen * kSlice);
  std::vector<int64_t> index = std::vector<int64_t>(2 * kChosen);
  std::vector<float> square_grad = std::vector<float>(kChosen);
  std::vector<float> score = std::vector<float>(kChannels);
  std::vector<int64_t> n_visits = std::vector<int64_t>(kChannels);

  std::vector<StateView> views() {
    return {
        {{"c.w", DType::kFloat32, {kOuter, kChannels, 1, kRun}}, StateKind::kParameter, &weight[0]},
        {{"c.w.momentum_buffer", DType::kFloat32, {kChosen, kSlice}},
         StateKind::kOptimizer,
         &momentum[0],
         "c.w"},
        {{"c.w.index", DType::kInt64, {2, kChosen}}, StateKind::kIndex, &index[0], "c.w"},
        {{"c.w.square_grad", DType::kFloat32, {kChosen}}, StateKind::kIndex, &square_grad[0]},
        {{"c.w.score", DType::kFloat32, {kChannels}}, StateKind::kIndex, &score[0], "c.w"},
        {{"c.w.n_visits", DType::kInt64, {kChannels}}, StateKind::kIndex, &n_visits[0], "c.w"}};
  }

  std::set<int64_t> chosen() const { return {index.begin(), index.begin() + kChosen}; }
  float* weights_of(int64_t outer, int64_t channel) {
    return &weight[static_cast<size_t>((outer * kChannels + channel) * kRun)];
  }
};

UpdatePlan plan_of(ChannelSelection selection, int64_t rotate_every) {
  UpdatePlan plan;
  plan.layers.push_back({"c", "c.w", 1, kChannels, kChosen});
  plan.selection = selection;
  plan.rotate_every = rotate_every;
  return plan;
}

TEST(ChannelScheduleTest, ChoosesDifferentChannelsInOrder) {
  State state;
  ChannelSchedule schedule(plan_of(ChannelSelection::kNorm, 10), state.views());
  const Rotation rotation = schedule.choose(7, 0);
  EXPECT_EQ(state.chosen().size(), size_t{kChosen});
  EXPECT_TRUE(std::is_sorted(state.index.begin(), state.index.begin() + kChosen));
  EXPECT_GE(state.index[0], 0);
  EXPECT_LT(state.index[kChosen - 1], kChannels);
  EXPECT_EQ(rotation.n_changed, kChosen);
  EXPECT_EQ(rotation.n_chosen, kChosen);
  EXPECT_DOUBLE_EQ(rotation.coverage, 4.0 / 12);
}

TEST(ChannelScheduleTest, IsDueAtMultiplesAfterTheStart) {
  State state;
  const ChannelSchedule schedule(plan_of(ChannelSelection::kNorm, 10), state.views());
  EXPECT_FALSE(schedule.is_due(0));
  EXPECT_FALSE(schedule.is_due(9));
  EXPECT_TRUE(schedule.is_due(10));
  EXPECT_TRUE(schedule.is_due(20));
  const ChannelSchedule fixed(plan_of(ChannelSelection::kNorm, 0), state.views());
  EXPECT_FALSE(fixed.is_due(0));
  EXPECT_FALSE(fixed.is_due(10));
}

TEST(ChannelScheduleTest, SeedStepAndStateDecide) {
  State a, b, c;
  ChannelSchedule(plan_of(ChannelSelection::kRandom, 5), a.views()).choose(3, 0);
  ChannelSchedule(plan_of(ChannelSelection::kRandom, 5), b.views()).choose(3, 0);
  EXPECT_EQ(a.index, b.index);
  std::set<std::set<int64_t>> found;
  for (int64_t seed = 0; seed < 20; ++seed) {
    State other;
    ChannelSchedule(plan_of(ChannelSelection::kRandom, 5), other.views()).choose(seed, 0);
    found.insert(other.chosen());
  }
  EXPECT_GT(found.size(), size_t{10});
}

TEST(ChannelScheduleTest, VisitsEverythingAndCounts) {
  State state;
  ChannelSchedule schedule(plan_of(ChannelSelection::kNorm, 1), state.views());
  std::set<int64_t> seen;
  double last = 0;
  int64_t step = 0;
  for (; step < 200 && last < 1; ++step) {
    const Rotation rotation = schedule.choose(1, step);
    for (const int64_t channel : state.chosen()) seen.insert(channel);
    EXPECT_DOUBLE_EQ(rotation.coverage, static_cast<double>(seen.size()) / kChannels);
    EXPECT_GE(rotation.coverage, last);
    last = rotation.coverage;
  }
  EXPECT_EQ(seen.size(), size_t{kChannels}) << "after " << step << " rotations";
}

TEST(ChannelScheduleTest, WhatStaysKeepsItsState) {
  State state;
  ChannelSchedule schedule(plan_of(ChannelSelection::kRandom, 1), state.views());
  schedule.choose(0, 0);
  bool has_kept = false, has_changed = false;
  for (int64_t step = 1; step < 20; ++step) {
    std::iota(state.momentum.begin(), state.momentum.end(), static_cast<float>(100 * step));
    const State before = state;
    schedule.choose(0, step);
    for (size_t i = 0; i < kChosen; ++i) {
      const auto old =
          std::find(before.index.begin(), before.index.begin() + kChosen, state.index[i]);
      const size_t at = static_cast<size_t>(old - before.index.begin());
      const bool stays = at < kChosen;
      (stays ? has_kept : has_changed) = true;
      EXPECT_EQ(state.index[kChosen + i], stays ? before.index[kChosen + at] : step);
      for (size_t j = 0; j < kSlice; ++j) {
        EXPECT_EQ(state.momentum[i * kSlice + j], stays ? before.momentum[at * kSlice + j] : 0.0f);
      }
    }
  }
  EXPECT_TRUE(has_kept);
  EXPECT_TRUE(has_changed);
}

TEST(ChannelScheduleTest, AStaticPlanTakesTheLargestNorms) {
  State state;
  for (const int64_t channel : {1, 4, 5, 11}) state.weights_of(2, channel)[1] = -3.0f;
  ChannelSchedule(plan_of(ChannelSelection::kNorm, 0), state.views()).choose(0, 0);
  EXPECT_EQ(state.chosen(), (std::set<int64_t>{1, 4, 5, 11}));
}

TEST(ChannelScheduleTest, LargerNormsAreDrawnMoreOften) {
  State state;
  for (int64_t outer = 0; outer < kOuter; ++outer) {
    for (int64_t i = 0; i < kRun; ++i) state.weights_of(outer, 2)[i] = 10.0f;
  }
  ChannelSchedule schedule(plan_of(ChannelSelection::kNorm, 1), state.views());
  int n_large = 0, n_other = 0;
  for (int64_t step = 0; step < 300; ++step) {
    schedule.choose(5, step);
    n_large += static_cast<int>(state.chosen().count(2));
    n_other += static_cast<int>(state.chosen().count(3));
  }
  EXPECT_GT(n_large, 250);
  EXPECT_LT(n_other, 150);
}

TEST(ChannelScheduleTest, LargerGradientsAreDrawnMoreOftenOnceAllWereTried) {
  State state;
  ChannelSchedule schedule(plan_of(ChannelSelection::kGradient, 1), state.views());
  int n_large = 0, n_other = 0;
  for (int64_t step = 0; step < 400; ++step) {
    const Rotation rotation = schedule.choose(5, step);
    for (size_t i = 0; i < kChosen; ++i) {
      EXPECT_EQ(state.square_grad[i], 0.0f);
      state.square_grad[i] = state.index[i] == 6 ? 50.0f : 1.0f;
    }
    if (step < 100) continue;
    EXPECT_EQ(rotation.coverage, 1.0);
    n_large += static_cast<int>(state.chosen().count(6));
    n_other += static_cast<int>(state.chosen().count(3));
  }
  EXPECT_GT(n_large, 280);
  EXPECT_LT(n_other, 150);
  EXPECT_NEAR(state.score[6], 50, 1);
}

TEST(ChannelScheduleTest, NumbersThatAreNotFiniteDoNotStopIt) {
  State state;
  state.weights_of(0, 3)[0] = std::numeric_limits<float>::quiet_NaN();
  state.weights_of(0, 4)[0] = std::numeric_limits<float>::infinity();
  ChannelSchedule schedule(plan_of(ChannelSelection::kNorm, 1), state.views());
  for (int64_t step = 0; step < 50; ++step) {
    schedule.choose(0, step);
    EXPECT_EQ(state.chosen().size(), size_t{kChosen});
  }
  // An index that was damaged is made anew.
  state.index.assign(state.index.size(), int64_t{1} << 40);
  schedule.choose(0, 50);
  EXPECT_EQ(state.chosen().size(), size_t{kChosen});
  EXPECT_LT(*state.chosen().rbegin(), kChannels);
}

TEST(ChannelScheduleTest, RefusesStateThatDoesNotFit) {
  State state;
  const auto fails = [&](const UpdatePlan& plan, std::vector<StateView> views,
                         const std::string& expected) {
    try {
      ChannelSchedule schedule(plan, views);
      FAIL() << "expected: " << expected;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  };
  UpdatePlan plan = plan_of(ChannelSelection::kNorm, 1);
  std::vector<StateView> views = state.views();
  views.pop_back();
  fails(plan, views, "no state tensor 'c.w.n_visits'");
  views = state.views();
  views[1].spec.shape = {kChosen, kSlice + 1};
  fails(plan, views, "'c.w.momentum_buffer' is float32[4, 7], expected float32[4, 6]");
  plan.layers[0].n_chosen = kChannels + 1;
  fails(plan, state.views(), "13 of 12 channels");
  plan = plan_of(ChannelSelection::kNorm, 1);
  plan.layers[0].axis = 4;
  fails(plan, state.views(), "along axis 4");
  plan.layers[0].axis = 0;
  fails(plan, state.views(), "do not fit c.w");
  plan.layers[0].parameter = "other";
  fails(plan, state.views(), "no state tensor 'other'");
}

}  // namespace
}  // namespace daf
