// Random steps: whatever comes, the store is valid and within its budget after every event.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>

#include "tests/cpp/store/store_testing.h"

namespace {
std::atomic<int64_t> n_allocations{0};
}

void* operator new(size_t size) {
  ++n_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace daf::testing {
namespace {

class RandomSteps {
 public:
  explicit RandomSteps(uint32_t seed) : random_(seed), source_(random_floats(120000, seed)) {
    const int n_tensors = below(25) + 1;
    for (int i = 0; i < n_tensors; ++i) {
      const int64_t n = below(3) == 0 ? below(2000) : below(100000);
      const int bits = below(8) + 1;
      plan_.push_back(entry(n, bits, below(bits) + 1, below(4) == 0 ? 0 : below(1000)));
      if (below(2) == 0) make_maps(plan_.back());
    }
    options_.page_bytes = size_t{4096} << 2 * below(3);
    options_.grow_step_bytes = below(2) == 0 ? 0 : static_cast<size_t>(below(300000)) + 1;
    options_.keep_bits = below(4) != 0;
    floor_ = ActivationStore::floor_bytes(plan_, options_.page_bytes);
    planned_ = ActivationStore::planned_bytes(plan_, options_.page_bytes);
    options_.budget_bytes = any_budget();
  }

  void run() {
    ActivationStore store(plan_, options_);
    store.set_observer([&](const StoreEvent& event) { ASSERT_LE(event.used_bytes, budget_); });
    for (uint64_t step = 0; step < 5; ++step) {
      store.begin_step(3, step);
      if (below(3) == 0) store.set_sensitivity(below(n_tensors()), below(1000));
      for (int i = 0; i < 60; ++i) {
        act(store);
        ASSERT_TRUE(is_valid(store));
        const StoreStats stats = store.stats();
        ASSERT_LE(stats.used_bytes, stats.committed_bytes);
        ASSERT_LE(stats.committed_bytes, stats.budget_bytes);
        ASSERT_LE(stats.stored_bytes, stats.used_bytes);
      }
      store.release_all();
      stored_.clear();
      ASSERT_EQ(store.stats().used_bytes, 0u);
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int n_tensors() const { return static_cast<int>(plan_.size()); }

  void make_maps(StoreEntry& entry) {
    MapEncoding& map = entry.map;
    map.height = below(60) + 1;
    map.width = below(60) + 1;
    map.block_height = std::min<int64_t>(map.height, below(10) + 1);
    map.block_width = std::min<int64_t>(map.width, below(10) + 1);
    entry.n_elements -= entry.n_elements % map.n_elements();
  }

  size_t any_budget() {
    budget_ = floor_ + random_() % (planned_ - floor_ + 1) + (below(5) == 0 ? 300000 : 0);
    return budget_;
  }

  void act(ActivationStore& store) {
    const int id = below(n_tensors());
    const StoreEntry& entry = plan_[static_cast<size_t>(id)];
    const int what = below(20);
    if (what == 0) {
      const size_t wanted = any_budget();
      budget_ = std::max(budget_, store.stats().budget_bytes);  // until it has been trimmed
      budget_ = store.trim(wanted);
      ASSERT_GE(budget_, wanted);
    } else if (stored_.count(id) == 0) {
      // Sometimes less than planned, sometimes with a group that is not finite.
      int64_t n = below(4) == 0 ? below(static_cast<int>(entry.n_elements) + 1) : entry.n_elements;
      if (entry.map.is_used()) n -= n % entry.map.n_elements();
      Floats x(source_.begin(), source_.begin() + n);
      if (n > 0 && below(5) == 0) x[static_cast<size_t>(below(static_cast<int>(n)))] = kNan;
      try {
        store.stash(id, x.data(), n);
        stored_[id] = x;
      } catch (const std::runtime_error&) {  // exact groups have no room within any budget
      }
    } else if (what < 8) {
      store.release(id);
      stored_.erase(id);
    } else {
      const Floats& x = stored_[id];
      const int64_t first = below(static_cast<int>(x.size()) + 1);
      const int64_t count = below(static_cast<int>(x.size() - static_cast<size_t>(first)) + 1);
      Floats y(static_cast<size_t>(count), 1000);
      store.read(id, first, count, y.data());
      // A step of the range [-1, 1), whether planes were dropped or not made; 1/128 in the header.
      // Averages of [-1, 1) can leave twice as much.
      const double range = entry.map.is_used() ? 4.1 : 2.05;
      const double worst = range / (std::exp2(store.bits(id)) - 1);
      size_t n_wrong = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        const float expected = x[static_cast<size_t>(first) + i];
        n_wrong += std::isnan(expected) ? !std::isnan(y[i]) : !(std::abs(y[i] - expected) <= worst);
      }
      ASSERT_EQ(n_wrong, 0u) << "of " << count << " from " << first;
    }
  }

  std::mt19937 random_;
  const Floats source_;
  std::vector<StoreEntry> plan_;
  StoreOptions options_;
  size_t floor_ = 0, planned_ = 0;
  size_t budget_ = 0;
  std::map<int, Floats> stored_;
};

TEST(StoreRandom, IsValidAndWithinItsBudget) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    RandomSteps(seed).run();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
  }
}

TEST(StoreRandom, WithoutExactGroupsTheFloorAlwaysFits) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    std::vector<StoreEntry> plan;
    for (int i = 0; i < 60; ++i) {
      const int bits = static_cast<int>(random() % 8) + 1;
      plan.push_back(entry(random() % 30000, bits, static_cast<int>(random() % bits) + 1));
    }
    ActivationStore store(plan, with_budget(ActivationStore::floor_bytes(plan)));
    const Floats x = random_floats(30000, seed);
    std::vector<int> order(plan.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    for (uint64_t step = 0; step < 3; ++step) {
      store.begin_step(seed, step);
      std::shuffle(order.begin(), order.end(), random);
      for (const int id : order) ASSERT_NO_THROW(store.stash(id, x.data())) << "seed " << seed;
      ASSERT_TRUE(is_valid(store)) << "seed " << seed;
      std::shuffle(order.begin(), order.end(), random);
      for (size_t i = 0; i < order.size() / 2; ++i) store.release(order[i]);
      for (size_t i = 0; i < order.size() / 2; ++i) store.stash(order[i], x.data());
      ASSERT_TRUE(is_valid(store)) << "seed " << seed;
      store.release_all();
    }
  }
}

TEST(StoreRandom, NothingIsAllocatedInAStep) {
  std::vector<StoreEntry> plan;
  for (int i = 0; i < 30; ++i) {
    plan.push_back(entry(1000 * i + 17, 8, 1, i));
    if (i % 3 != 0) continue;
    plan.back().n_elements = 1000 * i;
    plan.back().map = {20, 50, 8, 8};
  }
  const size_t planned = ActivationStore::planned_bytes(plan);
  ActivationStore store(plan, with_budget(planned / 2));
  Floats x = random_floats(40000, 1), y(40000);
  x[100] = kNan;
  store.begin_step(1, 0);
  for (int id = 0; id < 30; ++id) store.stash(id, x.data());  // also starts the kernels' threads
  store.release_all();
  const int64_t before = n_allocations;
  ASSERT_GT(before, 0);
  for (uint64_t step = 1; step < 4; ++step) {
    store.begin_step(1, step);
    for (int id = 0; id < 30; ++id) store.stash(id, x.data());
    store.trim(planned / 3);
    for (int id = 29; id >= 0; --id) {
      store.read(id, 0, plan[static_cast<size_t>(id)].n_elements, y.data());
      store.release(id);
    }
    store.trim(planned / 2);
    store.set_sensitivity(3, static_cast<double>(step));
    store.stats();
  }
  EXPECT_EQ(n_allocations - before, 0);
}

}  // namespace
}  // namespace daf::testing
