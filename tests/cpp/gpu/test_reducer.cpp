// Every device, with every variant, gives the bits that the CPU's kernels give.
#include <sys/mman.h>

#include <cstring>
#include <limits>

#include "tests/cpp/gpu/drivers.h"

namespace daf {

static bool operator==(const OrderedRange& a, const OrderedRange& b) {
  return a.not_minimum == b.not_minimum && a.maximum == b.maximum;
}

}  // namespace daf

namespace daf::testing {
namespace {

// One device for all tests: opening it takes longer than most of them.
class ReducerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!backend_under_test().empty()) reducer_ = make_reducer(validated());
  }
  static void TearDownTestSuite() { reducer_.reset(); }

  void SetUp() override { validation_messages().clear(); }
  void TearDown() override {
    EXPECT_TRUE(validation_messages().empty()) << validation_messages().front();
  }

  static Reducer& reducer() {
    if (reducer_ == nullptr) reducer_ = make_reducer(validated());
    return *reducer_;
  }

 private:
  static inline std::unique_ptr<Reducer> reducer_;
};

uint32_t next_random(uint32_t& state) { return state = state * 1664525 + 1013904223; }

// Any bit pattern, so also NaN, infinities, subnormals.
std::vector<float> any_floats(int64_t n, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) {
    const uint32_t bits = next_random(seed) ^ next_random(seed) >> 16;
    std::memcpy(&value, &bits, sizeof(value));
  }
  return x;
}

std::vector<float> ordinary_floats(int64_t n, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) {
    value = static_cast<float>(static_cast<int32_t>(next_random(seed))) * 0x1p-29f;
  }
  return x;
}

OrderedRange expected_range(const std::vector<float>& x) {
  OrderedRange range = {0, 0};
  if (!x.empty()) {
    const auto n = static_cast<int64_t>(x.size());
    ordered_ranges(n, n, x.data(), &range);
  }
  return range;
}

std::vector<int64_t> sizes() {
  std::vector<int64_t> sizes = {0, 1, 2, 3, 4, 5, 127, 128, 129, 255, 256, 257};
  for (const int64_t tile : {1024, 4096, 8192}) {
    for (int64_t d = -5; d <= 5; ++d) sizes.push_back(tile + d);
  }
  for (const int64_t more : {int64_t{100'003}, int64_t{4096 * 257 + 1}, largest_size()}) {
    sizes.push_back(more);
  }
  return sizes;
}

TEST_F(ReducerTest, RangeOfEverySize) {
  for (const int64_t n : sizes()) {
    const std::vector<float> x = n % 2 == 0 ? any_floats(n, 1) : ordinary_floats(n, 2);
    for (const Variant& variant : reducer().variants(ReduceOp::kRange)) {
      EXPECT_EQ(reducer().find_range(variant, n, x.data()), expected_range(x))
          << variant.name() << ", " << n << " values";
    }
  }
}

// Each special value alone among ordinary ones, first, last and in between.
TEST_F(ReducerTest, RangeFindsEverySpecialValue) {
  using Limits = std::numeric_limits<float>;
  constexpr int64_t kValues = 4099;
  for (const float special :
       {0.0f, -0.0f, Limits::denorm_min(), -Limits::denorm_min(), Limits::infinity(),
        -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
    for (const int64_t at : {int64_t{0}, int64_t{4095}, int64_t{4096}, kValues - 1}) {
      for (const bool among_zeros : {false, true}) {
        std::vector<float> x =
            among_zeros ? std::vector<float>(kValues, 0.0f) : ordinary_floats(kValues, 3);
        std::memcpy(&x[static_cast<size_t>(at)], &special, sizeof(special));
        for (const Variant& variant : reducer().variants(ReduceOp::kRange)) {
          ASSERT_EQ(reducer().find_range(variant, kValues, x.data()), expected_range(x))
              << variant.name() << ", " << special << " at " << at;
        }
      }
    }
  }
}

TEST_F(ReducerTest, RangesOfGroupsOfEverySize) {
  const std::vector<float> x = any_floats(100'003, 4);
  for (int64_t group_size = 1; group_size <= 4096; group_size += 1 + group_size / 7) {
    for (const int64_t n : {int64_t{1}, group_size, 3 * group_size + 1, int64_t{20'000}}) {
      std::vector<OrderedRange> expected(static_cast<size_t>((n + group_size - 1) / group_size));
      ordered_ranges(n, group_size, x.data(), expected.data());
      for (const Variant& variant : reducer().variants(ReduceOp::kRanges)) {
        std::vector<OrderedRange> actual(expected.size());
        reducer().find_ranges(variant, n, group_size, x.data(), actual.data());
        ASSERT_EQ(actual, expected) << variant.name() << ", " << n << " by " << group_size;
      }
    }
  }
}

TEST_F(ReducerTest, RangesOfManyGroups) {
  const std::vector<float> x = any_floats(largest_size(), 5);
  for (const int64_t group_size : {1, 3, 256, 4096}) {
    const int64_t n = group_size == kPlaneGroup ? largest_size() : largest_size() / 10;
    std::vector<OrderedRange> expected(static_cast<size_t>((n + group_size - 1) / group_size));
    ordered_ranges(n, group_size, x.data(), expected.data());
    for (const Variant& variant : reducer().variants(ReduceOp::kRanges)) {
      std::vector<OrderedRange> actual(expected.size());
      reducer().find_ranges(variant, n, group_size, x.data(), actual.data());
      ASSERT_TRUE(actual == expected) << variant.name() << ", groups of " << group_size;
    }
  }
}

// Planes in pieces that lie in no order.
struct Planes {
  Planes(const std::vector<float>& x, int bits, int64_t groups_per_piece) : bits(bits) {
    const auto n = static_cast<int64_t>(x.size());
    const int64_t piece_values = groups_per_piece * kPlaneGroup;
    const int64_t n_pieces = (n + piece_values - 1) / piece_values;
    const int64_t piece_words = groups_per_piece * (1 + 8 * bits) + 5;
    words.resize(static_cast<size_t>(n_pieces * piece_words + 16));
    for (int64_t k = 0; k < n_pieces; ++k) {
      uint32_t* start = words.data() + (n_pieces - 1 - k) * piece_words;
      BitPlanes to = {bits, start, {}, coding_at(k * groups_per_piece)};
      for (int p = 0; p < bits; ++p) to.plane[p] = start + groups_per_piece * (1 + 8 * p);
      bitplane_encode(std::min(piece_values, n - k * piece_values), x.data() + k * piece_values,
                      false, to);
      pieces.push_back(to);
    }
    all = {bits, bits, groups_per_piece, {}, 0, n, {}};
  }

  Coding coding_at(int64_t group) const {
    return {0xdecade, static_cast<uint32_t>(group), PlaneForm::kDithered};
  }

  PlanePieces part(int n_planes, int64_t first, int64_t count) const {
    PlanePieces part = {bits, n_planes, all.groups_per_piece, {}, 0, count, {}};
    const int64_t piece_values = all.groups_per_piece * kPlaneGroup;
    const int64_t first_piece = first / piece_values;
    part.first = first - first_piece * piece_values;
    part.coding = coding_at(first_piece * all.groups_per_piece);
    for (int64_t k = first_piece; k * piece_values < first + count; ++k) {
      part.parts.push_back(pieces[static_cast<size_t>(k)].headers);
      for (int p = 0; p < n_planes; ++p) {
        part.parts.push_back(pieces[static_cast<size_t>(k)].plane[p]);
      }
    }
    return part;
  }

  int bits;
  std::vector<uint32_t> words;
  std::vector<BitPlanes> pieces;
  PlanePieces all;
};

void expect_same_floats(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(float)), 0)
        << "at " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

TEST_F(ReducerTest, DecodesWhatTheCpuDoes) {
  const auto cpu = make_cpu_reducer();
  for (int bits = 1; bits <= 8; ++bits) {
    for (const int64_t n : {1, 255, 256, 257, 70'001}) {
      const Planes planes(ordinary_floats(n, 6), bits, 8);
      for (int n_planes = 1; n_planes <= bits; ++n_planes) {
        for (const int64_t first : {int64_t{0}, n / 3, n - 1}) {
          PlanePieces part = planes.part(n_planes, first, n - first);
          for (const PlaneForm form : {PlaneForm::kPlain, PlaneForm::kDithered}) {
            part.coding.form = form;
            std::vector<float> expected(static_cast<size_t>(n - first)), actual(expected.size());
            cpu->decode({}, part, expected.data());
            for (const Variant& variant : reducer().variants(ReduceOp::kDecode)) {
              SCOPED_TRACE(variant.name() + ", " + std::to_string(n) + " values, " +
                           std::to_string(n_planes) + " of " + std::to_string(bits) + " planes");
              reducer().decode(variant, part, actual.data());
              expect_same_floats(actual, expected);
            }
          }
        }
      }
    }
  }
}

// Down to the smallest header that is left to a device.
TEST_F(ReducerTest, DecodesSmallNumbers) {
  const auto cpu = make_cpu_reducer();
  for (const float magnitude : {0x1p-90f, 0x1p-98f, 0x1p-105f, 0x1p-120f, 0x1p-126f, 0x1p127f}) {
    for (const float offset : {0.0f, -0.5f, -1.0f, 3.0f}) {
      std::vector<float> x = ordinary_floats(2048, 7);
      for (float& value : x) value = (value / 8 + offset) * magnitude;
      const Planes planes(x, 4, 2);
      for (int n_planes = 1; n_planes <= 4; ++n_planes) {
        const PlanePieces part = planes.part(n_planes, 0, 2048);
        std::vector<float> expected(2048), actual(2048);
        cpu->decode({}, part, expected.data());
        for (const Variant& variant : reducer().variants(ReduceOp::kDecode)) {
          reducer().decode(variant, part, actual.data());
          for (size_t group = 0; group < 8; ++group) {
            const uint32_t header = part.parts[group / 2 * (1 + n_planes)][group % 2];
            if ((header & kExactGroup) != 0 || is_too_small(header)) continue;
            ASSERT_EQ(std::memcmp(&actual[group * 256], &expected[group * 256], 1024), 0)
                << magnitude << " " << offset << " " << n_planes;
          }
        }
      }
    }
  }
}

TEST_F(ReducerTest, PacksWhatTheCpuDoes) {
  if (!reducer().device().can_pack) GTEST_SKIP() << "the device does not pack";
  for (int bits = 1; bits <= 8; ++bits) {
    for (const int64_t n : {1, 31, 32, 255, 256, 257, 5000, 70'001}) {
      std::vector<float> x = ordinary_floats(n, 14);
      x[static_cast<size_t>(n / 2)] = n == 5000 ? std::numeric_limits<float>::infinity() : -0.0f;
      const Planes expected(x, bits, 8);
      Planes actual = expected;
      const int64_t n_groups = (n + kPlaneGroup - 1) / kPlaneGroup;
      std::vector<OrderedRange> ranges(static_cast<size_t>(n_groups));
      std::vector<GroupCode> codes(ranges.size());
      std::vector<uint32_t> headers(ranges.size());
      ordered_ranges(n, kPlaneGroup, x.data(), ranges.data());
      bitplane_headers(expected.coding_at(0), n_groups, bits, ranges.data(), headers.data(),
                       codes.data());
      PlanePieces to = expected.part(bits, 0, n);
      for (size_t i = 0; i < to.parts.size(); ++i) {
        to.parts[i] = actual.words.data() + (to.parts[i] - expected.words.data());
        const int64_t first_group = static_cast<int64_t>(i) / (1 + bits) * 8;
        const auto size_words = static_cast<size_t>(std::min<int64_t>(8, n_groups - first_group));
        if (static_cast<int64_t>(i) % (1 + bits) == 0) continue;
        std::memset(const_cast<uint32_t*>(to.parts[i]), 0x55, size_words * kPlaneGroupBytes);
      }
      reducer().pack(n, x.data(), codes.data(), to);
      EXPECT_TRUE(actual.words == expected.words) << bits << " bits, " << n << " values";
    }
  }
}

// Memory that the device takes as its own.
class Pages {
 public:
  explicit Pages(size_t size_bytes) : size_bytes_(size_bytes) {
    data_ = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Pages() { munmap(data_, size_bytes_); }
  float* floats() const { return static_cast<float*>(data_); }

 private:
  size_t size_bytes_;
  void* data_;
};

TEST_F(ReducerTest, SharedMemoryIsUsedWhereItLies) {
  const auto cpu = make_cpu_reducer();
  constexpr size_t kBytes = 1 << 20;
  const Pages pages(kBytes);
  if (!reducer().share(pages.floats(), kBytes)) GTEST_SKIP() << "the device cannot share memory";
  const uint64_t copied_before = reducer().copied_bytes();
  const std::vector<float> x = any_floats(50'000, 8);
  for (const int64_t offset : {0, 1, 4, 1000, 1027}) {
    float* shared = pages.floats() + offset;
    std::memcpy(shared, x.data(), x.size() * sizeof(float));
    for (const Variant& variant : reducer().variants(ReduceOp::kRange)) {
      EXPECT_EQ(reducer().find_range(variant, 50'000, shared), expected_range(x))
          << variant.name() << " at " << offset;
    }
  }
  if (reducer().device().backend != Backend::kCpu) {
    EXPECT_EQ(reducer().copied_bytes(), copied_before);
  }

  const Planes planes(ordinary_floats(20'000, 9), 3, 8);
  PlanePieces part = planes.part(3, 100, 19'000);
  std::vector<float> expected(19'000);
  cpu->decode({}, part, expected.data());
  const size_t words_bytes = planes.words.size() * sizeof(uint32_t);
  std::memcpy(pages.floats(), planes.words.data(), words_bytes);
  for (const uint32_t*& start : part.parts) {
    start = reinterpret_cast<uint32_t*>(pages.floats()) + (start - planes.words.data());
  }
  for (const size_t at : {size_t{100'000}, size_t{100'001}}) {
    float* y = pages.floats() + at;
    reducer().decode(reducer().variants(ReduceOp::kDecode).front(), part, y);
    expect_same_floats({y, y + expected.size()}, expected);
  }
  if (reducer().device().backend != Backend::kCpu) {
    EXPECT_EQ(reducer().copied_bytes(), copied_before);
  }
  reducer().unshare(pages.floats());
  reducer().find_range(reducer().variants(ReduceOp::kRange).front(), 1000, pages.floats());
}

TEST_F(ReducerTest, PassesItsOwnCheck) { check_reducer(reducer()); }

// The smallest device that there may be.
TEST_F(ReducerTest, DoesWithLittle) {
  for (const int workgroup : {1, 32, 128}) {
    GpuOptions options;
    options.uses_subgroups = options.shares_memory = false;
    options.max_workgroup = workgroup;
    const auto smallest = make_reducer(validated(options));
    check_reducer(*smallest);
    const std::vector<float> x = any_floats(300'001, 10);
    for (const Variant& variant : smallest->variants(ReduceOp::kRange)) {
      EXPECT_FALSE(variant.uses_subgroups);
      EXPECT_EQ(smallest->find_range(variant, 300'001, x.data()), expected_range(x));
    }
    const Pages pages(1 << 16);
    if (smallest->device().backend != Backend::kCpu) {
      EXPECT_FALSE(smallest->share(pages.floats(), 1 << 16));
    }
  }
}

// The gate is worth something: it sees what still gives right results on the drivers here.
TEST_F(ReducerTest, ValidationSeesAMissingBarrier) {
  if (!has_validation()) GTEST_SKIP() << "without Vulkan's validation layer";
  GpuOptions options;
  options.faults.omits_barriers = true;
  const auto racing = make_reducer(validated(options));
  const std::vector<float> x = ordinary_floats(10'000, 12);
  for (const Variant& variant : racing->variants(ReduceOp::kRange)) {
    racing->find_range(variant, 10'000, x.data());
    ASSERT_FALSE(validation_messages().empty()) << variant.name();
    EXPECT_NE(validation_messages().front().find("SYNC-HAZARD"), std::string::npos);
    validation_messages().clear();
  }
}

// For Oclgrind, which prints what it sees: ctest looks for that.
TEST_F(ReducerTest, DISABLED_RacesWithoutBarriers) {
  GpuOptions options;
  options.faults.omits_barriers = true;
  const auto racing = make_reducer(options);
  const std::vector<float> x = ordinary_floats(1000, 13);
  std::vector<OrderedRange> ranges(4);
  racing->find_ranges(racing->variants(ReduceOp::kRanges).front(), 1000, 256, x.data(),
                      ranges.data());
}

TEST_F(ReducerTest, FailuresAreReported) {
  if (reducer().device().backend == Backend::kCpu) GTEST_SKIP() << "the CPU does not fail";
  const std::vector<float> x = ordinary_floats(1000, 11);
  for (const auto kind :
       {GpuError::Kind::kOutOfMemory, GpuError::Kind::kLost, GpuError::Kind::kFailed}) {
    GpuOptions options;
    options.faults.fails_at_call = 1;
    options.faults.failure = kind;
    const auto failing = make_reducer(validated(options));
    const Variant variant = failing->variants(ReduceOp::kRange).front();
    EXPECT_EQ(failing->find_range(variant, 1000, x.data()), expected_range(x));
    try {
      failing->find_range(variant, 1000, x.data());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const GpuError& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
    }
  }
}

}  // namespace
}  // namespace daf::testing
