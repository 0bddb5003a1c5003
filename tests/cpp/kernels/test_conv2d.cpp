#include "runtime_ops/kernels/blocks.h"
#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

struct Window {
  int64_t kernel, stride, pad, dilation;
};

Conv2d make_shape(int64_t n, int64_t c_in, int64_t h, int64_t w, int64_t c_out, Window v, Window u,
                  int64_t groups = 1) {
  Conv2d s = {n,        c_in,  h,     w,          c_out,      v.kernel, u.kernel, v.stride,
              u.stride, v.pad, u.pad, v.dilation, u.dilation, groups,   0,        0};
  s.out_h = (h + 2 * v.pad - v.dilation * (v.kernel - 1) - 1) / v.stride + 1;
  s.out_w = (w + 2 * u.pad - u.dilation * (u.kernel - 1) - 1) / u.stride + 1;
  return s;
}

// Calls body(x offset, weight offset, y offset) for every product in the definition.
template <class Body>
void for_each_product(const Conv2d& s, Body body) {
  const int64_t in = s.c_in / s.groups, out = s.c_out / s.groups;
  for (int64_t image = 0; image < s.n; ++image)
    for (int64_t co = 0; co < s.c_out; ++co)
      for (int64_t ci = 0; ci < in; ++ci)
        for (int64_t r = 0; r < s.kh; ++r)
          for (int64_t c = 0; c < s.kw; ++c)
            for (int64_t oh = 0; oh < s.out_h; ++oh)
              for (int64_t ow = 0; ow < s.out_w; ++ow) {
                const int64_t ih = oh * s.stride_h - s.pad_h + r * s.dilation_h;
                const int64_t iw = ow * s.stride_w - s.pad_w + c * s.dilation_w;
                if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) continue;
                body(((image * s.c_in + co / out * in + ci) * s.h + ih) * s.w + iw,
                     ((co * in + ci) * s.kh + r) * s.kw + c,
                     ((image * s.c_out + co) * s.out_h + oh) * s.out_w + ow);
              }
}

struct Tensors {
  Floats x, weight, y;

  explicit Tensors(const Conv2d& s)
      : x(random_floats(s.n * s.c_in * s.h * s.w, 1)),
        weight(random_floats(s.c_out * (s.c_in / s.groups) * s.kh * s.kw, 2)),
        y(random_floats(s.n * s.c_out * s.out_h * s.out_w, 3)) {}
};

void fill_channels(Doubles& tensor, const Floats& bias, int64_t spatial) {
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = bias[i / spatial % bias.size()];
}

// All three products against the definition; y stands for its own gradient.
void check(const Conv2d& s, double tolerance = 1e-5) {
  SCOPED_TRACE(::testing::Message()
               << "x[" << s.n << "," << s.c_in << "," << s.h << "," << s.w << "] filters "
               << s.c_out << "x" << s.kh << "x" << s.kw << " stride " << s.stride_h << ","
               << s.stride_w << " pad " << s.pad_h << "," << s.pad_w << " dilation " << s.dilation_h
               << "," << s.dilation_w << " groups " << s.groups);
  const Tensors t(s);
  const Floats bias_out = random_floats(s.c_out, 4), bias_in = random_floats(s.c_in, 5);
  for (const bool with_bias : {false, true}) {
    VectorScratch scratch;
    Doubles expected(t.y.size());
    if (with_bias) fill_channels(expected, bias_out, s.out_h * s.out_w);
    for_each_product(s, [&](int64_t x, int64_t w, int64_t y) {
      expected[y] += static_cast<double>(t.x[x]) * t.weight[w];
    });
    Floats actual = unset_floats(static_cast<int64_t>(t.y.size()));
    conv2d(s, t.x.data(), t.weight.data(), with_bias ? bias_out.data() : nullptr, actual.data(),
           scratch);
    SCOPED_TRACE("forward");
    expect_close(actual, expected, tolerance);
  }
  for (const bool with_bias : {false, true}) {
    VectorScratch scratch;
    Doubles expected(t.x.size());
    if (with_bias) fill_channels(expected, bias_in, s.h * s.w);
    for_each_product(s, [&](int64_t x, int64_t w, int64_t y) {
      expected[x] += static_cast<double>(t.y[y]) * t.weight[w];
    });
    Floats actual = unset_floats(static_cast<int64_t>(t.x.size()));
    conv2d_input_grad(s, t.y.data(), t.weight.data(), with_bias ? bias_in.data() : nullptr,
                      actual.data(), scratch);
    SCOPED_TRACE("input gradient");
    expect_close(actual, expected, tolerance);
  }
  VectorScratch scratch;
  Doubles expected(t.weight.size());
  for_each_product(s, [&](int64_t x, int64_t w, int64_t y) {
    expected[w] += static_cast<double>(t.y[y]) * t.x[x];
  });
  Floats actual = unset_floats(static_cast<int64_t>(t.weight.size()));
  conv2d_weight_grad(s, t.y.data(), t.x.data(), false, actual.data(), scratch);
  SCOPED_TRACE("weight gradient");
  expect_close(actual, expected, tolerance);
}

constexpr Window kOne = {1, 1, 0, 1}, kThree = {3, 1, 1, 1};

TEST(Conv2d, KernelsStridesPaddingsAndDilations) {
  for (int64_t kernel : {1, 2, 3, 5}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t pad : {0, 1, 2}) {
        for (int64_t dilation : {1, 2}) {
          const Window v = {kernel, stride, pad, dilation};
          check(make_shape(2, 3, 9, 11, 5, v, v));
        }
      }
    }
  }
}

TEST(Conv2d, DifferentInHeightAndWidth) {
  check(make_shape(2, 3, 12, 7, 4, {3, 2, 1, 1}, {2, 1, 0, 3}));
  check(make_shape(1, 2, 5, 30, 3, {1, 1, 0, 1}, {7, 3, 3, 1}));
  check(make_shape(3, 2, 17, 1, 3, {5, 1, 2, 2}, {1, 1, 0, 1}));
  check(make_shape(2, 2, 6, 9, 3, {2, 1, 3, 1}, {2, 5, 1, 1}));  // padding beyond the kernel
}

TEST(Conv2d, SizesAroundPanelsAndBlocks) {
  for (int64_t w : {7, 8, 9, 16}) check(make_shape(1, 4, 3, w, 4, kThree, kThree));
  check(make_shape(3, 5, 1, 1, 9, kOne, kOne));  // panels cross images
  check(make_shape(5, 3, 1, 3, 2, kThree, kThree));
  check(make_shape(2, 30, 20, 16, 7, kThree, kThree));  // taps and pixels above a block
  check(make_shape(1, 3, 5, 5, 300, kThree, kThree));   // channels above a block
  check(make_shape(2, 260, 16, 17, 5, kOne, kOne));
}

TEST(Conv2d, PointwiseAndItsNearMisses) {
  check(make_shape(2, 6, 5, 7, 4, kOne, kOne));
  check(make_shape(2, 6, 5, 7, 4, kOne, kOne, 2));
  check(make_shape(2, 6, 5, 8, 4, {1, 2, 0, 1}, {1, 2, 0, 1}));
  check(make_shape(2, 6, 5, 7, 4, {1, 1, 1, 1}, kOne));
}

TEST(Conv2d, Groups) {
  check(make_shape(2, 6, 8, 9, 4, kThree, kThree, 2));
  check(make_shape(2, 12, 5, 5, 9, {3, 2, 1, 1}, {3, 1, 0, 1}, 3));
}

TEST(Conv2d, Depthwise) {
  for (int64_t kernel : {1, 2, 3, 5}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t pad : {0, 1, 2, 4}) {
        const Window v = {kernel, stride, pad, 1};
        check(make_shape(2, 4, 9, 11, 4, v, v, 4));
      }
    }
  }
  check(make_shape(2, 3, 9, 20, 6, {3, 1, 2, 2}, {3, 2, 1, 3}, 3));  // two filters per channel
  check(make_shape(1, 3, 2, 2, 3, {3, 1, 5, 1}, {3, 1, 5, 1}, 3));   // mostly padding
}

// Enough images to fill vectors with them, and one more; and maps too large for that, in one band
// of rows and in several.
TEST(Conv2d, DepthwiseOfManyImagesAndOfLargeMaps) {
  for (const Window v : {Window{3, 1, 1, 1}, Window{3, 2, 1, 1}, Window{2, 3, 0, 1}}) {
    check(make_shape(9, 3, 6, 6, 3, v, v, 3));
    check(make_shape(9, 2, 3, 5, 4, v, v, 2));
    check(make_shape(2, 3, 30, 27, 3, v, v, 3));
    check(make_shape(1, 2, 150, 170, 4, v, v, 2));
  }
}

// An infinity reaches the taps that see it, and no other.
TEST(Conv2d, DepthwiseWeightGradientAtInfinity) {
  for (const int64_t w : {5, 40}) {
    const Conv2d s = make_shape(1, 2, 20, w, 2, kThree, kThree, 2);
    Tensors t(s);
    t.x[0] = kInf;  // the first row and column: not seen by the last row and column of taps
    VectorScratch scratch;
    Floats weight = unset_floats(static_cast<int64_t>(t.weight.size()));
    conv2d_weight_grad(s, t.y.data(), t.x.data(), false, weight.data(), scratch);
    for (int tap = 0; tap < 18; ++tap) {
      EXPECT_EQ(std::isfinite(weight[tap]), tap >= 9 || tap / 3 == 2 || tap % 3 == 2) << tap;
    }
  }
}

// The input may be larger than what the windows reach: a transposed convolution's output_padding,
// or what is left over by a stride.
TEST(Conv2d, RemainderRowsAndColumns) {
  for (const int64_t groups : {1, 2}) {
    Conv2d s = make_shape(2, 2, 8, 9, 4, {3, 3, 0, 1}, {2, 3, 0, 1}, groups);
    check(s);
    s.h = 10;
    s.w = 11;
    s.out_h = 2;
    s.out_w = 3;
    check(s);
  }
}

// What winograd.cpp computes, and beside it too few tiles for that: channels, tiles and depths
// below, at and above a panel and a block. Its errors are some times those of sums in order, which
// are 5 to 12 here.
constexpr double kWinograd = 5e-5;

TEST(Conv2d, ManyChannelsOnTilesOfFour) {
  for (const int64_t c : {16, 17, 32, 50}) {
    check(make_shape(4, c, 8, 8, 18, kThree, kThree), kWinograd);
  }
  check(make_shape(4, 16, 8, 8, 75, kThree, kThree), kWinograd);
  check(make_shape(16, 70, 4, 4, 17, kThree, kThree), kWinograd);  // k in several blocks
  for (int64_t n : {1, 3, 4, 7, 8, 15, 16, 33}) {
    check(make_shape(n, 16, 4, 4, 16, kThree, kThree), kWinograd);
  }
  check(make_shape(2, 16, 3, 40, 17, kThree, kThree), kWinograd);
}

TEST(Conv2d, TilesAtTheEdgesOfMaps) {
  for (int64_t h = 4; h < 9; ++h) check(make_shape(8, 16, h, 8, 16, kThree, kThree), kWinograd);
  for (int64_t w = 6; w < 15; ++w) check(make_shape(4, 16, 7, w, 16, kThree, kThree), kWinograd);
  for (int64_t pad_h : {0, 1, 2, 4}) {  // the gradient of the input has 2 - pad
    for (int64_t pad_w : {0, 1, 2, 3}) {
      check(make_shape(2, 16, 12, 9, 16, {3, 1, pad_h, 1}, {3, 1, pad_w, 1}), kWinograd);
    }
  }
  Conv2d s = make_shape(2, 16, 12, 12, 16, kThree, kThree);
  s.out_h = 11;  // fewer windows than fit
  s.out_w = 9;
  check(s, kWinograd);
}

double relative_error(const Floats& actual, const Doubles& expected) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

// The figures in winograd_transforms.h.
TEST(Conv2d, MeanErrorOfWinograd) {
  const Conv2d s = make_shape(1, 64, 16, 16, 16, kThree, kThree);
  const Tensors t(s);
  Doubles expected_y(t.y.size()), expected_weight(t.weight.size());
  for_each_product(s, [&](int64_t x, int64_t w, int64_t y) {
    expected_y[y] += static_cast<double>(t.x[x]) * t.weight[w];
    expected_weight[w] += static_cast<double>(t.x[x]) * t.y[y];
  });
  Floats y = t.y, weight = t.weight;
  VectorScratch scratch;
  conv2d(s, t.x.data(), t.weight.data(), nullptr, y.data(), scratch);
  conv2d_weight_grad(s, t.y.data(), t.x.data(), false, weight.data(), scratch);
  EXPECT_LT(relative_error(y, expected_y), 1e-6);
  EXPECT_LT(relative_error(weight, expected_weight), 1.5e-6);
}

TEST(Conv2d, WeightGradientsAddUp) {
  for (const int64_t channels : {5, 20}) {
    const Conv2d s = make_shape(2, channels, 8, 9, channels, kThree, kThree);
    const Tensors t(s);
    VectorScratch scratch;
    Floats once = unset_floats(static_cast<int64_t>(t.weight.size())), more = t.weight;
    conv2d_weight_grad(s, t.y.data(), t.x.data(), false, once.data(), scratch);
    conv2d_weight_grad(s, t.y.data(), t.x.data(), true, more.data(), scratch);
    Doubles expected = to_doubles(once);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += t.weight[i];
    expect_close(more, expected);
  }
}

TEST(Conv2d, EmptyBatch) {
  for (const int64_t groups : {1, 4}) {
    check(make_shape(0, 4, 5, 5, 4, kThree, kThree, groups));
    check(make_shape(0, 4, 5, 5, 4, kOne, kOne, groups));
  }
}

TEST(Conv2d, NanReachesTheWindowsThatSeeIt) {
  const Conv2d s = make_shape(1, 1, 6, 10, 1, kThree, kThree);
  Tensors t(s);
  t.x[2 * 10 + 4] = kNan;
  VectorScratch scratch;
  Floats y = unset_floats(static_cast<int64_t>(t.y.size()));
  conv2d(s, t.x.data(), t.weight.data(), nullptr, y.data(), scratch);
  for (int64_t oh = 0; oh < 6; ++oh) {
    for (int64_t ow = 0; ow < 10; ++ow) {
      EXPECT_EQ(std::isnan(y[oh * 10 + ow]), std::abs(oh - 2) <= 1 && std::abs(ow - 4) <= 1);
    }
  }
}

// It may reach more windows of a tile, as they share what is computed from a patch; other tiles
// not.
TEST(Conv2d, NanStaysInTheTilesThatSeeIt) {
  const Conv2d s = make_shape(2, 16, 12, 16, 16, kThree, kThree);
  Tensors t(s);
  t.x[2 * 16 + 4] = kNan;  // in the patches of the tiles at (0, 0) and (0, 4)
  VectorScratch scratch;
  Floats y = unset_floats(static_cast<int64_t>(t.y.size()));
  conv2d(s, t.x.data(), t.weight.data(), nullptr, y.data(), scratch);
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
    const int64_t image = i / (16 * 12 * 16), oh = i / 16 % 12, ow = i % 16;
    const bool is_seen = image == 0 && std::abs(oh - 2) <= 1 && std::abs(ow - 4) <= 1;
    const bool is_other_tile = image != 0 || oh >= 4 || ow >= 8;
    EXPECT_TRUE(!is_seen || std::isnan(y[i])) << i;
    EXPECT_TRUE(!is_other_tile || !std::isnan(y[i])) << i;
  }
}

TEST(Conv2d, ScratchIsBounded) {
  const Conv2d s = make_shape(2, 16, 40, 40, 100, kThree, kThree);
  const Tensors t(s);
  Floats x = t.x, weight = t.weight, y = t.y;
  VectorScratch scratch[3];
  conv2d(s, t.x.data(), t.weight.data(), nullptr, y.data(), scratch[0]);
  conv2d_input_grad(s, t.y.data(), t.weight.data(), nullptr, x.data(), scratch[1]);
  conv2d_weight_grad(s, t.y.data(), t.x.data(), false, weight.data(), scratch[2]);
  for (const VectorScratch& used : scratch) {
    EXPECT_LE(used.size_bytes(), max_scratch_bytes());
  }
}

}  // namespace
}  // namespace daf::testing
