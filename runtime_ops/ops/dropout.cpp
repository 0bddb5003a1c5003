#include <limits>

#include "runtime_ops/ops/clock.h"
#include "runtime_ops/ops/operators.h"

namespace daf::ops {

void dropout(Arguments& args) {
  const Floats x = args.floats("x");
  const Clock clock = read_clock(args);
  const double p = args.number("p");
  const int64_t layer = args.integer("layer");
  args.require(p >= 0 && p <= 1, "p is ", p, ", expected 0 to 1");
  args.require(layer >= 0 && layer <= std::numeric_limits<uint32_t>::max(), "layer is ", layer);

  const Array<float> y = args.output("out", x.shape);
  const Dropout rng = make_dropout(clock, static_cast<float>(p), static_cast<uint32_t>(layer));
  daf::dropout(rng, 0, x.n_elements(), x.data, y.data);
}

}  // namespace daf::ops
