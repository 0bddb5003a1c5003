#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

Pool2d make_shape(int64_t planes, int64_t h, int64_t w, int64_t kernel, int64_t stride, int64_t pad,
                  int64_t dilation = 1, bool ceil_mode = false) {
  Pool2d s = {planes, h, w, kernel, kernel, stride, stride, pad, pad, dilation, dilation, 0, 0};
  const auto out = [&](int64_t size) {
    const int64_t reach = size + 2 * pad - dilation * (kernel - 1) - 1;
    int64_t n = (reach + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (n - 1) * stride >= size + pad) --n;
    return n;
  };
  s.out_h = out(h);
  s.out_w = out(w);
  return s;
}

const Pool2d kMaxShapes[] = {make_shape(3, 8, 8, 2, 2, 0),           make_shape(2, 7, 9, 3, 2, 1),
                             make_shape(2, 7, 9, 3, 2, 1, 1, true),  make_shape(1, 6, 6, 3, 1, 1),
                             make_shape(2, 9, 8, 2, 1, 1, 3),        make_shape(1, 5, 5, 5, 5, 0),
                             make_shape(1, 3, 4, 1, 1, 0),           make_shape(0, 4, 4, 2, 2, 0),
                             {2, 6, 9, 3, 2, 2, 1, 1, 0, 1, 2, 3, 7}};

// The element an output took: the first of its window's largest.
template <class Index>
void check_max(const Pool2d& s) {
  const int64_t n_in = s.planes * s.h * s.w, n_out = s.planes * s.out_h * s.out_w;
  Floats x = random_floats(n_in, 1);
  for (float& v : x) v = std::round(v * 4);  // ties
  const Floats grad_y = random_floats(n_out, 2);
  Doubles expected(n_out), expected_grad(n_in);
  for (int64_t o = 0; o < n_out; ++o) {
    const int64_t plane = o / (s.out_h * s.out_w), oh = o / s.out_w % s.out_h, ow = o % s.out_w;
    int64_t best = -1;
    for (int64_t r = 0; r < s.kh; ++r) {
      for (int64_t c = 0; c < s.kw; ++c) {
        const int64_t ih = oh * s.stride_h - s.pad_h + r * s.dilation_h;
        const int64_t iw = ow * s.stride_w - s.pad_w + c * s.dilation_w;
        if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) continue;
        const int64_t i = (plane * s.h + ih) * s.w + iw;
        if (best < 0 || x[i] > x[best]) best = i;
      }
    }
    ASSERT_GE(best, 0);
    expected[o] = x[best];
    expected_grad[best] += grad_y[o];
  }
  Floats y = unset_floats(n_out), grad_x = unset_floats(n_in);
  std::vector<Index> offset(n_out);
  max_pool2d(s, x.data(), y.data(), offset.data());
  expect_close(y, expected, 0);
  max_pool2d_backward(s, grad_y.data(), offset.data(), grad_x.data());
  expect_close(grad_x, expected_grad, 1e-6);
}

TEST(MaxPool2d, TakesTheFirstLargestOfEveryWindow) {
  for (const Pool2d& s : kMaxShapes) {
    SCOPED_TRACE(::testing::Message() << s.h << "x" << s.w << " kernel " << s.kh << "x" << s.kw);
    check_max<uint8_t>(s);
    check_max<int32_t>(s);
  }
  check_max<uint8_t>(make_shape(1, 16, 16, 16, 1, 0));  // the last offset is 255
  check_max<int32_t>(make_shape(1, 20, 20, 17, 1, 0));
}

TEST(MaxPool2d, NanWinsAndPaddingNever) {
  const Pool2d s = make_shape(1, 2, 4, 2, 2, 0);
  Floats x = {1, kNan, -kInf, -kInf, kNan, 3, -kInf, -kInf}, y(2);
  std::vector<uint8_t> offset(2);
  max_pool2d(s, x.data(), y.data(), offset.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(offset[0], 2);  // of several NaN the last one, as in PyTorch
  EXPECT_EQ(y[1], -kInf);
  EXPECT_EQ(offset[1], 0);

  const Pool2d padded = make_shape(1, 1, 1, 3, 1, 1);
  const float lowest = -kInf, grad_y = 5;
  float grad_x = 0;
  max_pool2d(padded, &lowest, y.data(), offset.data());
  EXPECT_EQ(y[0], -kInf);
  EXPECT_EQ(offset[0], 4);  // the only real element
  max_pool2d_backward(padded, &grad_y, offset.data(), &grad_x);
  EXPECT_EQ(grad_x, 5);
}

TEST(MaxPool2d, WindowOfPaddingAloneTakesNothing) {
  const Pool2d s = {1, 1, 1, 2, 2, 1, 1, 1, 1, 5, 5, 1, 1};
  const float x = 3, grad_y = 5;
  float y = 0, grad_x = kNan;
  uint8_t offset = 9;
  max_pool2d(s, &x, &y, &offset);
  EXPECT_EQ(y, -kInf);
  max_pool2d_backward(s, &grad_y, &offset, &grad_x);
  EXPECT_EQ(grad_x, 0);
}

void check_avg(const Pool2d& s, bool count_include_pad, int64_t divisor_override) {
  SCOPED_TRACE(::testing::Message()
               << s.h << "x" << s.w << " kernel " << s.kh << "x" << s.kw << " include "
               << count_include_pad << " divisor " << divisor_override);
  const int64_t n_in = s.planes * s.h * s.w, n_out = s.planes * s.out_h * s.out_w;
  const Floats x = random_floats(n_in, 1), grad_y = random_floats(n_out, 2);
  Doubles expected(n_out), expected_grad(n_in);
  for (int64_t o = 0; o < n_out; ++o) {
    const int64_t plane = o / (s.out_h * s.out_w), oh = o / s.out_w % s.out_h, ow = o % s.out_w;
    std::vector<int64_t> members;
    int64_t n_padded = 0;  // what lies beyond the padding does not count either way
    for (int64_t ih = oh * s.stride_h - s.pad_h; ih < oh * s.stride_h - s.pad_h + s.kh; ++ih) {
      for (int64_t iw = ow * s.stride_w - s.pad_w; iw < ow * s.stride_w - s.pad_w + s.kw; ++iw) {
        if (ih < s.h + s.pad_h && iw < s.w + s.pad_w) ++n_padded;
        if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) continue;
        members.push_back((plane * s.h + ih) * s.w + iw);
      }
    }
    const int64_t count = count_include_pad ? n_padded : static_cast<int64_t>(members.size());
    const double divisor = static_cast<double>(divisor_override ? divisor_override : count);
    for (int64_t i : members) {
      expected[o] += x[i] / divisor;
      expected_grad[i] += grad_y[o] / divisor;
    }
  }
  Floats y = unset_floats(n_out), grad_x = unset_floats(n_in);
  avg_pool2d(s, count_include_pad, divisor_override, x.data(), y.data());
  expect_close(y, expected);
  avg_pool2d_backward(s, count_include_pad, divisor_override, grad_y.data(), grad_x.data());
  expect_close(grad_x, expected_grad);
}

TEST(AvgPool2d, DivisorsPaddingAndCeilMode) {
  for (const bool include : {false, true}) {
    for (const int64_t divisor : {0, 3}) {
      check_avg(make_shape(2, 8, 8, 2, 2, 0), include, divisor);
      check_avg(make_shape(2, 7, 9, 3, 2, 1), include, divisor);
      check_avg(make_shape(2, 7, 8, 3, 2, 1, 1, true), include, divisor);
      check_avg(make_shape(1, 5, 5, 5, 1, 2), include, divisor);
      check_avg(make_shape(0, 4, 4, 2, 2, 0), include, divisor);
    }
  }
}

void check_adaptive(int64_t planes, int64_t h, int64_t w, int64_t out_h, int64_t out_w) {
  SCOPED_TRACE(::testing::Message() << h << "x" << w << " to " << out_h << "x" << out_w);
  const int64_t n_in = planes * h * w, n_out = planes * out_h * out_w;
  const Floats x = random_floats(n_in, 1), grad_y = random_floats(n_out, 2);
  Doubles expected(n_out), expected_grad(n_in);
  for (int64_t o = 0; o < n_out; ++o) {
    const int64_t plane = o / (out_h * out_w), oh = o / out_w % out_h, ow = o % out_w;
    const int64_t h0 = oh * h / out_h, h1 = std::llround(std::ceil((oh + 1.0) * h / out_h));
    const int64_t w0 = ow * w / out_w, w1 = std::llround(std::ceil((ow + 1.0) * w / out_w));
    for (int64_t ih = h0; ih < h1; ++ih) {
      for (int64_t iw = w0; iw < w1; ++iw) {
        const double count = static_cast<double>((h1 - h0) * (w1 - w0));
        expected[o] += x[(plane * h + ih) * w + iw] / count;
        expected_grad[(plane * h + ih) * w + iw] += grad_y[o] / count;
      }
    }
  }
  Floats y = unset_floats(n_out), grad_x = unset_floats(n_in);
  adaptive_avg_pool2d(planes, h, w, out_h, out_w, x.data(), y.data());
  expect_close(y, expected);
  adaptive_avg_pool2d_backward(planes, h, w, out_h, out_w, grad_y.data(), grad_x.data());
  expect_close(grad_x, expected_grad);
}

TEST(AdaptiveAvgPool2d, ShrinksAndGrows) {
  check_adaptive(3, 7, 7, 1, 1);
  check_adaptive(2, 8, 6, 4, 3);
  check_adaptive(2, 7, 10, 3, 4);  // windows overlap
  check_adaptive(1, 3, 2, 5, 7);   // outputs repeat
  check_adaptive(0, 3, 3, 2, 2);
}

TEST(AvgPool2d, NanAndInfReachTheirWindowOnly) {
  const Floats x = {kNan, 1, 2, kInf};
  Floats y(2);
  avg_pool2d({1, 1, 4, 1, 2, 1, 2, 0, 0, 1, 1, 1, 2}, true, 0, x.data(), y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInf);
}

}  // namespace
}  // namespace daf::testing
