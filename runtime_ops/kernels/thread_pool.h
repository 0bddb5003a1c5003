// One small pool of threads for all kernels.
//
// Tasks are claimed one by one, so a fast core does more of them than a slow one. What a task
// computes must depend on its number alone: then no result depends on the number of threads.
#pragma once

#include <cstdint>

namespace daf {

// Runs body(context, task, worker) once for every task in [0, n_tasks), on the caller's thread and
// the pool's; returns when all are done. `worker` is below min(n_threads(), n_tasks) and no two
// tasks run at the same time with the same one. Tasks begin in the order of their numbers. `body`
// must not throw. A call from inside a task, or while another thread's call is running, is done by
// the caller alone (as worker 0).
void run_tasks(int64_t n_tasks, void (*body)(void* context, int64_t task, int worker),
               void* context);

// Between two looks at what another thread is about to change.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace daf
