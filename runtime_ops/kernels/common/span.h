// Which outputs along one axis see an input that is not padding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

struct Span {
  int64_t first, last;  // [first, last)
};

// Outputs o in [0, n_outputs) with 0 <= start + o * stride < n_inputs; empty where first >= last.
inline Span outputs_inside(int64_t start, int64_t stride, int64_t n_inputs, int64_t n_outputs) {
  const auto outputs_before = [=](int64_t input) {  // how many o have start + o * stride < input
    return start < input ? (input - start + stride - 1) / stride : 0;
  };
  return {outputs_before(0), std::min(n_outputs, outputs_before(n_inputs))};
}

}  // namespace daf::DAF_ISA
