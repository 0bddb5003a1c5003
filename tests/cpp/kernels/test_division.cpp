#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

uint16_t nearest_bfloat16(float value) {
  uint16_t half;
  to_bfloat16(1, &value, &half);
  return half;
}

float as_float(uint16_t half) {
  float value;
  from_bfloat16(1, &half, &value);
  return value;
}

TEST(Division, AveragesAreThoseOfTheirBlocks) {
  for (const int64_t height : {1, 2, 7, 8, 64}) {
    for (const int64_t width : {1, 3, 8, 64}) {
      for (const int64_t n : {1, 2, 9, 70}) {
        const int64_t stride = n * width + 3;  // columns that no block covers
        const Floats x = random_floats(height * stride, 1);
        std::vector<uint16_t> averages(static_cast<size_t>(n) + 1, 0xdead);
        division_averages(n, height, width, stride, x.data(), averages.data());
        EXPECT_EQ(averages[static_cast<size_t>(n)], 0xdead);
        for (int64_t b = 0; b < n; ++b) {
          double sum = 0;
          for (int64_t i = 0; i < height * width; ++i) {
            sum += static_cast<double>(
                x[static_cast<size_t>(i / width * stride + b * width + i % width)]);
          }
          const double mean = sum / static_cast<double>(height * width);
          EXPECT_EQ(averages[static_cast<size_t>(b)], nearest_bfloat16(static_cast<float>(mean)));
        }
      }
    }
  }
}

// A group of 256 values: the end of one map, all of a second, the beginning of a marked one, the
// beginning of a last one that takes every average for some values.
struct Group {
  Group() {
    for (size_t i = 0; i < averages.size(); ++i) {
      averages[i] = nearest_bfloat16(0.37f * static_cast<float>(i) - 2);
    }
    for (int i = 0; i < 99; ++i) n_alike.push_back(std::min(99, (i + 4) / 9 * 9 + 5) - i);
    segments = {{{37, 0, averages.data(), nullptr, true},
                 {85, 0, averages.data() + 1, nullptr, false},
                 {35, kExactGroup, averages.data(), nullptr, true},
                 {99, 0, averages.data() + 90, n_alike.data(), false}}};
    const float* next = x.data();
    for (MapSegment& segment : segments) {
      MapRange range;
      division_range(1, &segment, next, &range);
      EXPECT_TRUE(range.is_finite);
      if (segment.header == 0) segment.header = division_header(range, 8);
      next += segment.count;
    }
  }

  float average(size_t i) const {
    if (i < 37) return as_float(averages[0]);
    if (i < 122) return as_float(averages[1 + i - 37]);
    return as_float(averages[90 + (i - 157 + 4) / 9]);
  }
  static bool is_marked(size_t i) { return i >= 122 && i < 157; }
  uint32_t header(size_t i) const { return segments[i < 37 ? 0 : i < 122 ? 1 : 3].header; }

  Floats x = random_floats(256, 3);
  std::array<uint16_t, 110> averages{};
  std::vector<int32_t> n_alike;
  std::array<MapSegment, 4> segments{};
};

TEST(Division, EveryPrefixOfThePlanesIsNearTheValues) {
  Group group;
  std::array<std::array<uint32_t, 8>, kMaxPlanes> planes{};
  BitPlanes run = {8, nullptr, {}, {5, 4, PlaneForm::kPlain}};
  for (size_t p = 0; p < 8; ++p) run.plane[p] = planes[p].data();
  division_encode(4, group.segments.data(), group.x.data(), run);
  for (int n_planes = 8; n_planes >= 1; --n_planes) {
    Floats y(256, 1000);
    division_decode(run, n_planes, 0, 4, group.segments.data(), y.data());
    for (size_t i = 0; i < 256; ++i) {
      if (Group::is_marked(i)) {
        EXPECT_EQ(y[i], 1000) << i;
        continue;
      }
      const double scale = as_float(static_cast<uint16_t>(group.header(i) >> 16));
      const double minimum = as_float(static_cast<uint16_t>(group.header(i)));
      const double width = std::exp2(8 - n_planes);
      EXPECT_NEAR(y[i], group.x[i], scale * (1 + (width - 1) / 2) + 1e-6) << i;
      // A code, and the middle of what is missing, above the average.
      const double code = (y[i] - group.average(i) - minimum) / scale - (width - 1) / 2;
      EXPECT_NEAR(code, std::round(code / width) * width, 1e-2) << i;
    }
    Floats part(100, 1000);  // from value 10 of the first segment on
    std::array<MapSegment, 2> some = {group.segments[0], group.segments[1]};
    some[0].count = 27;
    some[1].count = 73;
    division_decode(run, n_planes, 10, 2, some.data(), part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), y.begin() + 10));
  }
}

TEST(Division, WhatIsNotFiniteIsMarked) {
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const size_t place : {0u, 36u, 100u, 255u}) {
      Group group;
      group.x[place] = bad;
      MapRange range;
      division_range(4, group.segments.data(), group.x.data(), &range);
      EXPECT_FALSE(range.is_finite) << place;
      EXPECT_EQ(division_header(range, 2), kExactGroup);
    }
  }
  EXPECT_EQ(division_header({-3e38f, 3e38f, true}, 2), kExactGroup);
}

}  // namespace
}  // namespace daf::testing
