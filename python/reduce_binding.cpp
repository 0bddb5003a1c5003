// Reduction on the GPU: what `daf doctor`, `daf tune` and `daf bench reduce` call; see
// daf/_native.pyi.
#include "python/reduce_binding.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "runtime_ops/gpu/bench.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/tune_reduce.h"

namespace py = pybind11;

namespace daf {
namespace {

py::dict device_dict(const ReduceDevice& device) {
  py::dict result;
  result["backend"] = name_of(device.backend);
  result["name"] = device.name;
  result["driver"] = device.driver;
  result["is_software"] = device.is_software;
  result["subgroup_size"] = device.subgroup_size;
  result["workgroup_size"] = device.workgroup_size;
  result["can_share"] = device.can_share;
  return result;
}

ReduceOp op_of(const std::string& name) {
  for (const ReduceOp op : kReduceOps) {
    if (name == name_of(op)) return op;
  }
  throw py::value_error("expected range, ranges or decode, found " + name);
}

py::list probed_list(const HybridReducer& reducer) {
  py::list result;
  for (const ProbedBackend& probed : reducer.probed()) {
    py::dict device = device_dict(probed.device);
    device["backend"] = name_of(probed.backend);
    device["reason"] = probed.reason;
    result.append(device);
  }
  return result;
}

// Everything that is installed.
HybridOptions all_backends() {
  HybridOptions options;
  options.tries_software = true;
  options.gpu = gpu_options_from_environment();
  return options;
}

std::unique_ptr<bench::Reduce> make_bench(const std::string& backend, int64_t n) {
  try {
    const Backend chosen = backend == "vulkan"   ? Backend::kVulkan
                           : backend == "opencl" ? Backend::kOpenCl
                                                 : Backend::kCpu;
    return std::make_unique<bench::Reduce>(chosen, n);
  } catch (const GpuError& error) {
    throw DafError(Exit::kDevice, error.what());
  }
}

}  // namespace

ReduceMode reduce_mode(const std::string& name) {
  const ReduceMode* mode = find_reduce_mode(name);
  if (mode != nullptr) return *mode;
  throw DafError(Exit::kUsage, "cannot reduce with '" + name +
                                   "': there is no such backend; use auto, cpu, vulkan or opencl");
}

py::dict reducer_dict(const HybridReducer& reducer) {
  py::dict uses;
  for (const auto& [name, use] : reducer.uses()) uses[py::str(name)] = use.n_calls;
  py::dict result;
  result["mode"] = name_of(reducer.mode());
  result["uses_gpu"] = reducer.has_gpu();
  result["probed"] = probed_list(reducer);
  result["failure"] = reducer.failure();
  result["calls"] = uses;
  result["copied_bytes"] = reducer.copied_bytes();
  return result;
}

void bind_reduce(py::module_& m) {
  m.def("reduce_devices", [] { return probed_list(HybridReducer(all_backends())); });
  m.def("tuned_sizes", &tuned_sizes);
  m.def("tune_reduce", &tune_reduce, py::arg("path"), py::arg("sizes"), py::arg("tries_software"),
        py::arg("on_size"));
  using bench::Reduce;
  py::class_<Reduce>(m, "BenchReduce")
      .def(py::init(&make_bench), py::arg("backend"), py::arg("n_elements"))
      .def_property_readonly("device",
                             [](const Reduce& bench) { return device_dict(bench.device()); })
      .def_property_readonly("shares_memory", &Reduce::shares_memory)
      .def(
          "variants",
          [](const Reduce& bench, const std::string& op) {
            std::vector<std::string> names;
            for (const Variant& variant : bench.variants(op_of(op))) {
              names.push_back(variant.name());
            }
            return names;
          },
          py::arg("op"))
      .def(
          "run",
          [](Reduce& bench, const std::string& op, const std::string& name) {
            for (const Variant& variant : bench.variants(op_of(op))) {
              if (variant.name() == name) return bench.run(op_of(op), variant);
            }
            return bench.run(op_of(op), Variant{});
          },
          py::arg("op"), py::arg("variant"))
      .def("run_read", &Reduce::run_read);
}

}  // namespace daf
