#include "runtime_ops/ops/chosen_channels.h"
#include "runtime_ops/ops/operators.h"

namespace daf::ops {

void gather_channels(Arguments& args) {
  const Floats x = args.floats("x");
  const Indices index = args.indices("index");
  const int64_t groups = args.integer("groups");
  const int64_t block = args.integer("block");
  args.require_rank(x, 2, Shape::kMaxRank);
  args.require(groups >= 1 && x.size(1) % groups == 0, x.size(1), " channels do not make ", groups,
               " groups");
  const ChannelLayout all(args, x.shape, 1, block);
  args.require(all.n_channels % groups == 0, all.n_channels, " channels do not make ", groups,
               " groups");
  const int64_t group_channels = all.n_channels / groups;
  const ChannelIndex chosen(args, index, group_channels);

  Shape shape = {x.size(0), groups * chosen.n_chosen * block};
  for (int64_t axis = 2; axis < x.rank(); ++axis) shape.append(x.size(axis));
  const Array<float> y = args.output("out", shape);
  float* to = y.data;
  for (int64_t i = 0; i < x.size(0) * groups; ++i) {
    const float* group = x.data + i * group_channels * all.run;
    for (int64_t j = 0; j < chosen.n_chosen; ++j, to += all.run) {
      std::copy_n(group + chosen.channel[j] * all.run, all.run, to);
    }
  }
}

}  // namespace daf::ops
