// Which instruction set's kernels run. The public functions of kernels.h forward through a table
// that is chosen once.
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "runtime_ops/kernels/blocks.h"
#include "runtime_ops/kernels/kernels.h"

namespace daf {

#define DAF_KERNEL(result, name, parameters, arguments) result name parameters;
namespace scalar {
#include "runtime_ops/kernels/kernels.inc"
}
namespace avx512 {
#include "runtime_ops/kernels/kernels.inc"
}
namespace avx2 {
#include "runtime_ops/kernels/kernels.inc"
}
namespace neon {
#include "runtime_ops/kernels/kernels.inc"
}
#undef DAF_KERNEL

namespace {

struct Table {
  const char* isa;
  bool (*is_available)();
#define DAF_KERNEL(result, name, parameters, arguments) result(*name) parameters;
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL
};

// Best first. What is not compiled for this target is not in the list.
const Table kTables[] = {
#if defined(DAF_HAS_avx512)
    {
        "avx512",
        [] {
          return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("fma");
        },
#define DAF_KERNEL(result, name, parameters, arguments) avx512::name,
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL
    },
#endif
#if defined(DAF_HAS_avx2)
    {
        "avx2",
        [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); },
#define DAF_KERNEL(result, name, parameters, arguments) avx2::name,
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL
    },
#endif
#if defined(DAF_HAS_neon)
    {
        "neon",
        [] { return true; },
#define DAF_KERNEL(result, name, parameters, arguments) neon::name,
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL
    },
#endif
    {
        "scalar",
        [] { return true; },
#define DAF_KERNEL(result, name, parameters, arguments) scalar::name,
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL
    },
};

std::atomic<const Table*> chosen{nullptr};

const Table& find(const std::string& name) {
  std::string names;
  for (const Table& table : kTables) {
    if (!table.is_available()) continue;
    if (name == table.isa) return table;
    names += (names.empty() ? "" : ", ") + std::string(table.isa);
  }
  throw std::invalid_argument("cannot use the kernels for '" + name +
                              "': this processor and build have " + names +
                              "; set DAF_ISA to one of these, or not at all");
}

const Table& table() {
  const Table* current = chosen.load(std::memory_order_acquire);
  if (current == nullptr) {
    const char* forced = std::getenv("DAF_ISA");
    current = &find(forced != nullptr && *forced != '\0' ? forced : available_isas().front());
    chosen.store(current, std::memory_order_release);
  }
  return *current;
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Table& table : kTables) {
    if (table.is_available()) names.push_back(table.isa);
  }
  return names;
}

std::string current_isa() { return table().isa; }

size_t max_scratch_bytes() {
  return static_cast<size_t>(n_threads()) * kMaxPanelFloats * sizeof(float);
}

void select_isa(const std::string& name) { chosen.store(&find(name), std::memory_order_release); }

#define DAF_KERNEL(result, name, parameters, arguments) \
  result name parameters { return table().name arguments; }
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL

template <>
void max_pool2d(const Pool2d& shape, const float* x, float* y, uint8_t* offset) {
  table().max_pool2d_u8(shape, x, y, offset);
}
template <>
void max_pool2d(const Pool2d& shape, const float* x, float* y, int32_t* offset) {
  table().max_pool2d_i32(shape, x, y, offset);
}
template <>
void max_pool2d_backward(const Pool2d& shape, const float* grad_y, const uint8_t* offset,
                         float* grad_x) {
  table().max_pool2d_backward_u8(shape, grad_y, offset, grad_x);
}
template <>
void max_pool2d_backward(const Pool2d& shape, const float* grad_y, const int32_t* offset,
                         float* grad_x) {
  table().max_pool2d_backward_i32(shape, grad_y, offset, grad_x);
}

}  // namespace daf
