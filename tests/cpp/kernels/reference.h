// What the kernel tests share: random data, scratch memory, and comparison with references
// computed in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "runtime_ops/kernels/kernels.h"

namespace daf::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Uniform in [low, high); the same numbers for the same seed everywhere.
inline Floats random_floats(int64_t n, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  Floats values(static_cast<size_t>(n));
  for (float& v : values) v = low + (high - low) * static_cast<float>(engine() >> 8) * 0x1p-24f;
  return values;
}

// An output to be: filled with NaN, so that an element nobody wrote does not pass for zero.
inline Floats unset_floats(int64_t n) { return Floats(static_cast<size_t>(n), kNan); }

// Scratch that gives every allocation its own exact block, filled with NaN, and counts the bytes.
class VectorScratch : public Scratch {
 public:
  void* allocate(size_t size_bytes) override {
    blocks_.emplace_back(new (std::align_val_t{64}) unsigned char[size_bytes]);
    std::fill_n(blocks_.back().get(), size_bytes, static_cast<unsigned char>(0xff));
    size_bytes_ += size_bytes;
    return blocks_.back().get();
  }
  size_t size_bytes() const { return size_bytes_; }

 private:
  struct Delete {
    void operator()(unsigned char* p) const { operator delete[](p, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<unsigned char[], Delete>> blocks_;
  size_t size_bytes_ = 0;
};

// |actual - expected| <= tolerance * (1 + |expected|); NaN and inf must be the same.
inline void expect_close(const Floats& actual, const Doubles& expected, double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    if (std::isinf(e) && a == e) continue;
    ASSERT_LE(std::abs(a - e), tolerance * (1 + std::abs(e)))
        << "element " << i << ": " << a << ", expected " << e;
  }
}

inline Doubles to_doubles(const Floats& values) { return Doubles(values.begin(), values.end()); }

}  // namespace daf::testing
