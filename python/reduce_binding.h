#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "runtime_ops/gpu/hybrid_reducer.h"

namespace daf {

// Throws DafError with Exit::kUsage when there is none of this name.
ReduceMode reduce_mode(const std::string& name);

// What a session uses, and how often.
pybind11::dict reducer_dict(const HybridReducer& reducer);

void bind_reduce(pybind11::module_& m);

}  // namespace daf
