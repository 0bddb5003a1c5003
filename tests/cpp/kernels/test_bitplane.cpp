#include <algorithm>
#include <array>
#include <cstring>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

// An encoded tensor in blocks of exactly its size: a sanitizer sees what is touched beyond.
struct Encoded {
  Encoded(int bits, const Floats& x, StochasticRounding rounding = {1, 2, 3},
          uint32_t first_group = 0, PlaneForm form = PlaneForm::kDithered)
      : n(static_cast<int64_t>(x.size())), headers(n_groups(), 0xdeadbeef) {
    run.bits = bits;
    run.coding = {noise_key(rounding), first_group, form};
    run.headers = headers.data();
    for (int p = 0; p < bits; ++p) {
      planes[p].assign(n_groups() * 8, 0xdeadbeef);
      run.plane[p] = planes[p].data();
    }
    n_exact = bitplane_encode(n, x.data(), false, run);
    expect_the_same_with_given_ranges(x);
  }

  void expect_the_same_with_given_ranges(const Floats& x) {
    std::vector<OrderedRange> ranges(n_groups());
    ordered_ranges(n, kPlaneGroup, x.data(), ranges.data());
    std::vector<uint32_t> again(n_groups(), 0xdeadbeef);
    std::array<std::vector<uint32_t>, kMaxPlanes> planes_again;
    BitPlanes to = {run.bits, again.data(), {}, run.coding};
    for (int p = 0; p < run.bits; ++p) {
      planes_again[p].assign(n_groups() * 8, 0xdeadbeef);
      to.plane[p] = planes_again[p].data();
    }
    EXPECT_EQ(bitplane_encode_ranges(n, x.data(), ranges.data(), false, to), n_exact);
    EXPECT_EQ(again, headers);
    EXPECT_EQ(planes_again, planes);
  }

  size_t n_groups() const { return static_cast<size_t>((n + kPlaneGroup - 1) / kPlaneGroup); }

  Floats decode(int n_planes, int64_t first, int64_t count) const {
    Floats y = unset_floats(count);
    bitplane_decode(run, n_planes, first, count, false, y.data());
    return y;
  }
  Floats decode(int n_planes) const { return decode(n_planes, 0, n); }
  Floats decode() const { return decode(run.bits); }
  // Codes are the same for both.
  Floats decode_plainly(int n_planes) const {
    Floats y = unset_floats(n);
    BitPlanes from = run;
    from.coding.form = PlaneForm::kPlain;
    bitplane_decode(from, n_planes, 0, n, false, y.data());
    return y;
  }
  Floats decode_plainly() const { return decode_plainly(run.bits); }

  float minimum(size_t g) const { return float_of(headers[g] << 16); }
  float scale(size_t g) const { return float_of(headers[g] & 0xffff0000); }

  static float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  int64_t n;
  std::vector<uint32_t> headers;
  std::array<std::vector<uint32_t>, kMaxPlanes> planes;
  BitPlanes run = {};
  int64_t n_exact = 0;
};

// The noise of element i as kernels.h and plane_noise.h describe it, in steps of a code.
double noise_of(const StochasticRounding& rounding, uint32_t i) {
  const auto mix = [](uint64_t v) {
    v += 0x9e3779b97f4a7c15;
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
    v = (v ^ v >> 27) * 0x94d049bb133111eb;
    return v ^ v >> 31;
  };
  const uint64_t tensor = mix(mix(mix(rounding.seed) + rounding.step) + rounding.tensor);
  uint32_t s = static_cast<uint32_t>(tensor) + i / 256 * 0x9e3779b9;
  s = (s ^ s >> 16) * 0x7feb352d;
  s = (s ^ s >> 15) * 0x846ca68b;
  s ^= s >> 16;
  constexpr uint32_t kSteps[] = {75, 97, 101, 107, 149, 155, 159, 181};
  return ((s >> 24) + i % 256) * kSteps[s >> 21 & 7] % 256 / 256.0;
}

constexpr PlaneForm kForms[] = {PlaneForm::kPlain, PlaneForm::kDithered, PlaneForm::kRotated,
                                PlaneForm::kRoots};

const int64_t kSizes[] = {0, 1, 31, 255, 256, 257, 100000};

TEST(BitPlane, LayoutIsWhatItSays) {
  // 0, 1, 2, 3 again and again: at 2 bits the codes are the values, whatever the random numbers.
  Floats x(260);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 4);
  const Encoded encoded(2, x);
  const std::vector<uint32_t> headers = {0x3f800000, 0x3f800000};  // scale 1, minimum 0
  std::vector<uint32_t> high(16, 0xcccccccc), low(16, 0xaaaaaaaa);
  for (int word = 8; word < 16; ++word) high[word] = low[word] = 0;  // padded with the first, 0
  high[8] = 0xc, low[8] = 0xa;
  EXPECT_EQ(encoded.headers, headers);
  EXPECT_EQ(encoded.planes[0], high);
  EXPECT_EQ(encoded.planes[1], low);
  EXPECT_EQ(encoded.decode_plainly(), x);
}

// Stored bytes are a format: a literal that x86 and arm64 must both arrive at.
TEST(BitPlane, BytesAreTheSameOnEveryMachine) {
  Floats x(5000);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](const std::vector<uint32_t>& words) {
    for (const uint32_t word : words) hash = (hash ^ word) * 0x100000001b3;
  };
  for (const PlaneForm form : kForms) {
    for (int bits = 1; bits <= kMaxPlanes; ++bits) {
      uint32_t state = static_cast<uint32_t>(bits);
      for (size_t i = 0; i < x.size(); ++i) {
        state = state * 1664525 + 1013904223;
        const int exponent = static_cast<int>(i / 256) * 14 - 140;  // denormals to almost infinity
        x[i] = std::ldexp(static_cast<float>(state >> 8) - 0x1p23f, exponent);
        if (form == PlaneForm::kRoots) x[i] = std::abs(x[i]);
      }
      const Encoded encoded(bits, x, {1, 2, 3}, 0, form);
      add(encoded.headers);
      for (const std::vector<uint32_t>& plane : encoded.planes) add(plane);
      std::vector<uint32_t> decoded(x.size());
      const Floats y = encoded.decode();
      std::memcpy(decoded.data(), y.data(), y.size() * sizeof(float));
      add(decoded);
    }
  }
  EXPECT_EQ(hash, 14792395134233235152u);
}

TEST(BitPlane, CodesComeFromTheDocumentedNoise) {
  const StochasticRounding rounding = {0x123456789abcdef0, 77, 5};
  for (int bits = 1; bits <= 8; ++bits) {
    const Floats x = random_floats(1000, 1, -3, 5);
    const Encoded encoded(bits, x, rounding, 9);
    const Floats plain = encoded.decode_plainly(), dithered = encoded.decode();
    for (size_t i = 0; i < x.size(); ++i) {
      const double minimum = encoded.minimum(i / 256), scale = encoded.scale(i / 256);
      const float t = (x[i] - encoded.minimum(i / 256)) * (256.0f / encoded.scale(i / 256));
      const double u = noise_of(rounding, static_cast<uint32_t>(9 * 256 + i));
      const double code = std::min(std::floor(std::nearbyint(t) / 256.0 + u), std::exp2(bits) - 1);
      EXPECT_NEAR(plain[i], minimum + scale * code, 1e-5) << bits << " bits, value " << i;
      EXPECT_NEAR(dithered[i], minimum + scale * (code - u + 255.0 / 512), 1e-5)
          << bits << ", " << i;
    }
  }
}

TEST(BitPlane, HeadersEncloseTheValues) {
  const Floats x = random_floats(256 * 200, 3, -1, 1);
  for (int bits = 1; bits <= 8; ++bits) {
    Floats y = x;
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = y[i] * std::exp2f(static_cast<float>(i / 256 % 40) - 20) + 0.7f;
    const Encoded encoded(bits, y);
    for (size_t g = 0; g < encoded.n_groups(); ++g) {
      const double top =
          encoded.minimum(g) + static_cast<double>(encoded.scale(g)) * (std::exp2(bits) - 1);
      const auto [low, high] = std::minmax_element(y.begin() + g * 256, y.begin() + (g + 1) * 256);
      EXPECT_LE(encoded.minimum(g), *low);
      EXPECT_GE(top * (1 + 1e-6), *high);
    }
  }
}

TEST(BitPlane, EveryValueIsWithinAStepOrDitheredHalfAStep) {
  for (const int64_t n : kSizes) {
    const Floats x = random_floats(n, 2, -2, 3);
    for (int bits = 1; bits <= 8; ++bits) {
      const Encoded encoded(bits, x);
      const Floats plain = encoded.decode_plainly(), dithered = encoded.decode();
      for (size_t i = 0; i < x.size(); ++i) {
        const float step = encoded.scale(i / 256);
        ASSERT_LE(std::abs(plain[i] - x[i]), step * 1.003f)
            << bits << " bits, " << i << " of " << n;
        ASSERT_LE(std::abs(dithered[i] - x[i]), step * 0.503f) << bits << ", " << i << " of " << n;
      }
    }
  }
}

TEST(BitPlane, WithoutPlanesAGroupIsTheMiddleOfItsRange) {
  for (const int64_t n : kSizes) {
    const Encoded encoded(0, random_floats(n, 2, -2, 2));
    const Floats y = encoded.decode();
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i], encoded.minimum(i / 256) + encoded.scale(i / 256) / 2);
    }
  }
}

TEST(BitPlane, DroppedPlanesReadAsTheMiddleOfWhatTheyCouldSay) {
  const Floats x = random_floats(1000, 4, -1, 1);
  for (int bits = 1; bits <= 8; ++bits) {
    const Encoded encoded(bits, x);
    const Floats all = encoded.decode_plainly();
    for (int kept = 0; kept < bits; ++kept) {
      const Floats plain = encoded.decode_plainly(kept), dithered = encoded.decode(kept);
      for (size_t i = 0; i < x.size(); ++i) {
        const double minimum = encoded.minimum(i / 256), scale = encoded.scale(i / 256);
        const double width = std::exp2(bits - kept), code = std::round((all[i] - minimum) / scale);
        const double expected = std::floor(code / width) * width + (width - 1) / 2;
        const double noise = noise_of({1, 2, 3}, static_cast<uint32_t>(i));
        const double taken_off = kept == 0 ? 0 : noise - 255.0 / 512;
        EXPECT_NEAR(plain[i], minimum + scale * expected, 1e-5) << kept << " of " << bits;
        EXPECT_NEAR(dithered[i], minimum + scale * (expected - taken_off), 1e-5)
            << kept << " of " << bits;
      }
    }
  }
}

TEST(BitPlane, RangesAreWhatTheWholeIs) {
  const Floats x = random_floats(1500, 5, 0, 1);
  for (const PlaneForm form : kForms) {
    const Encoded encoded(3, x, {1, 2, 3}, 0, form);
    const Floats whole = encoded.decode();
    for (const int64_t first : {0, 1, 255, 256, 257, 300, 1024, 1499, 1500}) {
      for (const int64_t count : {0, 1, 100, 256, 300, 513, 1500}) {
        if (first + count > 1500) continue;
        const Floats part(whole.begin() + first, whole.begin() + first + count);
        EXPECT_EQ(encoded.decode(3, first, count), part) << first << ", " << count;
      }
    }
  }
}

TEST(BitPlane, WritingAroundTheCachesChangesNothing) {
  const Floats x = random_floats(5000, 6);
  for (int bits = 1; bits <= 8; ++bits) {
    const Encoded encoded(bits, x);
    for (const int64_t shift : {0, 1}) {  // not aligned for one of them
      alignas(64) float y[5008] = {};
      bitplane_decode(encoded.run, bits, 0, 5000, true, y + shift);
      EXPECT_EQ(Floats(y + shift, y + shift + 5000), encoded.decode());
      EXPECT_EQ(y[5000 + shift], 0);
    }
    alignas(32) uint32_t planes[kMaxPlanes][21 * 8];
    std::vector<uint32_t> headers(20);
    BitPlanes to = {bits, headers.data(), {}, encoded.run.coding};
    for (int p = 0; p < bits; ++p) {
      std::fill_n(planes[p], 21 * 8, 0xdeadbeef);
      to.plane[p] = planes[p];
    }
    bitplane_encode(5000, x.data(), true, to);
    EXPECT_EQ(headers, encoded.headers);
    for (size_t p = 0; p < static_cast<size_t>(bits); ++p) {
      EXPECT_EQ(std::vector<uint32_t>(planes[p], planes[p] + 20 * 8), encoded.planes[p]);
      EXPECT_EQ(planes[p][20 * 8], 0xdeadbeef);
    }
  }
}

// The mean over many seeds, and how much one is off, in steps.
struct Statistics {
  Statistics(const Floats& x, int bits, PlaneForm form) : mean(x.size()), variance(x.size()) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      const Encoded encoded(bits, x, {static_cast<uint64_t>(seed), 1, 2}, 0, form);
      const Floats y = encoded.decode();
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = (static_cast<double>(y[i]) - x[i]) / encoded.scale(i / 256);
        mean[i] += error / kSeeds;
        variance[i] += error * error / kSeeds;
      }
    }
  }
  static constexpr int kSeeds = 1000;
  Doubles mean, variance;  // of the errors
};

TEST(BitPlane, RoundingIsUnbiased) {
  for (const int bits : {1, 2, 4}) {
    for (const PlaneForm form : kForms) {
      const Floats x = random_floats(512, 7, 0, 1);
      const Statistics found(x, bits, form);
      double total = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        // The standard deviation of one rounding is at most half a step, of a square twice that; 8
        // fractional bits are made.
        const double deviation = form == PlaneForm::kRoots ? 1.0 : 0.5;
        EXPECT_NEAR(found.mean[i], 0, 5 * deviation / std::sqrt(found.kSeeds) + 1.0 / 256)
            << bits << " bits, " << i;
        total += found.mean[i] / static_cast<double>(x.size());
      }
      EXPECT_NEAR(total, 0, 5 * 0.5 / std::sqrt(found.kSeeds * 512.0)) << bits;
    }
  }
}

TEST(BitPlane, DitheredErrorsAreTheSameWhateverTheValue) {
  Floats x(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 3 / 255;  // codes 0 to 3
  const Statistics plain(x, 2, PlaneForm::kPlain), dithered(x, 2, PlaneForm::kDithered);
  for (size_t i = 0; i < x.size(); ++i) {
    const double f = x[i] - std::floor(x[i]);
    EXPECT_NEAR(plain.variance[i], f * (1 - f), 0.03) << i;
    EXPECT_NEAR(dithered.variance[i], 1.0 / 12, 0.015) << i;
  }
}

TEST(BitPlane, ErrorsOfWhatIsAlikeCancel) {
  constexpr size_t kTogether = 16;
  Floats x(256, 1.3f);
  x[0] = 0, x[255] = 3;
  double square = 0;
  int n = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Floats y = Encoded(2, x, {seed, 1, 2}).decode();
    for (size_t first = 1; first + kTogether < 255; first += kTogether, ++n) {
      double sum = 0;
      for (size_t i = first; i < first + kTogether; ++i) sum += y[i] - x[i];
      square += sum * sum;
    }
  }
  EXPECT_LT(square / n, 0.3 * kTogether / 12);  // of independent errors: kTogether / 12
}

// The mean of the squares of all errors, over some seeds.
double square_error(const Floats& x, int bits, PlaneForm form) {
  constexpr int kSeeds = 20;
  double sum = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Floats y = Encoded(bits, x, {seed, 1, 2}, 0, form).decode();
    for (size_t i = 0; i < x.size(); ++i) {
      sum += (static_cast<double>(y[i]) - x[i]) * (static_cast<double>(y[i]) - x[i]);
    }
  }
  return sum / (kSeeds * static_cast<double>(x.size()));
}

// What is far from all others in each group.
Floats with_outliers(size_t n) {
  Floats x = random_floats(static_cast<int64_t>(n), 3, -1, 1);
  for (size_t i = 7; i < n; i += 256) x[i] = 40;
  return x;
}

// As those of attention: of rows of 64, few are not next to nothing.
Floats probabilities(size_t n) {
  Floats x = random_floats(static_cast<int64_t>(n), 4, -8, 2);
  for (size_t row = 0; row < n; row += 64) {
    double sum = 0;
    for (size_t i = row; i < row + 64; ++i) sum += x[i] = std::exp(x[i]);
    for (size_t i = row; i < row + 64; ++i) x[i] /= static_cast<float>(sum);
  }
  return x;
}

TEST(BitPlane, RotationSpreadsWhatIsFarFromTheRest) {
  const Floats x = with_outliers(4096);
  for (const int bits : {2, 4, 8}) {
    const double dithered = square_error(x, bits, PlaneForm::kDithered);
    EXPECT_LT(square_error(x, bits, PlaneForm::kRotated), 0.3 * dithered) << bits;
  }
  EXPECT_NEAR(square_error(x, 8, PlaneForm::kRotated), 0, 1e-3);
}

TEST(BitPlane, RootsHaveSmallErrorsWhereProbabilitiesAreSmall) {
  const Floats x = probabilities(4096);
  for (const int bits : {2, 4, 8}) {
    const double dithered = square_error(x, bits, PlaneForm::kDithered);
    const double plain = square_error(x, bits, PlaneForm::kPlain);
    EXPECT_LT(square_error(x, bits, PlaneForm::kRoots), 0.5 * std::min(plain, dithered)) << bits;
  }
}

TEST(BitPlane, TheFormIsThatOfTheSmallestError) {
  const auto chosen = [](int bits, const Floats& x) {
    return bitplane_choose_form(bits, static_cast<int64_t>(x.size()), x.data());
  };
  for (const int bits : {1, 2, 4, 8}) {
    EXPECT_EQ(chosen(bits, random_floats(5000, 3)), PlaneForm::kDithered);
    EXPECT_EQ(chosen(bits, with_outliers(5120)), PlaneForm::kRotated);
  }
  Floats codes(5000, 0.0f);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<float>(i % 2);
  EXPECT_EQ(chosen(2, codes), PlaneForm::kPlain);
  codes[0] = kNan, codes[4096] = kInf;
  EXPECT_EQ(chosen(2, codes), PlaneForm::kPlain);
  EXPECT_EQ(chosen(2, {}), PlaneForm::kDithered);
  EXPECT_EQ(chosen(2, Floats(300, 1.0f)), PlaneForm::kDithered);
  chosen(0, random_floats(5000, 3));
}

// Dithered rounding errors in units of a step, of values that lie evenly between codes.
Doubles errors(const StochasticRounding& rounding, int64_t n) {
  Floats x = random_floats(n, 8, 0, 3);
  for (size_t i = 0; i < x.size(); i += 256) x[i] = 0, x[i + 1] = 3;
  const Encoded encoded(2, x, rounding);
  const Floats y = encoded.decode();
  Doubles e(x.size());
  for (size_t i = 0; i < x.size(); ++i) e[i] = y[i] - x[i];
  return e;
}

double correlation(const Doubles& a, const Doubles& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return ab / std::sqrt(aa * bb);
}

TEST(BitPlane, RoundingErrorsDoNotCorrelate) {
  const int64_t n = 1 << 18;
  const double tolerance = 5 / std::sqrt(static_cast<double>(n));
  const Doubles e = errors({1, 2, 3}, n);
  for (const int64_t distance : {1, 2, 5, 8, 16, 31, 32, 64, 128, 224, 255, 256, 512}) {
    const Doubles a(e.begin(), e.end() - distance), b(e.begin() + distance, e.end());
    EXPECT_NEAR(correlation(a, b), 0, tolerance) << distance;
  }
  for (const StochasticRounding& other :
       {StochasticRounding{2, 2, 3}, StochasticRounding{1, 3, 3}, StochasticRounding{1, 2, 4},
        StochasticRounding{2, 1, 3}, StochasticRounding{1, 3, 2}}) {
    // A group has one random number.
    EXPECT_NEAR(correlation(e, errors(other, n)), 0, 16 * tolerance);
  }
  EXPECT_EQ(e, errors({1, 2, 3}, n));
}

TEST(BitPlane, AnElementHasItsOwnNumberWhereverItIsEncoded) {
  const Floats x = random_floats(256 * 10, 9);
  const Encoded whole(2, x);
  const Encoded part(2, Floats(x.begin() + 256 * 4, x.end()), {1, 2, 3}, 4);
  const Floats y = whole.decode();
  EXPECT_EQ(part.decode(), Floats(y.begin() + 256 * 4, y.end()));
}

TEST(BitPlane, ConstantGroups) {
  for (const float value : {0.0f, 1.0f, -3.5f, 0x1p-130f, 0x1p127f}) {  // exact in bfloat16
    const Encoded encoded(2, Floats(300, value));
    EXPECT_EQ(encoded.scale(0), 0);
    EXPECT_EQ(encoded.decode(), Floats(300, value));
    EXPECT_EQ(encoded.decode(0), Floats(300, value));
  }
  for (const float value : {1.1f, -1.1f}) {
    for (const float y : Encoded(2, Floats(300, value)).decode()) EXPECT_NEAR(y, value, 1.0 / 128);
  }
}

TEST(BitPlane, ZeroHasOneSign) {
  Floats x(256, 0.0f);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = -0.0f;
  for (const float y : Encoded(2, x).decode()) EXPECT_FALSE(std::signbit(y) || y != 0);
}

TEST(BitPlane, ExtremesOfRange) {
  const float kMax = std::numeric_limits<float>::max();
  for (int bits = 1; bits <= 8; ++bits) {
    Floats wide = random_floats(256, 10), tiny = wide;
    for (float& v : wide) v *= 0x1p125f;
    for (float& v : tiny) v *= 0x1p-130f;
    wide[5] = 0x1p126f;
    for (const Floats& x : {wide, tiny}) {
      const Encoded encoded(bits, x);
      EXPECT_EQ(encoded.n_exact, 0);
      const Floats y = encoded.decode();
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_LE(std::abs(static_cast<double>(y[i]) - x[i]), encoded.scale(0) * 1.0001);
      }
    }
    // No header can hold what is between -max and max, nor the step above max.
    EXPECT_EQ(Encoded(bits, {-kMax, kMax}).n_exact, 1);
    EXPECT_EQ(Encoded(bits, {-kMax, 0}).n_exact, 1);
  }
}

TEST(BitPlane, GroupsThatAreNotFiniteAreMarked) {
  for (const float value : {kNan, kInf, -kInf}) {
    for (const size_t place : {256, 300, 511, 700}) {
      Floats x = random_floats(701, 12, 0, 1);
      x[place] = value;
      const size_t group = place / 256;
      for (int bits = 0; bits <= 8; ++bits) {
        const PlaneForm form = kForms[(static_cast<size_t>(bits) + place) % 4];
        const Encoded encoded(bits, x, {1, 2, 3}, 0, form);
        const Encoded clean(bits, random_floats(701, 12, 0, 1), {1, 2, 3}, 0, form);
        EXPECT_EQ(encoded.n_exact, 1);
        const Floats y = encoded.decode(), expected = clean.decode();
        for (size_t g = 0; g < 3; ++g) {
          EXPECT_EQ(encoded.headers[g] & kExactGroup, g == group ? kExactGroup : 0);
          EXPECT_TRUE(g == group || encoded.headers[g] == clean.headers[g]);
        }
        for (size_t i = 0; i < x.size(); ++i) {
          if (i / 256 == group) {
            EXPECT_TRUE(std::isnan(y[i]));  // not written
          } else {
            EXPECT_EQ(y[i], expected[i]);
          }
        }
        for (int p = 0; p < bits; ++p) EXPECT_EQ(encoded.planes[p][8 * group + 3], 0u);
      }
    }
  }
}

// ---- the same on every instruction set and with any number of threads ----

class BitPlaneSame : public ::testing::Test {
 protected:
  ~BitPlaneSame() override {
    select_isa(isa_);
    set_threads(threads_);
  }

 private:
  std::string isa_ = current_isa();
  int threads_ = n_threads();
};

TEST_F(BitPlaneSame, OnEveryInstructionSet) {
  Floats x = random_floats(100000, 13, -2, 2);
  for (size_t i = 0; i < 20000; ++i) x[i] = std::max(x[i], 0.0f);
  for (size_t i = 30000; i < 40000; ++i) x[i] *= std::exp2f(static_cast<float>(i % 250) - 125);
  for (size_t i = 40000; i < 50000; ++i) x[i] = std::exp2f(-140) * static_cast<float>(i % 9);
  x[60000] = kNan, x[61000] = kInf, x[62000] = -0.0f;
  for (const PlaneForm form : kForms) {
    if (form == PlaneForm::kRoots) {
      for (float& value : x) value = std::abs(value);
    }
    for (int bits = 0; bits <= 8; ++bits) {
      select_isa("scalar");
      const Encoded expected(bits, x, {1, 2, 3}, 0, form);
      EXPECT_EQ(expected.n_exact, 2);
      for (const std::string& isa : available_isas()) {
        select_isa(isa);
        const Encoded actual(bits, x, {1, 2, 3}, 0, form);
        EXPECT_EQ(actual.headers, expected.headers) << isa;
        EXPECT_EQ(actual.planes, expected.planes) << isa;
        for (int kept = 0; kept <= bits; ++kept) {
          select_isa("scalar");
          const Floats y = expected.decode(kept);
          select_isa(isa);
          const Floats z = actual.decode(kept);
          EXPECT_EQ(std::memcmp(y.data(), z.data(), y.size() * sizeof(float)), 0) << isa << kept;
        }
      }
    }
  }
}

TEST_F(BitPlaneSame, WithAnyNumberOfThreads) {
  Floats x = random_floats(300001, 14);
  x[1000] = x[200000] = x[300000] = kNan;
  set_threads(1);
  const Encoded expected(3, x);
  for (const int threads : {2, 3, 5}) {
    set_threads(threads);
    const Encoded actual(3, x);
    EXPECT_EQ(actual.headers, expected.headers);
    EXPECT_EQ(actual.planes, expected.planes);
    EXPECT_EQ(actual.n_exact, 3);
    expect_close(actual.decode(), to_doubles(expected.decode()), 0);
  }
}

}  // namespace
}  // namespace daf::testing
