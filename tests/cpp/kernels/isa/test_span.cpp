#include <gtest/gtest.h>

#include "runtime_ops/kernels/common/span.h"

namespace daf::DAF_ISA {
namespace {

TEST(Span, OutputsInsideAreExactlyThoseThatReadAnInput) {
  for (int64_t start = -7; start <= 7; ++start) {
    for (int64_t stride = 1; stride <= 3; ++stride) {
      for (int64_t n_inputs = 0; n_inputs <= 6; ++n_inputs) {
        const int64_t n_outputs = 5;
        const Span span = outputs_inside(start, stride, n_inputs, n_outputs);
        for (int64_t o = 0; o < n_outputs; ++o) {
          const int64_t i = start + o * stride;
          EXPECT_EQ(span.first <= o && o < span.last, 0 <= i && i < n_inputs)
              << start << " + " << o << " * " << stride << " of " << n_inputs;
        }
      }
    }
  }
}

}  // namespace
}  // namespace daf::DAF_ISA
