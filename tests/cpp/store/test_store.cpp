#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "runtime_ops/kernels/kernels.h"
#include "tests/cpp/store/store_testing.h"

namespace daf::testing {
namespace {

// As the kernel alone would encode it, in one block.
Floats through_kernel(const Floats& x, int bits, StochasticRounding rounding) {
  const int64_t n = static_cast<int64_t>(x.size());
  const size_t n_groups = (x.size() + 255) / 256;
  std::vector<uint32_t> headers(n_groups), words(n_groups * 8 * static_cast<size_t>(bits));
  const PlaneForm form = bitplane_choose_form(bits, n, x.data());
  BitPlanes run = {bits, headers.data(), {}, {noise_key(rounding), 0, form}};
  for (int p = 0; p < bits; ++p)
    run.plane[p] = words.data() + static_cast<size_t>(p) * n_groups * 8;
  bitplane_encode(n, x.data(), false, run);
  Floats y(x.size());
  bitplane_decode(run, bits, 0, n, false, y.data());
  return y;
}

TEST(Store, ValuesAreThoseOfTheKernelWhateverThePages) {
  for (const size_t page : {4096, 16384, 65536}) {
    std::vector<StoreEntry> plan;
    for (const int64_t n : {0, 1, 255, 256, 257, 3000, 200000, 1000003})
      plan.push_back(entry(n, 3));
    StoreOptions options = with_budget(ActivationStore::planned_bytes(plan, page));
    options.page_bytes = page;
    ActivationStore store(plan, options);
    store.begin_step(11, 22);
    for (size_t i = 0; i < plan.size(); ++i) {
      const int id = static_cast<int>(i);
      const Floats x = random_floats(plan[i].n_elements, 5);
      store.stash(id, x.data());
      EXPECT_EQ(read_all(store, id, plan[i].n_elements),
                through_kernel(x, 3, {11, 22, static_cast<uint32_t>(id)}));
      EXPECT_TRUE(is_valid(store));
    }
    EXPECT_EQ(store.stats().used_bytes, store.stats().budget_bytes);
    EXPECT_EQ(n_drops(store), 0);
  }
}

TEST(Store, AnyRangeCanBeRead) {
  const std::vector<StoreEntry> plan = {entry(300000, 2)};
  ActivationStore store(plan, with_budget(1 << 20));
  store.begin_step(1, 2);
  store.stash(0, random_floats(300000, 1).data());
  const Floats all = read_all(store, 0, 300000);
  for (const int64_t first : {0, 1, 256, 131071, 131072, 299999, 300000}) {
    for (const int64_t count : {0, 1, 255, 257, 100000, 300000}) {
      if (first + count > 300000) continue;
      Floats part(static_cast<size_t>(count));
      store.read(0, first, count, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first;
    }
  }
}

TEST(Store, FewerElementsThanPlanned) {
  ActivationStore store({entry(100000, 4)}, with_budget(1 << 20));
  store.begin_step(1, 2);
  const Floats x = random_floats(5000, 1);
  store.stash(0, x.data(), 5000);
  EXPECT_EQ(read_all(store, 0, 5000), through_kernel(x, 4, {1, 2, 0}));
  EXPECT_EQ(store.stats().used_bytes, kPage);
  EXPECT_EQ(store.stats().stored_bytes, 20u * (4 + 4 * 32));
  EXPECT_TRUE(is_valid(store));
}

TEST(Store, TheCheapestPlanesGo) {
  // 64 groups: a plane is 2 KB. Three tensors of 8 planes are 3 x 16 KB and their headers.
  const std::vector<StoreEntry> plan = {entry(16384, 8, 1, 100), entry(16384, 8, 1, 1),
                                        entry(16384, 8, 1, 10)};
  ActivationStore store(plan, with_budget(2 * kPage));
  store.begin_step(1, 2);
  for (int id = 0; id < 3; ++id) store.stash(id, random_floats(16384, 1).data());
  EXPECT_TRUE(is_valid(store));
  // The marginal losses of all 24 planes, dropped from the cheapest on: what is left is this.
  std::vector<int> bits = {8, 8, 8};
  const double sensitivity[] = {100, 1, 10};
  const auto loss = [&](int id) {
    const double low = std::exp2(bits[id] - 1) - 1, high = std::exp2(bits[id]) - 1;
    return sensitivity[id] * (1 / (low * low) - 1 / (high * high));
  };
  while (bits[0] + bits[1] + bits[2] > 15) {  // 16 x 2 KB without the headers
    int cheapest = 0;
    for (int id = 1; id < 3; ++id) cheapest = loss(id) < loss(cheapest) ? id : cheapest;
    --bits[cheapest];
  }
  for (int id = 0; id < 3; ++id) EXPECT_EQ(store.bits(id), bits[id]) << id;
}

TEST(Store, ATensorHasItsFloor) {
  const std::vector<StoreEntry> plan = {entry(131072, 8, 5, 0), entry(131072, 8, 1, 1e9)};
  const size_t floor = ActivationStore::floor_bytes(plan);
  EXPECT_EQ(floor, (5 + 1) * kPage + kPage);  // two headers of 2 KB share a page
  ActivationStore store(plan, with_budget(floor));
  store.begin_step(1, 2);
  store.stash(0, random_floats(131072, 1).data());
  store.stash(1, random_floats(131072, 1).data());
  EXPECT_EQ(store.bits(0), 5);
  EXPECT_EQ(store.bits(1), 1);
  EXPECT_TRUE(is_valid(store));
}

TEST(Store, ADroppedPlaneLeavesAValidEncoding) {
  ActivationStore store({entry(131072, 4)}, with_budget(5 * kPage));
  const Floats x = random_floats(131072, 1);
  store.begin_step(1, 2);
  store.stash(0, x.data());
  for (int bits = 4; bits >= 1; --bits) {
    store.trim(static_cast<size_t>(bits + 1) * kPage);
    ASSERT_EQ(store.bits(0), bits);
    const Floats y = read_all(store, 0, 131072);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(y[i] - x[i])));
    }
    // Half of what a code of the planes that are left stands for.
    const double width = 2.0 / 15 * std::exp2(4 - bits);
    EXPECT_LE(worst, width / 2 * 1.02) << bits;
    EXPECT_GE(worst, width / 2 * 0.98) << bits;
  }
  EXPECT_TRUE(is_valid(store));
}

TEST(Store, NoPlaneIsMadeThatTheBudgetWouldDrop) {
  std::vector<StoreEntry> plan;
  for (int i = 0; i < 20; ++i) plan.push_back(entry(10000 + 7000 * i, 8, 1, 1 + i % 3));
  const size_t floor = ActivationStore::floor_bytes(plan);
  for (const bool keep_bits : {true, false}) {
    StoreOptions options = with_budget(floor * 2);
    options.keep_bits = keep_bits;
    ActivationStore store(plan, options);
    const Floats x = random_floats(200000, 1);
    for (uint64_t step = 0; step < 3; ++step) {
      const int64_t before = n_drops(store);
      store.begin_step(1, step);
      for (int id = 0; id < 20; ++id) store.stash(id, x.data());
      EXPECT_TRUE(is_valid(store));
      EXPECT_EQ(n_drops(store) == before, keep_bits);
      EXPECT_GT(store.stats().used_bytes, floor * 3 / 2);
      for (int id = 19; id >= 0; --id) store.release(id);
      EXPECT_EQ(store.stats().used_bytes, 0u);
    }
  }
}

TEST(Store, BitsFitIntoLessThanTheBudgetWhenAsked) {
  const std::vector<StoreEntry> plan = {entry(131072, 8), entry(131072, 8)};
  StoreOptions options = with_budget(20 * kPage);
  options.fit_bytes = 5 * kPage;  // one for the headers
  ActivationStore store(plan, options);
  store.begin_step(1, 2);
  EXPECT_EQ(store.bits(0) + store.bits(1), 4);
}

TEST(Store, RangeOfGroups) {
  ActivationStore store({entry(512, 3)}, with_budget(4 * kPage));
  Floats x(512, 1.0f);
  x[3] = -1;   // a range of 2 in the first group
  x[300] = 5;  // of 4 in the second
  store.begin_step(1, 2);
  EXPECT_THROW(store.mean_square_range(0), std::logic_error);
  store.stash(0, x.data());
  EXPECT_NEAR(store.mean_square_range(0), (4.0 + 16.0) / 2, 0.5);  // headers are bfloat16
  store.release(0);
  x[3] = NAN;
  store.stash(0, x.data());
  EXPECT_NEAR(store.mean_square_range(0), 16.0, 0.5);
}

TEST(Store, RangeOfGroupsSaysHowFarProbabilitiesAreOff) {
  // In most groups of a long row nothing is likely; in a few, one value is, and the others are not.
  Floats x = random_floats(1 << 18, 3);
  for (float& p : x) p = 1e-6f * std::abs(p);
  for (size_t i = 0; i < x.size(); i += 8192) x[i + i / 8192] = 0.6f;
  for (const int bits : {1, 2, 4}) {
    StoreEntry probabilities = entry(1 << 18, bits);
    probabilities.are_probabilities = true;
    ActivationStore store({probabilities}, with_budget(1 << 20));
    store.begin_step(1, 2);
    store.stash(0, x.data());
    const Floats y = read_all(store, 0, 1 << 18);
    double error = 0;  // the mean of squares
    for (size_t i = 0; i < x.size(); ++i) error += std::pow(y[i] - x[i], 2) / (1 << 18);
    const double expected = store.mean_square_range(0) / 12 / std::pow((1 << bits) - 1, 2);
    EXPECT_GT(expected, 0.5 * error) << bits;
    EXPECT_LT(expected, (bits == 1 ? 2 : 10) * error) << bits;
  }
}

TEST(Store, StartsOverWhenSomethingChanged) {
  StoreOptions options = with_budget(5 * kPage);
  const std::vector<StoreEntry> plan = {entry(131072, 4), entry(131072, 4)};
  ActivationStore store(plan, options);
  const Floats x = random_floats(131072, 1);
  const auto run_step = [&] {
    store.begin_step(1, 2);
    store.stash(0, x.data());
    store.stash(1, x.data());
    store.release(0);
    store.release(1);
  };
  run_step();
  EXPECT_EQ(store.bits(0) + store.bits(1), 4);
  EXPECT_EQ(store.bits(0), 2);
  store.set_sensitivity(0, 1000);
  EXPECT_EQ(store.bits(0), 2);  // from the next step on
  run_step();
  EXPECT_EQ(store.bits(0), 3);
  EXPECT_EQ(store.bits(1), 1);
  store.trim(7 * kPage);
  run_step();
  EXPECT_EQ(store.bits(0) + store.bits(1), 6);

  options.keep_bits = false;
  ActivationStore forgetful(plan, options);
  for (int step = 0; step < 2; ++step) {
    forgetful.begin_step(1, 2);
    EXPECT_EQ(forgetful.bits(0), 4);
    forgetful.stash(0, x.data());
    forgetful.stash(1, x.data());
    forgetful.release_all();
  }
}

TEST(Store, GroupsThatAreNotFiniteAreExact) {
  const int64_t n = 70000;
  Floats x = random_floats(n, 1);
  x[0] = kNan, x[1000] = kInf, x[40000] = -kInf, x[40001] = kNan, x[69999] = kInf;
  ActivationStore store({entry(n, 2)}, with_budget(1 << 20));
  store.begin_step(1, 2);
  store.stash(0, x.data());
  EXPECT_EQ(store.stats().exact_groups, 4);
  EXPECT_TRUE(is_valid(store));
  const Floats y = read_all(store, 0, n);
  for (const int64_t place : {0, 1000, 40000, 40001, 69999}) {
    const int64_t group = place / 256 * 256;
    for (int64_t i = group; i < std::min(n, group + 256); ++i) {
      EXPECT_TRUE(y[i] == x[i] || (std::isnan(y[i]) && std::isnan(x[i]))) << i;
    }
  }
  for (int64_t i = 256; i < 512; ++i) EXPECT_LE(std::abs(y[i] - x[i]), 0.7) << i;
  Floats part(300);
  store.read(0, 39900, 300, part.data());
  EXPECT_EQ(part[100], -kInf);
  EXPECT_EQ(part[150], x[40050]);
  store.release(0);
  EXPECT_EQ(store.stats().exact_groups, 0);
  EXPECT_EQ(store.stats().used_bytes, 0u);
}

TEST(Store, ExactGroupsMakeRoomAndSayWhenThereIsNone) {
  const int64_t n = 131072;
  const std::vector<StoreEntry> plan = {entry(n, 4), entry(n, 4)};
  ActivationStore store(plan, with_budget(ActivationStore::planned_bytes(plan)));
  Floats x = random_floats(n, 1);
  store.begin_step(1, 2);
  store.stash(0, x.data());
  for (int group = 0; group < 40; ++group) x[static_cast<size_t>(group) * 256] = kNan;
  store.stash(1, x.data());  // 40 KB: two planes have to go, the rest fits beside the headers
  EXPECT_EQ(store.stats().exact_groups, 40);
  EXPECT_EQ(n_drops(store), 2);
  EXPECT_TRUE(is_valid(store));
  store.release_all();

  store.begin_step(1, 3);
  EXPECT_EQ(store.bits(0), 4);  // what they took is free again
  store.stash(0, Floats(static_cast<size_t>(n)).data());
  try {
    store.stash(1, Floats(static_cast<size_t>(n), kNan).data());
    FAIL() << "there is no room for 512 KB";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("512 groups"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(is_valid(store));
  EXPECT_EQ(read_all(store, 0, n), Floats(static_cast<size_t>(n)));  // the other one is still there
  EXPECT_THROW(store.read(1, 0, 1, x.data()), std::logic_error);
  store.release(0);
  store.begin_step(1, 4);
  EXPECT_EQ(store.bits(1), 4);
}

TEST(Store, TrimIsHonouredAtOnceDownToTheFloor) {
  const std::vector<StoreEntry> plan = {entry(131072, 8), entry(131072, 8)};
  const size_t planned = ActivationStore::planned_bytes(plan);
  ActivationStore store(plan, with_budget(planned));
  store.begin_step(1, 2);
  const Floats x = random_floats(131072, 1);
  store.stash(0, x.data());
  store.stash(1, x.data());
  EXPECT_EQ(store.trim(10 * kPage), 10 * kPage);
  EXPECT_LE(store.stats().committed_bytes, 10 * kPage);
  EXPECT_EQ(store.trim(0), ActivationStore::floor_bytes(plan));
  EXPECT_EQ(store.stats().committed_bytes, 3 * kPage);
  EXPECT_TRUE(is_valid(store));
  EXPECT_EQ(store.trim(planned), planned);
  store.release_all();
  store.begin_step(1, 3);
  store.stash(0, x.data());
  EXPECT_EQ(store.bits(0), 8);
  EXPECT_TRUE(is_valid(store));
}

TEST(Store, EventsTellWhatHappened) {
  std::vector<StoreEvent> events;
  StoreOptions options = with_budget(4 * kPage);
  options.grow_step_bytes = 100 * kPage;
  options.keep_bits = false;
  ActivationStore store({entry(131072, 2), entry(131072, 2)}, options);
  store.set_observer([&](const StoreEvent& event) { events.push_back(event); });
  store.begin_step(1, 2);
  store.stash(0, random_floats(131072, 1).data());
  store.stash(1, random_floats(131072, 1).data());
  store.trim(3 * kPage);
  store.begin_fetch(0);
  store.release(0);
  const auto expect = [&](size_t i, const char* kind, int tensor, int bits, size_t raw,
                          size_t stored, size_t used) {
    ASSERT_LT(i, events.size());
    const StoreEvent& event = events[i];
    EXPECT_STREQ(name_of(event.kind), kind);
    EXPECT_EQ(event.tensor, tensor) << i;
    EXPECT_EQ(event.bits, bits) << i;
    EXPECT_EQ(event.raw_bytes, raw) << i;
    EXPECT_EQ(event.stored_bytes, stored) << i;
    EXPECT_EQ(event.used_bytes, used) << i;
  };
  const size_t raw = 131072 * 4, header = 2048;
  expect(0, "grow", -1, 0, 4 * kPage, 4 * kPage, kPage);
  expect(1, "stash", 0, 2, raw, header + 2 * kPage, 3 * kPage);
  expect(2, "drop", 0, 1, raw, header + kPage, 3 * kPage);
  expect(3, "stash", 1, 2, raw, header + 2 * kPage, 4 * kPage);
  expect(4, "drop", 1, 1, raw, header + kPage, 3 * kPage);
  expect(5, "trim", -1, 0, 3 * kPage, 3 * kPage, 3 * kPage);
  expect(6, "fetch", 0, 1, raw, header + kPage, 3 * kPage);
  expect(7, "release", 0, 1, raw, 0, 2 * kPage);
  EXPECT_EQ(events.size(), 8u);
  EXPECT_THROW(store.begin_fetch(0), std::logic_error);
}

TEST(Store, SmallTensorsSharePages) {
  std::vector<StoreEntry> plan;
  for (int i = 0; i < 100; ++i) plan.push_back(entry(2048, 2));  // 32 + 2 x 256 bytes
  // Units of 256 bytes: 3 of them for each tensor.
  EXPECT_EQ(ActivationStore::planned_bytes(plan), (100 * 3 + 63) / 64 * kPage);
  ActivationStore store(plan, with_budget(ActivationStore::planned_bytes(plan)));
  store.begin_step(1, 2);
  for (int id = 0; id < 100; ++id) store.stash(id, random_floats(2048, 1).data());
  EXPECT_EQ(n_drops(store), 0);
  EXPECT_TRUE(is_valid(store));
}

TEST(Store, BadPlansAndBudgetsAreRefused) {
  const auto message = [](const std::vector<StoreEntry>& plan, const StoreOptions& options) {
    try {
      ActivationStore store(plan, options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const StoreOptions large = with_budget(1 << 24);
  for (const StoreEntry& bad :
       {entry(-1, 2), entry(int64_t{1} << 40, 2), entry(10, 0), entry(10, 9), entry(10, 2, 0),
        entry(10, 2, 3), entry(10, 2, 1, -1), entry(10, 2, 1, std::nan(""))}) {
    EXPECT_NE(message({bad}, large).find("tensor 'a"), std::string::npos);
  }
  for (const size_t page : {0, 2048, 12288, 1 << 21}) {
    StoreOptions options = large;
    options.page_bytes = page;
    EXPECT_NE(message({entry(10, 2)}, options).find("power of two"), std::string::npos);
  }
  const std::vector<StoreEntry> plan = {entry(131072, 2), entry(131072, 2)};
  EXPECT_EQ(message(plan, with_budget(3 * kPage)), "accepted");
  EXPECT_NE(message(plan, with_budget(3 * kPage - 1)).find("the smallest that would do is 49152"),
            std::string::npos);
  EXPECT_EQ(message({}, with_budget(0)), "accepted");
}

TEST(Store, WrongUseIsRefused) {
  ActivationStore store({entry(1000, 2)}, with_budget(1 << 20));
  const Floats x(2000);
  Floats y(2000);
  store.begin_step(1, 2);
  EXPECT_THROW(store.stash(1, x.data()), std::logic_error);
  EXPECT_THROW(store.stash(-1, x.data()), std::logic_error);
  EXPECT_THROW(store.stash(0, x.data(), 1001), std::logic_error);
  EXPECT_THROW(store.read(0, 0, 1, y.data()), std::logic_error);
  EXPECT_THROW(store.release(0), std::logic_error);
  store.stash(0, x.data());
  EXPECT_THROW(store.stash(0, x.data()), std::logic_error);
  EXPECT_THROW(store.begin_step(1, 3), std::logic_error);
  EXPECT_THROW(store.read(0, 0, 1001, y.data()), std::logic_error);
  EXPECT_THROW(store.read(0, 999, 2, y.data()), std::logic_error);
  EXPECT_THROW(store.read(0, -1, 1, y.data()), std::logic_error);
  EXPECT_THROW(store.bits(7), std::logic_error);
  EXPECT_TRUE(is_valid(store));
}

TEST(Store, ReadersAndTrimsOfOtherThreads) {
  const std::vector<StoreEntry> plan = {entry(200000, 8), entry(100000, 8), entry(5000, 8)};
  ActivationStore store(plan, with_budget(ActivationStore::planned_bytes(plan)));
  const Floats x = random_floats(200000, 1);
  store.begin_step(1, 2);
  for (int id = 0; id < 3; ++id) store.stash(id, x.data());
  const auto read_often = [&](uint32_t seed) {
    std::mt19937 random(seed);
    Floats y(3000);
    for (int i = 0; i < 100; ++i) {
      const int id = static_cast<int>(random() % 3);
      const int64_t first = random() % 2000;
      store.read(id, first, 3000, y.data());
      int n_wrong = 0;
      for (size_t k = 0; k < y.size(); ++k) {
        n_wrong += !(std::abs(y[k] - x[static_cast<size_t>(first) + k]) <= 0.6);
      }
      ASSERT_EQ(n_wrong, 0);
    }
  };
  std::thread first(read_often, 1), second(read_often, 2), trimmer([&] {
    for (int i = 0; i < 20; ++i) {
      store.trim(ActivationStore::planned_bytes(plan) * static_cast<size_t>(20 - i) / 20);
      store.stats();
    }
  });
  first.join();
  second.join();
  trimmer.join();
  EXPECT_TRUE(is_valid(store));
  EXPECT_EQ(store.stats().n_trims, 20);
}

}  // namespace
}  // namespace daf::testing
