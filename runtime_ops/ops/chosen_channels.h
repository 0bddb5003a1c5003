// The channels of a weight that train at a time, and how they lie in it.
#pragma once

#include <algorithm>

#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

// int64[2, chosen]: channels, and the step since which each is chosen.
struct ChannelIndex {
  const int64_t* channel;
  const int64_t* since;
  int64_t n_chosen;

  // Checks that it names channels of [0, n_channels).
  ChannelIndex(const Arguments& args, const Indices& index, int64_t n_channels)
      : channel(index.data), since(nullptr), n_chosen(0) {
    args.require(index.rank() == 2 && index.size(0) == 2, index.name, " has shape ", index.shape,
                 ", expected [2, chosen]");
    n_chosen = index.size(1);
    since = index.data + n_chosen;
    for (int64_t i = 0; i < n_chosen; ++i) {
      args.require(channel[i] >= 0 && channel[i] < n_channels, "channel ", channel[i],
                   " is outside [0, ", n_channels, ")");
    }
  }
};

// A tensor as [outer, channels, run].
struct ChannelLayout {
  int64_t outer, n_channels, run;

  // A channel is `block` entries along `axis`.
  ChannelLayout(const Arguments& args, const Shape& shape, int64_t axis, int64_t block) {
    args.require(axis >= 0 && axis < shape.rank(), "axis ", axis, " is not one of ", shape);
    args.require(block >= 1 && shape[axis] % block == 0, "channels of ", block, " do not make up ",
                 shape[axis]);
    outer = shape.product(0, axis);
    n_channels = shape[axis] / block;
    run = block * shape.product(axis + 1, shape.rank());
  }

  int64_t channel_elements() const { return outer * run; }

  // One channel, from the tensor to memory of its own and back.
  void read(const float* tensor, int64_t channel, float* to) const {
    for (int64_t i = 0; i < outer; ++i) {
      std::copy_n(tensor + (i * n_channels + channel) * run, run, to + i * run);
    }
  }
  void write(const float* from, int64_t channel, float* tensor) const {
    for (int64_t i = 0; i < outer; ++i) {
      std::copy_n(from + i * run, run, tensor + (i * n_channels + channel) * run);
    }
  }
};

}  // namespace daf::ops
