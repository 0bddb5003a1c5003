#include <cstring>
#include <limits>

#include "runtime_ops/gpu/reducer.h"

namespace daf {
namespace {

// Of all magnitudes, with what floats find hard in between.
std::vector<float> awkward_values(int64_t n) {
  using Limits = std::numeric_limits<float>;
  const float special[] = {0.0f,
                           -0.0f,
                           Limits::denorm_min(),
                           -Limits::denorm_min(),
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           -Limits::quiet_NaN(),
                           Limits::max(),
                           Limits::lowest()};
  std::vector<float> values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    float value;
    const uint32_t bits = (state & 0x807fffff) | (0x3e000000 + (state >> 3 & 0x03800000));
    std::memcpy(&value, &bits, sizeof(value));
    values[static_cast<size_t>(i)] = i % 611 == 610 ? special[i / 611 % 10] : value;
  }
  return values;
}

void expect_same(const Reducer& reducer, const Variant& variant, ReduceOp op, const void* expected,
                 const void* actual, size_t size_bytes) {
  if (std::memcmp(expected, actual, size_bytes) == 0) return;
  throw GpuError(GpuError::Kind::kFailed, reducer.device().name + " (" + variant.name() +
                                              ") computes a wrong " + name_of(op) +
                                              "; its driver cannot be used");
}

void check_decode(Reducer& reducer, const Variant& variant, int n_planes) {
  constexpr int64_t kValues = 5 * kPlaneGroup + 3;
  constexpr int64_t kGroups = (kValues + kPlaneGroup - 1) / kPlaneGroup;
  std::vector<float> x = awkward_values(600);
  x.resize(kValues, 0.25f);
  std::vector<uint32_t> headers(kGroups), words(kMaxPlanes * kGroups * 8);
  BitPlanes planes = {3, headers.data(), {}, {}};
  for (int p = 0; p < kMaxPlanes; ++p) planes.plane[p] = words.data() + p * kGroups * 8;
  bitplane_encode(kValues, x.data(), false, planes);
  PlanePieces pieces = {planes.bits, n_planes, kGroups, {headers.data()}, 5, kValues - 9, {}};
  for (int p = 0; p < n_planes; ++p) pieces.parts.push_back(planes.plane[p]);
  std::vector<float> expected(kValues), actual(kValues);
  bitplane_decode(planes, n_planes, pieces.first, pieces.count, false, expected.data());
  reducer.decode(variant, pieces, actual.data());
  expect_same(reducer, variant, ReduceOp::kDecode, expected.data(), actual.data(),
              expected.size() * sizeof(float));
}

void check_pack(Reducer& reducer, const Variant& variant) {
  constexpr int64_t kValues = 5 * kPlaneGroup + 3;
  constexpr int64_t kGroups = (kValues + kPlaneGroup - 1) / kPlaneGroup;
  constexpr int kBits = 5;
  std::vector<float> x = awkward_values(600);
  x.resize(kValues, 0.25f);
  for (int64_t i = 0; i < kValues; ++i) x[static_cast<size_t>(i)] += static_cast<float>(i) * 1e-3f;
  std::vector<uint32_t> headers(kGroups), words(2 * kBits * kGroups * 8);
  BitPlanes planes = {kBits, headers.data(), {}, {}};
  PlanePieces pieces = {kBits, kBits, kGroups, {headers.data()}, 0, kValues, {}};
  for (int p = 0; p < kBits; ++p) {
    planes.plane[p] = words.data() + p * kGroups * 8;
    pieces.parts.push_back(planes.plane[p] + kBits * kGroups * 8);
  }
  std::vector<OrderedRange> ranges(kGroups);
  std::vector<GroupCode> codes(kGroups);
  ordered_ranges(kValues, kPlaneGroup, x.data(), ranges.data());
  bitplane_encode(kValues, x.data(), false, planes);
  bitplane_headers({}, kGroups, kBits, ranges.data(), headers.data(), codes.data());
  reducer.pack(kValues, x.data(), codes.data(), pieces);
  expect_same(reducer, variant, ReduceOp::kRanges, words.data(), words.data() + kBits * kGroups * 8,
              kBits * kGroups * kPlaneGroupBytes);
}

}  // namespace

void check_reducer(Reducer& reducer) {
  constexpr int64_t kValues = 9001;  // more than one workgroup takes
  const std::vector<float> x = awkward_values(kValues);
  for (const Variant& variant : reducer.variants(ReduceOp::kRange)) {
    OrderedRange expected;
    ordered_ranges(kValues, kValues, x.data(), &expected);
    const OrderedRange actual = reducer.find_range(variant, kValues, x.data());
    expect_same(reducer, variant, ReduceOp::kRange, &expected, &actual, sizeof(actual));
  }
  for (const Variant& variant : reducer.variants(ReduceOp::kRanges)) {
    std::vector<OrderedRange> expected((kValues + kPlaneGroup - 1) / kPlaneGroup);
    std::vector<OrderedRange> actual(expected.size());
    ordered_ranges(kValues, kPlaneGroup, x.data(), expected.data());
    reducer.find_ranges(variant, kValues, kPlaneGroup, x.data(), actual.data());
    expect_same(reducer, variant, ReduceOp::kRanges, expected.data(), actual.data(),
                expected.size() * sizeof(OrderedRange));
    if (variant.packs) check_pack(reducer, variant);
  }
  for (const Variant& variant : reducer.variants(ReduceOp::kDecode)) {
    check_decode(reducer, variant, 3);
    check_decode(reducer, variant, 1);
  }
}

}  // namespace daf
