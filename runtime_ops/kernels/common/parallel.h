// Splits work into tasks for the thread pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/isa.h"
#include "runtime_ops/kernels/thread_pool.h"

namespace daf::DAF_ISA {

// body(task, worker) for every task.
template <class Body>
void for_each_task(int64_t n_tasks, Body body) {
  run_tasks(
      n_tasks, [](void* b, int64_t task, int worker) { (*static_cast<Body*>(b))(task, worker); },
      &body);
}

// body(first, last) for ranges that together are [0, n). Each element costs about `cost` additions;
// a range is worth waking a thread for.
template <class Body>
void for_each_range(int64_t n, int64_t cost, Body body) {
  constexpr int64_t kWorth = 32768;
  const int64_t step = std::max<int64_t>(1, kWorth / std::max<int64_t>(cost, 1));
  for_each_task((n + step - 1) / step,
                [&](int64_t task, int) { body(task * step, std::min(n, (task + 1) * step)); });
}

}  // namespace daf::DAF_ISA
