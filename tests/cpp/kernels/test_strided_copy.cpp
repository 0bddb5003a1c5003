#include <algorithm>

#include "tests/cpp/kernels/reference.h"
#include "tests/cpp/kernels/strides.h"

namespace daf::testing {
namespace {

void check_copy(const Dims& sizes, const Dims& strides, int64_t n_source) {
  const Floats x = random_floats(n_source, 1);
  Floats y = unset_floats(product(sizes));
  strided_copy(static_cast<int>(sizes.size()), sizes.data(), strides.data(), x.data(), y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], x[place(sizes, strides, static_cast<int64_t>(i))]) << i;
  }
}

TEST(StridedCopy, EveryOrderOfAxes) {
  for (const Dims& sizes : {Dims{2, 3, 10, 17}, Dims{1, 8, 16, 3}, Dims{5, 1, 1, 9}}) {
    const Dims all = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    Dims order = {0, 1, 2, 3};
    do {
      Dims permuted, strides;
      for (int64_t axis : order) {
        permuted.push_back(sizes[axis]);
        strides.push_back(all[axis]);
      }
      check_copy(permuted, strides, product(sizes));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(StridedCopy, RepeatsAndSkips) {
  check_copy({}, {}, 1);
  check_copy({7, 3}, {0, 1}, 3);
  check_copy({7, 3}, {1, 0}, 7);
  check_copy({4, 5, 6}, {0, 0, 0}, 1);
  check_copy({3, 20}, {40, 2}, 120);
  check_copy({100, 400}, {1, 100}, 40000);
}

}  // namespace
}  // namespace daf::testing
