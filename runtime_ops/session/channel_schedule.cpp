#include "runtime_ops/session/channel_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "runtime_ops/kernels/philox.h"
#include "runtime_ops/session/error.h"

namespace daf {
namespace {

// No channel is drawn with less than this part of the mean importance: each has its turn.
constexpr double kLeastImportance = 0.01;

class StateByName {
 public:
  explicit StateByName(const std::vector<StateView>& state) {
    for (const StateView& view : state) views_.emplace(view.spec.name, view);
  }

  const StateView& find(const std::string& name) const {
    const auto found = views_.find(name);
    if (found == views_.end()) throw FormatError("update: there is no state tensor '" + name + "'");
    return found->second;
  }

  template <class T>
  T* find(const std::string& name, DType dtype, const Shape& shape) const {
    const StateView& view = find(name);
    if (view.spec.dtype != dtype || view.spec.shape != shape) {
      throw FormatError("update: state tensor '" + name + "' is " + view.spec.type_and_shape() +
                        ", expected " + TensorSpec{name, dtype, shape}.type_and_shape());
    }
    return static_cast<T*>(view.data);
  }

 private:
  std::map<std::string, StateView> views_;
};

int64_t product(const Shape& shape, size_t first, size_t last) {
  int64_t n = 1;
  for (size_t i = first; i < last; ++i) n *= shape[i];
  return n;
}

bool is_usable(double importance) { return std::isfinite(importance) && importance > 0; }

}  // namespace

ChannelSchedule::ChannelSchedule(const UpdatePlan& plan, const std::vector<StateView>& state)
    : plan_(plan) {
  const StateByName by_name(state);
  for (const UpdateLayer& wanted : plan.layers) {
    const TensorSpec& weight = by_name.find(wanted.parameter).spec;
    const auto axis = static_cast<size_t>(wanted.axis);
    if (weight.dtype != DType::kFloat32 || axis >= weight.shape.size() || wanted.n_chosen < 1 ||
        wanted.n_chosen > wanted.n_channels || weight.shape[axis] % wanted.n_channels != 0) {
      throw FormatError("update: " + std::to_string(wanted.n_chosen) + " of " +
                        std::to_string(wanted.n_channels) + " channels along axis " +
                        std::to_string(axis) + " do not fit " + wanted.parameter + ", " +
                        weight.type_and_shape());
    }
    const auto tensor = [&](const char* kind) { return wanted.parameter + "." + kind; };
    Layer layer{};
    layer.weight = by_name.find<float>(wanted.parameter, weight.dtype, weight.shape);
    layer.n_channels = wanted.n_channels;
    layer.n_chosen = wanted.n_chosen;
    layer.outer = product(weight.shape, 0, axis);
    layer.run = product(weight.shape, axis, weight.shape.size()) / layer.n_channels;
    layer.channel = by_name.find<int64_t>(tensor("index"), DType::kInt64, {2, layer.n_chosen});
    layer.since = layer.channel + layer.n_chosen;
    layer.square_grad =
        by_name.find<float>(tensor("square_grad"), DType::kFloat32, {layer.n_chosen});
    layer.score = by_name.find<float>(tensor("score"), DType::kFloat32, {layer.n_channels});
    layer.n_visits = by_name.find<int64_t>(tensor("n_visits"), DType::kInt64, {layer.n_channels});
    for (const StateView& view : state) {
      if (view.kind == StateKind::kOptimizer && view.parameter == wanted.parameter) {
        layer.slots.push_back(by_name.find<float>(view.spec.name, DType::kFloat32,
                                                  {layer.n_chosen, layer.outer * layer.run}));
      }
    }
    layers_.push_back(std::move(layer));
  }
}

Rotation ChannelSchedule::choose(int64_t seed, int64_t step) {
  Rotation rotation;
  rotation.step = step;
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    if (step > 0) update_scores(layer);
    std::fill_n(layer.square_grad, layer.n_chosen, 0.0f);
    rotation.n_changed += replace(layer, draw(layer, i, seed, step), step);
    rotation.n_chosen += layer.n_chosen;
  }
  rotation.coverage = coverage();
  return rotation;
}

// The mean over the steps since the last choice, and half of what was known before.
void ChannelSchedule::update_scores(Layer& layer) const {
  for (int64_t i = 0; i < layer.n_chosen; ++i) {
    const int64_t channel = layer.channel[i];
    if (channel < 0 || channel >= layer.n_channels) continue;
    const float mean = layer.square_grad[i] / static_cast<float>(plan_.rotate_every);
    float& score = layer.score[channel];
    score = score > 0 ? 0.5f * (score + mean) : mean;
  }
}

// Not scaled to a sum of 1: only ratios matter.
std::vector<double> ChannelSchedule::importance(const Layer& layer) const {
  std::vector<double> found(static_cast<size_t>(layer.n_channels), 1.0);
  if (plan_.selection == ChannelSelection::kNorm) {
    for (int64_t channel = 0; channel < layer.n_channels; ++channel) {
      double sum = 0;
      for (int64_t i = 0; i < layer.outer; ++i) {
        const float* run = layer.weight + (i * layer.n_channels + channel) * layer.run;
        for (int64_t j = 0; j < layer.run; ++j) sum += double{run[j]} * run[j];
      }
      found[static_cast<size_t>(channel)] = std::sqrt(sum);
    }
  } else if (plan_.selection == ChannelSelection::kGradient) {
    // What was never tried may be as good as the best.
    double best = 0;
    for (int64_t channel = 0; channel < layer.n_channels; ++channel) {
      if (is_usable(layer.score[channel])) best = std::max<double>(best, layer.score[channel]);
    }
    for (int64_t channel = 0; channel < layer.n_channels; ++channel) {
      const bool is_known = layer.n_visits[channel] > 0;
      found[static_cast<size_t>(channel)] = is_known ? layer.score[channel] : best;
    }
  }
  double sum = 0;
  for (const double value : found) sum += is_usable(value) ? value : 0;
  const double least = kLeastImportance * sum / static_cast<double>(layer.n_channels);
  for (double& value : found) {
    value = std::max(is_usable(value) ? value : 0, least);
    if (!is_usable(value)) value = 1;  // nothing is known of any
  }
  return found;
}

// Without replacement, in proportion to importance: the channels with the largest u^(1/importance),
// u uniform (Efraimidis and Spirakis, 2006). The one choice of a static plan is of the most
// important.
std::vector<int64_t> ChannelSchedule::draw(const Layer& layer, uint64_t number, int64_t seed,
                                           int64_t step) const {
  std::vector<double> key = importance(layer);
  if (plan_.rotate_every > 0 || plan_.selection == ChannelSelection::kRandom) {
    const Philox random(static_cast<uint64_t>(seed), kChannelStream | static_cast<uint64_t>(step));
    for (size_t channel = 0; channel < key.size(); ++channel) {
      const uint32_t word = random(number << 32 | channel / 4)[channel % 4];
      key[channel] = std::log((word + 0.5) * 0x1p-32) / key[channel];
    }
  }
  std::vector<int64_t> order(key.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return key[static_cast<size_t>(a)] > key[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(layer.n_chosen));
  std::sort(order.begin(), order.end());
  return order;
}

// Returns how many were not chosen before.
int64_t ChannelSchedule::replace(Layer& layer, const std::vector<int64_t>& chosen, int64_t step) {
  std::map<int64_t, int64_t> before;  // channel -> its place
  for (int64_t i = 0; i < layer.n_chosen; ++i) {
    const int64_t channel = layer.channel[i];
    const bool is_valid = channel >= 0 && channel < layer.n_channels;
    if (is_valid && layer.n_visits[channel] > 0) before.emplace(channel, i);
  }
  const int64_t slice = layer.outer * layer.run;
  const auto size = static_cast<size_t>(layer.n_chosen * slice);
  for (float* slot : layer.slots) {
    const std::vector<float> old(slot, slot + size);
    for (int64_t i = 0; i < layer.n_chosen; ++i) {
      const auto kept = before.find(chosen[static_cast<size_t>(i)]);
      float* to = slot + i * slice;
      if (kept == before.end()) {
        std::fill_n(to, slice, 0.0f);
      } else {
        std::copy_n(old.data() + kept->second * slice, slice, to);
      }
    }
  }
  const std::vector<int64_t> since(layer.since, layer.since + layer.n_chosen);
  int64_t n_changed = 0;
  for (int64_t i = 0; i < layer.n_chosen; ++i) {
    const int64_t channel = chosen[static_cast<size_t>(i)];
    const auto kept = before.find(channel);
    layer.channel[i] = channel;
    layer.since[i] = kept == before.end() ? step : since[static_cast<size_t>(kept->second)];
    if (kept == before.end()) {
      ++layer.n_visits[channel];
      ++n_changed;
    }
  }
  return n_changed;
}

double ChannelSchedule::coverage() const {
  double visited = 0, all = 0;
  for (const Layer& layer : layers_) {
    const auto slice = static_cast<double>(layer.outer * layer.run);
    for (int64_t i = 0; i < layer.n_channels; ++i) visited += layer.n_visits[i] > 0 ? slice : 0;
    all += slice * static_cast<double>(layer.n_channels);
  }
  return visited / all;
}

}  // namespace daf
