// Tensors that are stored as averages of blocks and planes of what these leave (DIVISION).
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime_ops/kernels/kernels.h"
#include "tests/cpp/store/store_testing.h"

namespace daf::testing {
namespace {

struct Shape {
  int64_t n;
  MapEncoding map;
};

// Pictures of many sizes, one whose blocks leave a rest, sequences; parts that cross pages.
const std::vector<Shape> kShapes = {
    {40, {56, 56, 8, 8}}, {900, {7, 7, 7, 7}},  {300, {8, 8, 8, 8}},    {100, {28, 28, 8, 8}},
    {9, {57, 33, 8, 8}},  {3, {100, 48, 8, 1}}, {1, {300, 1000, 3, 5}}, {2, {3, 5000, 2, 2}},
    {70, {9, 1, 8, 1}},   {5000, {1, 3, 1, 1}}, {2, {130, 64, 64, 64}}, {1, {512, 512, 2, 2}}};

StoreEntry maps(const Shape& shape, int bits, int min_bits = 1) {
  StoreEntry made = entry(shape.n * shape.map.n_elements(), bits, min_bits);
  made.map = shape.map;
  return made;
}

uint64_t hash(const Floats& values, uint64_t h = 0xcbf29ce484222325) {
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    h = (h ^ bits) * 0x100000001b3;
  }
  return h;
}

uint64_t hash_of_all_shapes() {
  uint64_t h = 0;
  for (const Shape& shape : kShapes) {
    for (const int bits : {1, 2, 4, 8}) {
      const std::vector<StoreEntry> plan = {maps(shape, bits)};
      ActivationStore store(plan, with_budget(16 << 20));
      store.begin_step(3, 4);
      Floats x = random_floats(plan[0].n_elements, 7);
      x[x.size() / 2] = kNan;
      store.stash(0, x.data());
      h = hash(read_all(store, 0, plan[0].n_elements), h);
      EXPECT_TRUE(is_valid(store));
    }
  }
  return h;
}

TEST(StoredMaps, AreTheSameBitsEverywhere) {
  const std::string isa = current_isa();
  const int threads = n_threads();
  for (const std::string& each : available_isas()) {
    for (const int n : {1, 3}) {
      select_isa(each);
      set_threads(n);
      EXPECT_EQ(hash_of_all_shapes(), 3535190622742827874u) << each << " with " << n << " threads";
    }
  }
  select_isa(isa);
  set_threads(threads);
}

TEST(StoredMaps, AnyRangeCanBeRead) {
  for (const Shape& shape : kShapes) {
    const std::vector<StoreEntry> plan = {maps(shape, 3)};
    const int64_t n = plan[0].n_elements;
    ActivationStore store(plan, with_budget(8 << 20));
    store.begin_step(1, 2);
    Floats x = random_floats(n, 1);
    x[0] = kInf;
    store.stash(0, x.data());
    const Floats all = read_all(store, 0, n);
    for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{255}, n / 3, n - 1, n}) {
      for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{257}, n / 2, n}) {
        if (first + count > n) continue;
        Floats part(static_cast<size_t>(count));
        store.read(0, first, count, part.data());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first;
      }
    }
  }
}

TEST(StoredMaps, AveragesStayWhenPlanesGo) {
  // Each block of a map has a value of its own that a bfloat16 holds: the planes have nothing to
  // say.
  const Shape shape = {64, {56, 56, 8, 8}};
  Floats x(static_cast<size_t>(shape.n * shape.map.n_elements()));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t map = i / 3136, block = i % 3136 / 56 / 8 * 7 + i % 56 / 8;
    x[i] = static_cast<float>(map + 2 * block) - 60;
  }
  const std::vector<StoreEntry> plan = {maps(shape, 8)};
  ActivationStore store(plan, with_budget(ActivationStore::planned_bytes(plan)));
  store.begin_step(1, 2);
  store.stash(0, x.data());
  EXPECT_EQ(read_all(store, 0, plan[0].n_elements), x);
  EXPECT_EQ(store.trim(0), ActivationStore::floor_bytes(plan));
  EXPECT_EQ(store.bits(0), 1);
  EXPECT_EQ(read_all(store, 0, plan[0].n_elements), x);
  EXPECT_TRUE(is_valid(store));
}

TEST(StoredMaps, ADroppedPlaneReadsAsTheMiddle) {
  const Shape shape = {50, {56, 56, 8, 8}};
  const std::vector<StoreEntry> plan = {maps(shape, 4)};
  const Floats x = random_floats(plan[0].n_elements, 1);
  ActivationStore store(plan, with_budget(ActivationStore::planned_bytes(plan)));
  store.begin_step(1, 2);
  store.stash(0, x.data());
  for (int bits = 4; bits >= 1; --bits) {
    std::vector<StoreEntry> fewer = plan;
    fewer[0].bits = bits;
    store.trim(ActivationStore::planned_bytes(fewer));
    ASSERT_EQ(store.bits(0), bits);
    const Floats y = read_all(store, 0, plan[0].n_elements);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(y[i] - x[i])));
    }
    // What the averages leave has a range of at most 2.6, here; as for groups.
    const double dropped = std::exp2(4 - bits) - 1;
    EXPECT_LE(worst, 2.6 / 15 * (1 + dropped / 2)) << bits;
    EXPECT_GE(worst, 2.0 / 15 * (1 + dropped / 2)) << bits;
  }
}

TEST(StoredMaps, WhatIsNotFiniteIsKeptExact) {
  for (const Shape& shape : kShapes) {
    if (shape.n < 3 || shape.map.block_height == 1) continue;
    const std::vector<StoreEntry> plan = {maps(shape, 2)};
    const auto size = static_cast<size_t>(shape.map.n_elements());
    const Floats plain = random_floats(plan[0].n_elements, 1);
    ActivationStore store(plan, with_budget(8 << 20));
    store.begin_step(1, 2);
    store.stash(0, plain.data());
    const Floats usual = read_all(store, 0, plan[0].n_elements);
    store.release(0);
    Floats x = plain;
    x[size / 2] = kNan;                             // the first map
    x[x.size() - 1] = -kInf;                        // the last
    x[x.size() - size - 1] = 3e38f;                 // finite, but what an average leaves is not
    if (size > 1) x[x.size() - 2 * size] = -3e38f;  // the first of the same
    store.stash(0, x.data());
    const Floats y = read_all(store, 0, plan[0].n_elements);
    EXPECT_EQ(std::memcmp(y.data(), x.data(), size * 4), 0);
    EXPECT_EQ(std::memcmp(&y[y.size() - 2 * size], &x[x.size() - 2 * size], 2 * size * 4), 0);
    EXPECT_TRUE(std::equal(y.begin() + static_cast<int64_t>(size),
                           y.end() - 2 * static_cast<int64_t>(size),
                           usual.begin() + static_cast<int64_t>(size)));
    EXPECT_EQ(store.stats().exact_groups, 3);
    EXPECT_TRUE(is_valid(store));
    store.release(0);
    EXPECT_EQ(store.stats().used_bytes, 0u);
  }
}

TEST(StoredMaps, ExactMapsSayWhenThereIsNoRoom) {
  const std::vector<StoreEntry> plan = {maps({64, {56, 56, 8, 8}}, 2)};
  ActivationStore store(plan, with_budget(ActivationStore::planned_bytes(plan)));
  store.begin_step(1, 2);
  const Floats x(static_cast<size_t>(plan[0].n_elements), kNan);
  try {
    store.stash(0, x.data());
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("64 groups of 256 values (or maps)"),
              std::string::npos);
  }
  EXPECT_TRUE(is_valid(store));
  EXPECT_EQ(store.stats().used_bytes, 0u);
}

TEST(StoredMaps, TakeWhatTheFormulaSays) {
  // Bits of an element: planes + 16 averages + a header of 32, of a map.
  for (const int64_t side : {56, 28, 14, 8, 7}) {
    const int64_t block = std::min<int64_t>(8, side);
    const std::vector<StoreEntry> plan = {maps({256, {side, side, block, block}}, 2)};
    ActivationStore store(plan, with_budget(4 << 20));
    store.begin_step(1, 2);
    store.stash(0, random_floats(plan[0].n_elements, 1).data());
    const int64_t cells = (side / block) * (side / block);
    EXPECT_EQ(store.stats().stored_bytes * 8,
              static_cast<size_t>(256 * (2 * side * side + 16 * cells + 32)));
  }
}

TEST(StoredMaps, BadMapsAreRefused) {
  const auto refused = [](int64_t n, const MapEncoding& map) {
    StoreEntry bad = entry(n, 2);
    bad.map = map;
    EXPECT_THROW(ActivationStore({bad}, with_budget(1 << 20)), std::invalid_argument);
  };
  refused(3137, {56, 56, 8, 8});
  refused(3136, {56, 56, 0, 8});
  refused(3136, {56, 56, 8, 57});
  refused(3136, {1, 3136, 1, 65});
  ActivationStore store({maps({2, {7, 7, 7, 7}}, 2)}, with_budget(1 << 20));
  store.begin_step(1, 2);
  EXPECT_THROW(store.stash(0, random_floats(98, 1).data(), 50), std::logic_error);
}

}  // namespace
}  // namespace daf::testing
