// Which channels of the update layers train: chosen when a session starts, and anew every so many
// steps, so that over time most of them have their turn.
//
// All that a choice depends on is state of the program, the seed and the step, so a resumed run
// makes the same ones. Of each weight `w` the state has, beside the slots of the optimizer:
//
//   w.index        int64[2, chosen]   channels, ascending, and the step since which each is chosen
//   w.square_grad  float32[chosen]    sum of the squared norms of their gradients since the choice
//   w.score        float32[channels]  running mean of those of every channel that was measured
//   w.n_visits     int64[channels]    how often each came to be chosen
#pragma once

#include <cstdint>
#include <vector>

#include "runtime_ops/session/checkpoint.h"
#include "runtime_ops/session/manifest.h"

namespace daf {

struct Rotation {
  int64_t step = 0;       // steps taken before it
  int64_t n_changed = 0;  // channels that were not chosen before
  int64_t n_chosen = 0;
  double coverage = 0;  // the part of the update layers' weights that has been chosen so far
};

class ChannelSchedule {
 public:
  // `state` stays where it is. Throws FormatError when it is not what the plan needs.
  ChannelSchedule(const UpdatePlan& plan, const std::vector<StateView>& state);

  bool is_due(int64_t step) const {
    return plan_.rotate_every > 0 && step > 0 && step % plan_.rotate_every == 0;
  }
  // A channel that stays keeps the optimizer's state, one that comes starts from zero.
  Rotation choose(int64_t seed, int64_t step);

 private:
  struct Layer {
    const float* weight;  // [outer, channels, run]
    int64_t outer, n_channels, run, n_chosen;
    int64_t *channel, *since, *n_visits;
    float *square_grad, *score;
    std::vector<float*> slots;  // [chosen, outer * run] each
  };

  void update_scores(Layer& layer) const;
  std::vector<double> importance(const Layer& layer) const;
  std::vector<int64_t> draw(const Layer& layer, uint64_t number, int64_t seed, int64_t step) const;
  static int64_t replace(Layer& layer, const std::vector<int64_t>& chosen, int64_t step);
  double coverage() const;

  UpdatePlan plan_;
  std::vector<Layer> layers_;
};

}  // namespace daf
