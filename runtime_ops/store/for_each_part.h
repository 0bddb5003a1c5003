#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/thread_pool.h"

namespace daf {

// body(first, last) on the kernels' threads, for at most `part` of [first, last) at a time.
template <class Body>
void for_each_part(int64_t first, int64_t last, int64_t part, Body body) {
  auto run = [&](int64_t number) {
    const int64_t from = first + number * part;
    body(from, std::min(last, from + part));
  };
  run_tasks((last - first + part - 1) / part,
            [](void* r, int64_t number, int) { (*static_cast<decltype(run)*>(r))(number); }, &run);
}

// Some 16000 values at a time.
inline constexpr int64_t kGroupsPerPart = 64;

}  // namespace daf
