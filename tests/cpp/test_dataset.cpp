#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "manifest_example.h"
#include "runtime_ops/session/dataset.h"
#include "session_testing.h"

namespace daf {
namespace {

TEST(EpochOrder, IsAPermutationThatDependsOnSeedAndEpoch) {
  // What a resumed run and PyTorch's side of a comparison rely on.
  EXPECT_EQ(epoch_order(0, 0, 10), (std::vector<int64_t>{6, 0, 7, 9, 3, 2, 1, 5, 4, 8}));
  EXPECT_TRUE(epoch_order(1, 2, 0).empty());
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> order = epoch_order(seed, epoch, 100);
      EXPECT_EQ(order, epoch_order(seed, epoch, 100));
      orders.insert(order);
      std::sort(order.begin(), order.end());
      std::vector<int64_t> identity(100);
      std::iota(identity.begin(), identity.end(), 0);
      EXPECT_EQ(order, identity);
    }
  }
  EXPECT_EQ(orders.size(), 9u);
}

// Each of the 24 orders of 4 samples should come about 1,000 times.
TEST(EpochOrder, IsFair) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 24'000; ++epoch) ++counts[epoch_order(7, epoch, 4)];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 160);  // 5 sigma
}

class DatasetTest : public ::testing::Test {
 protected:
  // Sample i is x = {i, -i}, target = 10 i.
  void write_data(int64_t n_samples) {
    std::vector<float> x;
    std::vector<int64_t> target;
    for (int64_t i = 0; i < n_samples; ++i) {
      x.push_back(static_cast<float>(i));
      x.push_back(static_cast<float>(-i));
      target.push_back(10 * i);
    }
    write_safetensors(path_,
                      {{{"x", DType::kFloat32, {n_samples, 2}}, x.data()},
                       {{"target", DType::kInt64, {n_samples}}, target.data()}},
                      {});
  }

  Manifest manifest(bool dynamic_batch = false) const {
    return Manifest::parse(
        example_manifest({{"\"dynamic_batch\":false",
                           dynamic_batch ? "\"dynamic_batch\":true" : "\"dynamic_batch\":false"}}));
  }

  // The samples of a batch, checked to be whole.
  static std::vector<int64_t> samples(const std::vector<ConstTensorView>& batch) {
    std::vector<int64_t> result;
    const auto* x = static_cast<const float*>(batch[0].data);
    const auto* target = static_cast<const int64_t*>(batch[1].data);
    EXPECT_EQ(batch[0].spec.shape[0], batch[1].spec.shape[0]);
    for (int64_t i = 0; i < batch[1].spec.shape[0]; ++i) {
      const int64_t sample = target[i] / 10;
      EXPECT_EQ(x[2 * i], static_cast<float>(sample));
      EXPECT_EQ(x[2 * i + 1], static_cast<float>(-sample));
      result.push_back(sample);
    }
    return result;
  }

  void expect_error(const std::string& part) {
    expect_daf_error(Exit::kData, "cannot train on " + path_ + ": " + part,
                     [&] { Dataset(path_, manifest(), 0, true); });
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("d.safetensors");
};

TEST_F(DatasetTest, TakesSamplesAsTheyLie) {
  write_data(10);
  Dataset data(path_, manifest(), 0, /*shuffle=*/false);
  EXPECT_EQ(data.n_samples(), 10);
  EXPECT_EQ(data.batches_per_epoch(), 2);  // samples 8 and 9 do not fill a batch
  EXPECT_EQ(samples(data.batch(0)), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(samples(data.batch(1)), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(samples(data.batch(2)), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(DatasetTest, TakesTheRestOfAnEpochWithADynamicBatch) {
  write_data(10);
  Dataset data(path_, manifest(true), 0, /*shuffle=*/false);
  EXPECT_EQ(data.batches_per_epoch(), 3);
  EXPECT_EQ(samples(data.batch(2)), (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(samples(data.batch(3)), (std::vector<int64_t>{0, 1, 2, 3}));
  write_data(2);
  EXPECT_EQ(samples(Dataset(path_, manifest(true), 0, false).batch(0)),
            (std::vector<int64_t>{0, 1}));
}

TEST_F(DatasetTest, ShufflesByTheStepNumberAlone) {
  write_data(9);
  Dataset data(path_, manifest(), 5, /*shuffle=*/true);
  for (const int64_t step : {0, 1, 2, 3, 7, 0}) {
    const std::vector<int64_t> order = epoch_order(5, static_cast<uint64_t>(step / 2), 9);
    const auto begin = order.begin() + step % 2 * 4;
    EXPECT_EQ(samples(data.batch(step)), std::vector<int64_t>(begin, begin + 4)) << step;
  }
}

TEST_F(DatasetTest, SaysWhatDoesNotFit) {
  expect_error("no such file; give a safetensors file with --data");
  write_data(3);
  expect_error("it has 3 samples, a batch needs 4");
  const std::vector<float> x(40);
  const std::vector<int64_t> target(8);
  const ConstTensorView good_x = {{"x", DType::kFloat32, {8, 2}}, x.data()};
  const ConstTensorView good_target = {{"target", DType::kInt64, {8}}, target.data()};
  write_safetensors(path_, {good_x}, {});
  expect_error("the program expects the tensors x, target; missing in the file: target;");
  write_safetensors(path_, {good_x, good_target, {{"y", DType::kInt64, {8}}, target.data()}}, {});
  expect_error("the program expects the tensors x, target; not expected: y;");
  write_safetensors(path_, {good_x, {{"target", DType::kInt32, {8}}, target.data()}}, {});
  expect_error("'target' must be int64, found int32");
  write_safetensors(path_, {{{"x", DType::kFloat32, {8, 3}}, x.data()}, good_target}, {});
  expect_error("a sample of 'x' must be float32[2], found float32[3]");
  write_safetensors(path_, {{{"x", DType::kFloat32, {}}, x.data()}, good_target}, {});
  expect_error("a sample of 'x' must be float32[2], found a scalar");
  write_safetensors(path_, {good_x, {{"target", DType::kInt64, {7}}, target.data()}}, {});
  expect_error("'target' has 7 samples, the other tensors have 8");
  write_safetensors(path_, {{{"x", DType::kFloat32, {0, 2}}, x.data()}, good_target}, {});
  expect_error("'target' has 8 samples, the other tensors have 0");
}

TEST_F(DatasetTest, NoticesThatTheFileShrank) {
  write_data(8);
  Dataset data(path_, manifest(), 0, /*shuffle=*/false);
  std::filesystem::resize_file(path_, 100);
  expect_daf_error(Exit::kData, "it became shorter while it was read", [&] { data.batch(1); });
}

}  // namespace
}  // namespace daf
