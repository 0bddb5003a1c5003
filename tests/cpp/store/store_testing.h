// What the tests of the store share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime_ops/store/store.h"

namespace daf::testing {

inline constexpr size_t kPage = 16384;
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

using Floats = std::vector<float>;

// In [-1, 1).
inline Floats random_floats(int64_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  Floats values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(engine() >> 8) * 0x1p-23f - 1;
  return values;
}

inline Floats read_all(const ActivationStore& store, int id, int64_t n) {
  Floats values(static_cast<size_t>(n), kNan);
  store.read(id, 0, n, values.data());
  return values;
}

inline StoreEntry entry(int64_t n_elements, int bits, int min_bits = 1, double sensitivity = 1) {
  return {"a" + std::to_string(n_elements), n_elements, bits, min_bits, sensitivity};
}

inline StoreOptions with_budget(size_t budget_bytes) {
  StoreOptions options;
  options.budget_bytes = budget_bytes;
  return options;
}

inline ::testing::AssertionResult is_valid(const ActivationStore& store) {
  std::string why;
  if (store.is_valid(&why)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << why;
}

inline int64_t n_drops(const ActivationStore& store) {
  int64_t n = 0;
  for (const int64_t of_bit : store.stats().drops_by_bit) n += of_bit;
  return n;
}

}  // namespace daf::testing
