// The activation store on a GPU holds and gives back what it does on the CPU, also when the GPU
// fails in between.
#include <cmath>
#include <cstring>

#include "runtime_ops/gpu/hybrid_reducer.h"
#include "runtime_ops/store/store.h"
#include "tests/cpp/gpu/drivers.h"

namespace daf::testing {
namespace {

const int64_t kSizes[] = {100, 256, 5000, 70'001, 300'000};
constexpr int kSteps = 3;

HybridOptions hybrid_options() {
  HybridOptions options;
  const std::string backend = backend_under_test();
  options.mode = backend.empty() ? ReduceMode::kCpu : *find_reduce_mode(backend);
  options.gpu = validated();
  return options;
}

std::vector<float> activation(size_t tensor, int step) {
  std::vector<float> x(static_cast<size_t>(kSizes[tensor]));
  uint32_t state = static_cast<uint32_t>(tensor * 97 + static_cast<size_t>(step) + 1);
  for (size_t i = 0; i < x.size(); ++i) {
    state = state * 1664525 + 1013904223;
    x[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    // Groups that are all zero, hardly there, kept exact, or below what devices resolve.
    const size_t group = i / 256;
    if (group % 7 == 3) x[i] = 0;
    if (group % 7 == 4) x[i] *= 0x1p-120f;
    if (group % 7 == 5) x[i] *= 0x1p-99f;
    if (group % 50 == 6 && i % 256 == 17) x[i] = std::nanf("");
  }
  return x;
}

struct Outcome {
  std::vector<std::vector<float>> values;
  std::vector<size_t> used_bytes;
};

// Some steps of a training run, with a budget that makes planes go, and a trim.
Outcome train(HybridReducer* reducer) {
  std::vector<StoreEntry> plan;
  for (const int64_t n : kSizes) plan.push_back({"a", n, 4, 1, 1.0 / static_cast<double>(n)});
  StoreOptions options;
  options.budget_bytes = ActivationStore::planned_bytes(plan) + (64 << 10);
  ActivationStore store(plan, options);
  if (reducer != nullptr) store.set_reducer(reducer);
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    store.begin_step(7, static_cast<uint64_t>(step));
    for (size_t i = 0; i < plan.size(); ++i) {
      store.stash(static_cast<int>(i), activation(i, step).data());
    }
    if (step == 1) store.trim(ActivationStore::floor_bytes(plan) + (128 << 10));
    std::string why;
    EXPECT_TRUE(store.is_valid(&why)) << why;
    outcome.used_bytes.push_back(store.stats().used_bytes);
    for (size_t i = plan.size(); i-- > 0;) {
      const int64_t n = plan[i].n_elements;
      for (const auto& [first, count] : {std::pair(int64_t{0}, n), {n / 3, n / 2}, {n - 1, 1}}) {
        std::vector<float> y(static_cast<size_t>(count), -1);
        store.read(static_cast<int>(i), first, count, y.data());
        outcome.values.push_back(std::move(y));
      }
      store.release(static_cast<int>(i));
    }
  }
  return outcome;
}

void expect_same(const Outcome& actual, const Outcome& expected) {
  EXPECT_EQ(actual.used_bytes, expected.used_bytes);
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const auto &a = actual.values[i], &b = expected.values[i];
    for (size_t k = 0; k < b.size(); ++k) {
      ASSERT_EQ(std::memcmp(&a[k], &b[k], sizeof(float)), 0)
          << "value " << k << " of " << b.size() << " in read " << i << ": " << a[k]
          << ", expected " << b[k];
    }
  }
}

TEST(HybridReducer, AStoreHoldsTheSameBits) {
  HybridReducer reducer(hybrid_options());
  EXPECT_EQ(reducer.has_gpu(), !backend_under_test().empty());
  expect_same(train(&reducer), train(nullptr));
  EXPECT_EQ(reducer.failure(), "");
  const std::string gpu = backend_under_test();
  for (const auto& [name, use] : reducer.uses()) {
    EXPECT_NE(name.find(gpu.empty() ? "cpu" : gpu), std::string::npos) << name;
    EXPECT_GT(use.n_calls, 0);
  }
}

TEST(HybridReducer, WithADeviceThatPacksToo) {
  for (const bool shares_memory : {true, false}) {
    HybridOptions options = hybrid_options();
    options.gpu.shares_memory = shares_memory;
    bool can_pack = false;
    options.may_use = [&](const Variant& variant) {
      can_pack |= variant.packs;
      return variant.packs || variant == Variant{variant.backend};
    };
    HybridReducer reducer(options);
    if (!can_pack) GTEST_SKIP() << "the device does not pack";
    // Until both variants of each size were used.
    for (int round = 0; round < 2; ++round) expect_same(train(&reducer), train(nullptr));
    EXPECT_GT(reducer.uses()["encode vulkan tree vec4 subgroup pack"].n_calls, 0);
  }
}

TEST(HybridReducer, WithoutSharedMemoryToo) {
  HybridOptions options = hybrid_options();
  options.gpu.shares_memory = false;
  HybridReducer reducer(options);
  expect_same(train(&reducer), train(nullptr));
  EXPECT_EQ(reducer.copied_bytes() > 1'000'000, reducer.has_gpu());
}

TEST(HybridReducer, AFailureInAnyCallIsSurvived) {
  if (backend_under_test().empty()) GTEST_SKIP() << "the CPU does not fail";
  const Outcome expected = train(nullptr);
  // The first calls are those of the check at the start. The others are stashes and reads.
  for (const int call : {5, 23, 30, 50}) {
    HybridOptions options = hybrid_options();
    options.gpu.faults.fails_at_call = call;
    options.gpu.faults.failure =
        call % 2 == 0 ? GpuError::Kind::kLost : GpuError::Kind::kOutOfMemory;
    HybridReducer reducer(options);
    expect_same(train(&reducer), expected);
    EXPECT_FALSE(reducer.has_gpu()) << call;
    EXPECT_NE(reducer.failure().empty(), reducer.probed().front().reason.empty()) << call;
  }
}

TEST(HybridReducer, LearnsWhichIsFastest) {
  if (backend_under_test().empty()) GTEST_SKIP() << "with one variant there is nothing to learn";
  // A clock by which every look at it takes longer: the CPU looks as often as the others, so the
  // first variant that is tried wins.
  int64_t now = 0, step = 1;
  HybridOptions options = hybrid_options();
  options.mode = ReduceMode::kAuto;
  options.tries_software = true;
  options.clock_ns = [&] { return now += 1000 + ++step; };
  HybridReducer reducer(options);
  ASSERT_TRUE(reducer.has_gpu());
  std::vector<float> x(1000, 1.0f);
  int64_t n_given = 0;
  for (int call = 0; call < 60; ++call) {
    const auto pack = [&](const OrderedRange* ranges) {
      n_given += ranges != nullptr;
      return 0;
    };
    reducer.encode(1000, x.data(), pack,
                   [&](const OrderedRange* ranges, const auto&) { return pack(ranges); });
  }
  EXPECT_EQ(reducer.best(ReduceOp::kRanges, 1000), "cpu");
  EXPECT_GT(n_given, 0);
  EXPECT_LT(n_given, 40);
  EXPECT_EQ(reducer.table().size(), 1u);
  EXPECT_NE(reducer.table_key().find(backend_under_test()), std::string::npos);
}

TEST(HybridReducer, NamesItsModes) {
  for (const char* name : {"auto", "cpu", "vulkan", "opencl"}) {
    ASSERT_NE(find_reduce_mode(name), nullptr);
    EXPECT_STREQ(name_of(*find_reduce_mode(name)), name);
  }
  EXPECT_EQ(find_reduce_mode("metal"), nullptr);
}

}  // namespace
}  // namespace daf::testing
