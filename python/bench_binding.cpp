// What `daf bench store` calls; see daf/_native.pyi.
#include "python/bench_binding.h"

#include <pybind11/stl.h>

#include "runtime_ops/store/bench.h"

namespace py = pybind11;

namespace daf {

void bind_store_bench(py::module_& m) {
  using bench::Codec;
  py::class_<Codec>(m, "BenchCodec")
      .def(py::init<int64_t>(), py::arg("n_elements"))
      .def(
          "run",
          [](Codec& codec, int bits) {
            const Codec::Seconds s = codec.run(bits);
            return py::make_tuple(s.copy, s.pack, s.unpack);
          },
          py::arg("bits"));
  m.def(
      "bench_pages",
      [](size_t n_pages, int64_t n_operations) {
        const bench::PageNanoseconds ns = bench::time_pages(n_pages, n_operations);
        return py::make_tuple(ns.pool, ns.malloc);
      },
      py::arg("n_pages"), py::arg("n_operations"));
  m.def("bench_drop_order", &bench::time_drop_order, py::arg("n_tensors"), py::arg("n_operations"));
  m.def(
      "bench_fragmentation",
      [](int64_t n_steps, size_t page_bytes, bool among_others) {
        const auto f = bench::run_fragmentation(n_steps, page_bytes, among_others, 1);
        return py::make_tuple(f.used, f.held, f.malloc_held);
      },
      py::arg("n_steps"), py::arg("page_bytes"), py::arg("among_others"));
  m.def(
      "bench_store_steps",
      [](int n_steps, size_t page_bytes, size_t grow_step_bytes) {
        const bench::Steps steps = bench::run_steps(n_steps, page_bytes, grow_step_bytes);
        py::dict result;
        result["first_s"] = steps.first_s;
        result["later_s"] = steps.later_s;
        result["copy_s"] = steps.copy_s;
        result["used_bytes"] = steps.stats.used_bytes;
        result["committed_bytes"] = steps.stats.committed_bytes;
        result["stored_bytes"] = steps.stats.stored_bytes;
        return result;
      },
      py::arg("n_steps"), py::arg("page_bytes"), py::arg("grow_step_bytes"));
}

}  // namespace daf
