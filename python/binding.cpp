// daf._native: the training session for Python. See daf/_native.pyi for the interface.
//
// ExecuTorch's `_portable_lib` must be loaded first: daf/native.py does that.

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/bench_binding.h"
#include "python/reduce_binding.h"
#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/session/dataset.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/operator_call.h"
#include "runtime_ops/session/run.h"
#include "runtime_ops/session/session.h"
#include "runtime_ops/store/plan.h"

namespace py = pybind11;

namespace daf {
namespace {

std::string text_of(const py::handle& object) { return py::cast<std::string>(py::str(object)); }

// Views `object` without a copy. `what` and `expected` are for the message of a DafError.
ConstTensorView view_array(const py::handle& object, const std::string& name, Exit exit,
                           const std::string& what, const std::string& expected) {
  const auto refuse = [&](const std::string& found) {
    throw DafError(exit, what + " '" + name + "' must be " + expected + ", found " + found);
  };
  if (!py::isinstance<py::array>(object)) {
    refuse(text_of(py::type::of(object).attr("__name__")) + "; make it a numpy array");
  }
  const auto array = py::reinterpret_borrow<py::array>(object);
  const Shape shape(array.shape(), array.shape() + array.ndim());
  const std::string dtype_name = text_of(array.dtype());  // ">f4" when the byte order is foreign
  const std::string found = dtype_name + format_shape(shape);
  const std::optional<DType> dtype = dtype_from_numpy_name(dtype_name);
  if (!dtype) refuse(found + "; convert it with astype()");
  if (!(array.flags() & py::array::c_style)) {
    refuse(found + " that is not C-contiguous; use numpy.ascontiguousarray()");
  }
  return {{name, *dtype, shape}, array.data()};
}

py::array copy_to_array(const TensorSpec& spec, const void* data) {
  py::array array(py::dtype(numpy_name(spec.dtype)), spec.shape);
  std::memcpy(array.mutable_data(), data, static_cast<size_t>(spec.size_bytes()));
  return array;
}

std::optional<Importance> to_importance(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const std::optional<Importance> importance = importance_named(*name);
  if (!importance) throw DafError(Exit::kUsage, "there is no importance '" + *name + "'");
  return importance;
}

// A session for several Python threads: each call has it alone, and waits without the GIL.
class Session {
 public:
  Session(const std::string& program, const std::string& manifest, int64_t seed,
          std::optional<int64_t> budget, const std::optional<std::string>& importance,
          const std::string& reduce)
      : session_(program, manifest,
                 SessionOptions{seed, budget, to_importance(importance), reduce_mode(reduce), ""}) {
  }

  float step(const py::sequence& sequence, std::optional<float> lr) {
    const py::tuple inputs(sequence);  // keeps the arrays, whatever happens to the sequence
    const auto views = input_views(session_.manifest().train_step, inputs, "train_step");
    const py::gil_scoped_release no_gil;
    const std::lock_guard lock(mutex_);
    return session_.step(views, lr).loss;
  }

  std::vector<std::pair<std::string, double>> profile() {
    const auto lock = lock_with_gil();
    std::vector<std::pair<std::string, double>> times;
    for (const InstructionTime& time : session_.profile()) {
      times.emplace_back(time.operator_name, static_cast<double>(time.elapsed_ns) / 1000);
    }
    return times;
  }

  py::dict outputs() {
    const auto lock = lock_with_gil();
    py::dict result;
    for (const ConstTensorView& view : session_.outputs()) {
      result[py::str(view.spec.name)] = copy_to_array(view.spec, view.data);
    }
    return result;
  }

  py::list predict(const py::sequence& sequence) {
    const py::tuple inputs(sequence);
    const auto views = input_views(session_.manifest().predict, inputs, "predict");
    const auto lock = lock_with_gil();
    std::vector<ConstTensorView> outputs;
    {
      const py::gil_scoped_release no_gil;
      outputs = session_.predict(views);
    }
    py::list result;
    for (const ConstTensorView& view : outputs) result.append(copy_to_array(view.spec, view.data));
    return result;
  }

  py::dict state() {
    const auto lock = lock_with_gil();
    py::dict result;
    for (const StateView& view : session_.state()) {
      result[py::str(view.spec.name)] = copy_to_array(view.spec, view.data);
    }
    return result;
  }

  void set_state(const py::object& tensors) {
    const auto lock = lock_with_gil();
    const py::dict items(tensors);
    std::vector<ConstTensorView> views;
    for (const auto& [name, array] : items) {
      views.push_back(view_array(array, text_of(name), Exit::kWeights,
                                 "cannot set the state:", "an array of the program's type"));
    }
    session_.set_state(views);
  }

  void save(const std::string& path) {
    const py::gil_scoped_release no_gil;
    const std::lock_guard lock(mutex_);
    session_.save(path);
  }

  void restore(const std::string& path) {
    const py::gil_scoped_release no_gil;
    const std::lock_guard lock(mutex_);
    session_.restore(path);
  }

  py::dict memory() {
    const auto lock = lock_with_gil();
    const MemoryParts parts = session_.memory();
    py::dict result;
    result["weights"] = parts.weights;
    result["constants"] = parts.constants;
    result["optimizer"] = parts.optimizer;
    result["arena"] = parts.arena;
    result["activations"] = parts.activations;
    result["gradients"] = parts.gradients;
    result["pool"] = parts.pool;
    result["workspace"] = parts.workspace;
    result["batch"] = parts.batch;
    return result;
  }

  int64_t trim(int64_t budget) {
    const py::gil_scoped_release no_gil;  // and no lock: it may come in the middle of a step
    return session_.trim(budget);
  }

  py::dict store() {
    py::dict result;
    ActivationStore* store = session_.store();
    if (store == nullptr) return result;
    const StoreStats stats = store->stats();
    result["budget"] = stats.budget_bytes;
    result["used"] = stats.used_bytes;
    result["committed"] = stats.committed_bytes;
    result["peak_used"] = stats.peak_used_bytes;
    result["largest_free"] = stats.largest_free_bytes;
    result["exact_groups"] = stats.exact_groups;
    result["drops_by_bit"] = stats.drops_by_bit;
    py::dict bits;
    for (size_t i = 0; i < store->plan().size(); ++i) {
      bits[py::str(store->plan()[i].name)] = store->bits(static_cast<int>(i));
    }
    result["bits"] = bits;
    std::string why;
    result["valid"] = store->is_valid(&why);
    return result;
  }

  py::dict reducer() {
    const auto lock = lock_with_gil();
    return session_.reducer() == nullptr ? py::dict() : reducer_dict(*session_.reducer());
  }

  void set_bits(const std::vector<int>& bits) {
    const auto lock = lock_with_gil();
    session_.set_bits(bits);
  }

  void set_rounding_seed(int64_t seed) {
    const auto lock = lock_with_gil();
    session_.set_rounding_seed(seed);
  }

  void set_step_count(int64_t step_count) {
    const auto lock = lock_with_gil();
    session_.set_step_count(step_count);
  }

  int64_t step_count() {
    const auto lock = lock_with_gil();
    return session_.step_count();
  }

  int64_t seed() {
    const auto lock = lock_with_gil();
    return session_.seed();
  }

 private:
  // Never waits for the session while it holds the GIL: the other thread may need the GIL to go on.
  std::unique_lock<std::mutex> lock_with_gil() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      const py::gil_scoped_release no_gil;
      lock.lock();
    }
    return lock;
  }

  static std::vector<ConstTensorView> input_views(const MethodSpec& method, const py::tuple& inputs,
                                                  const std::string& name) {
    std::vector<ConstTensorView> views;
    for (size_t i = 0; i < inputs.size(); ++i) {
      // One input too many is left to the session, which knows what to say.
      const TensorSpec spec = i < method.inputs.size() ? method.inputs[i] : TensorSpec();
      views.push_back(view_array(inputs[i], spec.name, Exit::kData,
                                 "cannot run " + name + ": input", spec.type_and_shape()));
    }
    return views;
  }

  TrainingSession session_;
  std::mutex mutex_;
};

// An exception of a callback, Ctrl-C for one, stops the run as should_stop does: the step is
// finished, the weights are saved, then the exception goes on.
std::string run_request(const std::string& request_json,
                        const std::function<void(const std::string&)>& on_line,
                        const std::function<bool()>& should_stop) {
  std::exception_ptr raised;
  const auto keep = [&](const auto& call) {
    const py::gil_scoped_acquire gil;
    if (raised) return true;
    try {
      return call();
    } catch (...) {
      raised = std::current_exception();
      return true;
    }
  };
  RunHost host;
  host.device_kind = "local";
  host.on_line = [&](const std::string& line) {
    keep([&] {
      on_line(line);
      return true;
    });
  };
  host.should_stop = [&] { return keep([&] { return should_stop(); }); };
  std::string footer;
  {
    const py::gil_scoped_release no_gil;
    footer = run(RunRequest::parse(request_json), host);
  }
  if (raised) std::rethrow_exception(raised);
  return footer;
}

// Keeps the arrays that the call reads and writes.
class PythonOperatorCall {
 public:
  PythonOperatorCall(const std::string& name, const py::sequence& arguments)
      : arguments_(arguments), call_(name, converted(arguments_)) {}

  void run() {
    const py::gil_scoped_release no_gil;
    call_.run();
  }

 private:
  static std::vector<OperatorCall::Argument> converted(const py::tuple& arguments) {
    std::vector<OperatorCall::Argument> result;
    for (const py::handle& argument : arguments) {
      if (py::isinstance<py::array>(argument)) {
        result.emplace_back(view_array(argument, "argument", Exit::kUsage,
                                       "cannot call an operator:", "a C-contiguous array"));
      } else if (argument.is_none()) {
        result.emplace_back(std::monostate());
      } else if (py::isinstance<py::bool_>(argument)) {
        result.emplace_back(py::cast<bool>(argument));
      } else if (py::isinstance<py::int_>(argument)) {
        result.emplace_back(py::cast<int64_t>(argument));
      } else if (py::isinstance<py::float_>(argument)) {
        result.emplace_back(py::cast<double>(argument));
      } else if (py::isinstance<py::str>(argument)) {
        result.emplace_back(py::cast<std::string>(argument));
      } else {
        result.emplace_back(py::cast<std::vector<int64_t>>(argument));
      }
    }
    return result;
  }

  py::tuple arguments_;
  OperatorCall call_;
};

py::array_t<int64_t> epoch_order_array(uint64_t seed, uint64_t epoch, int64_t n_samples) {
  if (n_samples < 0 || n_samples > int64_t{UINT32_MAX}) {
    throw DafError(Exit::kUsage, "cannot order " + std::to_string(n_samples) +
                                     " samples; the number must be from 0 to 2^32 - 1");
  }
  const std::vector<int64_t> order = epoch_order(seed, epoch, n_samples);
  return py::array_t<int64_t>(static_cast<py::ssize_t>(order.size()), order.data());
}

py::array_t<float> dropout_array(const py::array& x, float p, uint64_t seed, uint64_t step,
                                 uint32_t layer) {
  const ConstTensorView view =
      view_array(x, "x", Exit::kUsage, "cannot run dropout: input", "float32");
  if (view.spec.dtype != DType::kFloat32) {
    throw DafError(Exit::kUsage, "cannot run dropout: input 'x' must be float32, found " +
                                     view.spec.type_and_shape() + "; convert it with astype()");
  }
  if (!(p >= 0 && p <= 1)) {
    throw DafError(Exit::kUsage, "cannot run dropout: p must be from 0 to 1");
  }
  py::array_t<float> y(view.spec.shape);
  dropout({p, seed, step, layer}, 0, x.size(), static_cast<const float*>(view.data),
          y.mutable_data());
  return y;
}

// Height, width and block of the maps of a tensor (DIVISION); empty: it has none.
using Maps = std::vector<std::vector<int64_t>>;

MapEncoding map_of(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) return {};
  if (numbers.size() != 4) throw std::invalid_argument("a map has four numbers, or none");
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

size_t store_bytes(const std::vector<int64_t>& n_elements, const std::vector<int>& bits,
                   const Maps& maps) {
  std::vector<StoreEntry> plan;
  for (size_t i = 0; i < n_elements.size() && i < bits.size(); ++i) {
    plan.push_back({"", n_elements[i], bits[i], 1, 1.0,
                    i < maps.size() ? map_of(maps[i]) : MapEncoding(), false});
  }
  return ActivationStore::planned_bytes(plan);
}

std::vector<int> fit_bits_into(const std::vector<int64_t>& n_elements,
                               const std::vector<double>& sensitivities, size_t limit_bytes,
                               const Maps& maps) {
  std::vector<StoreEntry> plan;
  for (size_t i = 0; i < n_elements.size() && i < sensitivities.size(); ++i) {
    plan.push_back({"", n_elements[i], kMaxPlanes, 1, sensitivities[i],
                    i < maps.size() ? map_of(maps[i]) : MapEncoding(), false});
  }
  const size_t page_bytes = StoreOptions().page_bytes;
  return fit_bits(plan, page_bytes, limit_bytes / page_bytes);
}

py::array_t<float> store_and_read(const py::array& x, int bits, int read_bits,
                                  const std::vector<int64_t>& map, uint64_t seed, uint64_t step) {
  const ConstTensorView view =
      view_array(x, "x", Exit::kUsage, "cannot store an array: input", "float32");
  if (view.spec.dtype != DType::kFloat32) {
    throw DafError(Exit::kUsage, "cannot store an array: input 'x' must be float32, found " +
                                     view.spec.type_and_shape() + "; convert it with astype()");
  }
  const std::vector<StoreEntry> plan = {{"x", x.size(), bits, read_bits, 1.0, map_of(map), false}};
  StoreOptions options;  // with room for everything to be kept exact
  options.budget_bytes = ActivationStore::planned_bytes(plan) +
                         static_cast<size_t>(x.size()) * sizeof(float) + 2 * options.page_bytes;
  ActivationStore store(plan, options);
  store.begin_step(seed, step);
  store.stash(0, static_cast<const float*>(view.data));
  if (read_bits < bits) store.trim(0);
  py::array_t<float> y(view.spec.shape);
  store.read(0, 0, x.size(), y.mutable_data());
  return y;
}

void raise_daf_error(const py::object& type, Exit exit, const std::string& message) {
  // A path, or a name in a damaged file, need not be UTF-8.
  const auto text = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      message.data(), static_cast<py::ssize_t>(message.size()), "backslashreplace"));
  const py::object error = type(text);
  error.attr("exit_code") = static_cast<int>(exit);
  PyErr_SetObject(type.ptr(), error.ptr());
}

}  // namespace
}  // namespace daf

PYBIND11_MODULE(_native, m) {
  using namespace daf;
  m.attr("__version__") = DAF_VERSION;

  static PyObject* const error_type =
      PyErr_NewException("daf._native.DafError", PyExc_RuntimeError, nullptr);
  m.attr("DafError") = py::reinterpret_borrow<py::object>(error_type);
  py::register_local_exception_translator([](std::exception_ptr raised) {
    const auto type = py::reinterpret_borrow<py::object>(error_type);
    try {
      std::rethrow_exception(raised);
    } catch (const DafError& error) {
      raise_daf_error(type, error.exit(), error.what());
    } catch (const std::bad_alloc&) {
      raise_daf_error(type, Exit::kDevice, "out of memory; use a smaller model or batch");
    }
  });

  py::class_<Session>(m, "Session")
      .def(py::init<const std::string&, const std::string&, int64_t, std::optional<int64_t>,
                    const std::optional<std::string>&, const std::string&>(),
           py::arg("program"), py::arg("manifest"), py::kw_only(), py::arg("seed") = 0,
           py::arg("budget") = py::none(), py::arg("importance") = py::none(),
           py::arg("reduce") = "auto")
      .def("step", &Session::step, py::arg("inputs"), py::arg("lr") = py::none())
      .def("profile", &Session::profile)
      .def("outputs", &Session::outputs)
      .def("predict", &Session::predict, py::arg("inputs"))
      .def("state", &Session::state)
      .def("set_state", &Session::set_state, py::arg("tensors"))
      .def("save", &Session::save, py::arg("path"))
      .def("restore", &Session::restore, py::arg("path"))
      .def("memory", &Session::memory)
      .def("trim", &Session::trim, py::arg("budget"))
      .def("store", &Session::store)
      .def("reducer", &Session::reducer)
      .def("set_bits", &Session::set_bits, py::arg("bits"))
      .def("set_rounding_seed", &Session::set_rounding_seed, py::arg("seed"))
      .def("set_step_count", &Session::set_step_count, py::arg("step_count"))
      .def_property_readonly("step_count", &Session::step_count)
      .def_property_readonly("seed", &Session::seed);
  py::class_<PythonOperatorCall>(m, "OperatorCall")
      .def(py::init<const std::string&, const py::sequence&>(), py::arg("name"),
           py::arg("arguments"))
      .def("run", &PythonOperatorCall::run);
  m.def("run", &run_request, py::arg("request_json"), py::arg("on_line"), py::arg("should_stop"));
  m.def("epoch_order", &epoch_order_array, py::arg("seed"), py::arg("epoch"), py::arg("n_samples"));
  m.def("dropout", &dropout_array, py::arg("x"), py::arg("p"), py::arg("seed"), py::arg("step"),
        py::arg("layer"));
  m.def("operator_names", &operator_names);
  m.def("store_bytes", &store_bytes, py::arg("n_elements"), py::arg("bits"),
        py::arg("maps") = Maps());
  m.def("fit_bits", &fit_bits_into, py::arg("n_elements"), py::arg("sensitivities"),
        py::arg("limit_bytes"), py::arg("maps") = Maps());
  m.def("store_and_read", &store_and_read, py::arg("x"), py::arg("bits"), py::arg("read_bits"),
        py::arg("map"), py::arg("seed"), py::arg("step"));
  m.def("max_workspace_bytes", &max_scratch_bytes);
  m.def("current_isa", &current_isa);
  bind_store_bench(m);
  bind_reduce(m);
  m.def("set_threads", &set_threads, py::arg("n"));
}
