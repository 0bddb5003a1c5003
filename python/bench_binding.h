#pragma once

#include <pybind11/pybind11.h>

namespace daf {

void bind_store_bench(pybind11::module_& m);

}  // namespace daf
