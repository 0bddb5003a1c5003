#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "runtime_ops/gpu/selector.h"
#include "runtime_ops/gpu/tiles.h"

namespace daf {
namespace {

std::vector<Variant> all_variants() {
  ReduceDevice device;
  device.backend = Backend::kVulkan;
  device.subgroup_size = 32;
  std::vector<Variant> variants = gpu_variants(device, ReduceOp::kRange);
  variants.insert(variants.begin(), Variant{});
  return variants;
}

// A device of the kind that the papers describe: a pass costs its launch and a round trip to
// memory, atomics on one address come one after the other, and the more processors meet there, the
// longer each of them takes.
struct Device {
  const char* name;
  double gpu_gb_per_s, cpu_gb_per_s, launch_ns, atomic_ns;
  int64_t throttled_from = INT64_MAX;  // call; then the GPU takes three times as long

  double ns(const Variant& variant, int64_t n, int64_t call) const {
    const double bytes = 4.0 * static_cast<double>(n);
    if (variant.backend == Backend::kCpu) return 500 + bytes / cpu_gb_per_s;
    const std::vector<uint32_t> counts = tree_counts(static_cast<uint32_t>(n), 256);
    const double read_ns =
        bytes / (gpu_gb_per_s * (variant.is_vec4 ? 1 : 0.7) * (variant.uses_subgroups ? 1 : 0.95));
    const double passes = variant.is_atomic ? 1 : static_cast<double>(counts.size() - 1);
    const double atomics = variant.is_atomic ? 2 * atomic_ns * counts[1] : 0;
    const double total = passes * launch_ns + read_ns + atomics;
    return call >= throttled_from ? 3 * total : total;
  }
};

const Device kDevices[] = {{"8 SMs", 25, 6, 30'000, 3},
                           {"82 SMs", 700, 12, 6'000, 60},
                           {"8 SMs, throttled half-way", 25, 10, 30'000, 3, 2000}};
const int64_t kSizes[] = {20'000, 300'000, 2'000'000, 12'000'000};
constexpr int64_t kCalls = 4000;

// Up to 4 %, the same every time.
double noise(int64_t call) {
  const uint32_t hash = static_cast<uint32_t>(call) * 2654435761u;
  return 1 + 0.04 * (hash >> 8) / double{1 << 24};
}

struct Spent {
  double all = 0, after_50 = 0;  // calls of each size
};

// choose(n) and record(variant, n, ns) for kCalls calls, the sizes in turn.
Spent run(const Device& device, const std::function<Variant(int64_t n, int64_t call)>& choose,
          const std::function<void(const Variant&, int64_t n, int64_t ns)>& record) {
  Spent spent;
  constexpr int64_t kNumSizes = std::size(kSizes);
  for (int64_t call = 0; call < kCalls; ++call) {
    const int64_t n = kSizes[call % kNumSizes];
    const Variant variant = choose(n, call);
    const double ns = device.ns(variant, n, call) * noise(call);
    record(variant, n, static_cast<int64_t>(ns));
    spent.all += ns;
    if (call >= 50 * kNumSizes) spent.after_50 += ns;
  }
  return spent;
}

Variant fastest(const Device& device, int64_t n, int64_t call) {
  const std::vector<Variant> variants = all_variants();
  return *std::min_element(variants.begin(), variants.end(), [&](const auto& a, const auto& b) {
    return device.ns(a, n, call) < device.ns(b, n, call);
  });
}

const auto kIgnore = [](const Variant&, int64_t, int64_t) {};

Spent run_selector(const Device& device) {
  Selector selector({all_variants(), {}, {}});
  return run(
      device, [&](int64_t n, int64_t) { return selector.choose(ReduceOp::kRange, n); },
      [&](const Variant& variant, int64_t n, int64_t ns) {
        selector.record(ReduceOp::kRange, n, variant, ns);
      });
}

TEST(Selector, DevicesDisagreeAboutTheBest) {
  EXPECT_TRUE(fastest(kDevices[0], 2'000'000, 0).is_atomic);
  const Variant on_many = fastest(kDevices[1], 12'000'000, 0);
  EXPECT_EQ(on_many.backend, Backend::kVulkan);
  EXPECT_FALSE(on_many.is_atomic);
  EXPECT_EQ(fastest(kDevices[0], 20'000, 0).backend, Backend::kCpu);
  EXPECT_EQ(fastest(kDevices[2], 12'000'000, kCalls).backend, Backend::kCpu);
}

TEST(Selector, RegretIsSmall) {
  for (const Device& device : kDevices) {
    const Spent oracle =
        run(device, [&](int64_t n, int64_t call) { return fastest(device, n, call); }, kIgnore);
    const Spent offline =  // as the paper has it: profiled once, before
        run(device, [&](int64_t n, int64_t) { return fastest(device, n, 0); }, kIgnore);
    const Spent learned = run_selector(device);
    std::printf(
        "%-28s after 50 calls: %+5.1f %% (offline profile %+5.1f %%), with them %+5.1f %%\n",
        device.name, 100 * (learned.after_50 / oracle.after_50 - 1),
        100 * (offline.after_50 / oracle.after_50 - 1), 100 * (learned.all / oracle.all - 1));
    EXPECT_LE(learned.after_50, 1.05 * oracle.after_50) << device.name;
  }
}

TEST(Selector, BeatsTheBestFixedChoice) {
  double learned = 0;
  for (const Device& device : kDevices) learned += run_selector(device).all;
  for (const Variant& variant : all_variants()) {
    double fixed = 0;
    for (const Device& device : kDevices) {
      fixed += run(device, [&](int64_t, int64_t) { return variant; }, kIgnore).all;
    }
    EXPECT_LT(learned, fixed) << variant.name();
  }
}

TEST(Selector, KeepsWhatItLearned) {
  const Device& device = kDevices[0];
  Selector first({all_variants(), {}, {}});
  for (int64_t call = 0; call < 50; ++call) {
    const Variant variant = first.choose(ReduceOp::kRange, 300'000);
    first.record(ReduceOp::kRange, 300'000, variant,
                 static_cast<int64_t>(device.ns(variant, 300'000, call)));
  }
  Selector second({all_variants(), {}, {}});
  second.load(first.table());
  EXPECT_EQ(second.choose(ReduceOp::kRange, 300'000), fastest(device, 300'000, 0));
  EXPECT_EQ(second.best(ReduceOp::kRange, 300'000), fastest(device, 300'000, 0).name());
  EXPECT_EQ(second.best(ReduceOp::kRange, 3'000), "");

  // A variant that was not there then: it must be tried.
  std::vector<Selector::Entry> table = first.table();
  table.front().timings.pop_back();
  Selector third({all_variants(), {}, {}});
  third.load(table);
  EXPECT_EQ(third.best(ReduceOp::kRange, 300'000), "");
}

TEST(Selector, IsDeterministic) {
  EXPECT_EQ(run_selector(kDevices[2]).all, run_selector(kDevices[2]).all);
}

TEST(Selector, AFailedDeviceIsNotChosenAgain) {
  Selector selector({all_variants(), {}, {}});
  selector.choose(ReduceOp::kRange, 1000);
  selector.remove(Backend::kVulkan);
  for (int i = 0; i < 100; ++i) {
    for (const int64_t n : {1000, 50'000}) {
      const Variant variant = selector.choose(ReduceOp::kRange, n);
      EXPECT_EQ(variant.backend, Backend::kCpu);
      selector.record(ReduceOp::kRange, n, variant, 1000 + i);
    }
  }
}

TEST(Selector, SizesOfAClassDifferByAQuarterAtMost) {
  for (int64_t n = 1; n < 100'000; n += 1 + n / 50) {
    const int64_t from = Selector::size_class(n);
    EXPECT_LE(from, n);
    EXPECT_LE(n - from, from / 4);
    EXPECT_EQ(Selector::size_class(from), from);
  }
}

}  // namespace
}  // namespace daf
