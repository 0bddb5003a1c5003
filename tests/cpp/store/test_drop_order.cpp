#include <gtest/gtest.h>

#include <vector>

#include "runtime_ops/store/drop_order.h"

namespace daf::testing {
namespace {

TEST(DropOrder, LossIsWhatTheErrorOfTheGradientGrowsBy) {
  EXPECT_DOUBLE_EQ(DropOrder::loss_per_byte(1, 2, 4), (1 - 1.0 / 9) / 4);
  EXPECT_DOUBLE_EQ(DropOrder::loss_per_byte(9 * 49, 3, 1), 49 - 9);
  for (int bits = 2; bits < 8; ++bits) {
    EXPECT_GT(DropOrder::loss_per_byte(1, bits, 1), DropOrder::loss_per_byte(1, bits + 1, 1));
  }
}

TEST(DropOrder, CheapestFirstAndTheLowestIdOfEqualOnes) {
  DropOrder order(5);
  EXPECT_TRUE(order.is_empty());
  order.insert(3, 1.0);
  order.insert(4, 0.5);
  order.insert(1, 0.5);
  order.insert(0, 2.0);
  std::vector<int> ids;
  while (!order.is_empty()) {
    ids.push_back(order.cheapest());
    order.remove(order.cheapest());
  }
  EXPECT_EQ(ids, (std::vector<int>{1, 4, 3, 0}));
}

TEST(DropOrder, TensorsComeAndGo) {
  DropOrder order(2);
  order.remove(1);  // is not in it
  order.insert(1, 3);
  EXPECT_TRUE(order.contains(1));
  EXPECT_FALSE(order.contains(0));
  EXPECT_EQ(order.loss_per_byte(1), 3);
  order.remove(1);
  order.insert(1, 4);
  EXPECT_EQ(order.size(), 1u);
  EXPECT_EQ(order.loss_per_byte(1), 4);
}

}  // namespace
}  // namespace daf::testing
