// A channel is read twice and written once: the first pass makes all the sums.
#include <cmath>
#include <cstring>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/reduce.h"

namespace daf::DAF_ISA {
namespace {

// Adds sums over one channel of all images: term(at, terms) as in add_sums.
template <int kSums, class Term>
void channel_sums(const BatchNorm& shape, int64_t channel, Term term, double (&totals)[kSums]) {
  for (int64_t image = 0; image < shape.n; ++image) {
    const int64_t plane = (image * shape.c + channel) * shape.spatial;
    add_sums<kSums>(shape.spatial, [&](auto at, auto& terms) { term(plane, at, terms); }, totals);
  }
}

// body(offset of a plane) for every plane of one channel.
template <class Body>
void for_each_plane(const BatchNorm& shape, int64_t channel, Body body) {
  for (int64_t image = 0; image < shape.n; ++image) {
    body((image * shape.c + channel) * shape.spatial);
  }
}

template <class Body>
void for_each_channel(const BatchNorm& shape, Body body) {
  for_each_range(shape.c, shape.n * shape.spatial, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) body(c);
  });
}

void normalize(const BatchNorm& shape, int64_t channel, const float* x, const float* weight,
               const float* bias, double mean, double var, float* y) {
  const double invstd = 1.0 / std::sqrt(var + shape.eps);
  const float center = static_cast<float>(mean);
  const float scale = static_cast<float>(weight != nullptr ? weight[channel] * invstd : invstd);
  const float shift = bias != nullptr ? bias[channel] : 0.0f;
  for_each_plane(shape, channel, [=](int64_t plane) {
    map(shape.spatial, x + plane, y + plane,
        [=](Vec v) { return clamp((v - center) * scale + shift, shape.low, shape.high); });
  });
}

// The gradient of an element that became y in spite of the bounds.
inline Vec passed(const BatchNorm& shape, Vec grad, Vec y) {
  return ((y <= shape.low) | (y >= shape.high)) ? Vec{} : grad;
}
inline float passed(const BatchNorm& shape, float grad, float y) {
  const bool stopped = (y <= shape.low) | (y >= shape.high);  // as a mask: nobody can predict it
  uint32_t bits;
  std::memcpy(&bits, &grad, sizeof(bits));
  bits &= static_cast<uint32_t>(stopped) - 1;
  std::memcpy(&grad, &bits, sizeof(bits));
  return grad;
}

struct Moments {
  double mean, squares;  // sum of (x - mean)^2
};

// In one pass, from differences to a guess of the mean: that of the first plane. Where the guess is
// far off, compared to the spread, the squares are added up again.
Moments channel_moments(const BatchNorm& shape, int64_t channel, const float* x) {
  const double count = static_cast<double>(shape.n * shape.spatial);
  const auto sums_around = [&](float guess, double (&sums)[2]) {
    channel_sums<2>(
        shape, channel,
        [=](int64_t plane, auto at, auto& terms) {
          terms[0] = at(x + plane) - guess;
          terms[1] = terms[0] * terms[0];
        },
        sums);
  };
  const double first = sum(shape.spatial, x + channel * shape.spatial);
  float guess = static_cast<float>(first / static_cast<double>(shape.spatial));
  double sums[2] = {};
  sums_around(guess, sums);
  double offset = sums[0] / count;
  if (offset * offset * count > 0.5 * sums[1]) {
    guess = static_cast<float>(guess + offset);
    sums[0] = sums[1] = 0;
    sums_around(guess, sums);
    offset = sums[0] / count;
  }
  const double squares = sums[1] - sums[0] * offset;
  return {guess + offset, squares < 0 ? 0.0 : squares};
}

double inverse_std(float var, float eps) { return 1.0 / std::sqrt(static_cast<double>(var) + eps); }

// grad_x of a channel, from the sums of its gradient and of that times x - mean.
void channel_input_grad(const BatchNorm& shape, int64_t c, bool batch_statistics, double count,
                        const float* grad, const float* x, const float* weight, float center,
                        double invstd, const double (&sums)[2], float* grad_x) {
  const float scale = static_cast<float>(weight != nullptr ? weight[c] * invstd : invstd);
  const float grad_mean = static_cast<float>(sums[0] / count);
  const float slope = static_cast<float>(sums[1] * invstd * invstd / count);
  for_each_plane(shape, c, [=](int64_t plane) {
    if (batch_statistics) {
      map(shape.spatial, grad + plane, x + plane, grad_x + plane,
          [=](Vec g, Vec v) { return (g - grad_mean - (v - center) * slope) * scale; });
    } else {
      map(shape.spatial, grad + plane, grad_x + plane, [=](Vec g) { return g * scale; });
    }
  });
}

template <bool kBounds>
void channel_backward(const BatchNorm& shape, int64_t c, bool batch_statistics, const float* grad_y,
                      const float* y, const float* x, const float* weight, const float* mean,
                      const float* var, float* grad_x, float* grad_weight, float* grad_bias) {
  const double count = static_cast<double>(shape.n * shape.spatial);
  const float center = mean[c];
  const double invstd = inverse_std(var[c], shape.eps);
  double sums[2] = {};  // of the gradient, and of it times x - mean
  channel_sums<2>(
      shape, c,
      [=](int64_t plane, auto at, auto& terms) {
        terms[0] = at(grad_y + plane);
        if constexpr (kBounds) {
          terms[0] = passed(shape, terms[0], at(y + plane));
          if (grad_x != nullptr) at.set(grad_x + plane, terms[0]);
        }
        terms[1] = terms[0] * (at(x + plane) - center);
      },
      sums);
  if (grad_weight != nullptr) grad_weight[c] = static_cast<float>(sums[1] * invstd);
  if (grad_bias != nullptr) grad_bias[c] = static_cast<float>(sums[0]);
  if (grad_x == nullptr) return;

  const float* grad = kBounds ? grad_x : grad_y;  // the first pass has left it there
  channel_input_grad(shape, c, batch_statistics, count, grad, x, weight, center, invstd, sums,
                     grad_x);
}

}  // namespace

void batch_norm_train(const BatchNorm& shape, const float* x, const float* weight,
                      const float* bias, const float* running_mean, const float* running_var,
                      float momentum, float* y, float* mean, float* var, float* new_running_mean,
                      float* new_running_var) {
  const double count = static_cast<double>(shape.n * shape.spatial);
  const double kept = 1.0 - static_cast<double>(momentum);
  for_each_channel(shape, [&](int64_t c) {
    const Moments moments = channel_moments(shape, c, x);
    const double center = moments.mean, squares = moments.squares;
    const double unbiased = squares / (count - 1);  // NaN for a single value, as in PyTorch
    normalize(shape, c, x, weight, bias, center, squares / count, y);
    mean[c] = static_cast<float>(center);
    var[c] = static_cast<float>(squares / count);
    new_running_mean[c] = static_cast<float>(
        running_mean != nullptr ? kept * running_mean[c] + momentum * center : center);
    new_running_var[c] = static_cast<float>(
        running_var != nullptr ? kept * running_var[c] + momentum * unbiased : unbiased);
  });
}

void batch_norm_eval(const BatchNorm& shape, const float* x, const float* weight, const float* bias,
                     const float* mean, const float* var, float* y) {
  for_each_channel(shape,
                   [&](int64_t c) { normalize(shape, c, x, weight, bias, mean[c], var[c], y); });
}

void batch_norm_backward(const BatchNorm& shape, bool batch_statistics, const float* grad_y,
                         const float* y, const float* x, const float* weight, const float* mean,
                         const float* var, float* grad_x, float* grad_weight, float* grad_bias) {
  const bool has_bounds = !std::isnan(shape.low) || !std::isnan(shape.high);
  for_each_channel(shape, [&](int64_t c) {
    const auto run = has_bounds ? channel_backward<true> : channel_backward<false>;
    run(shape, c, batch_statistics, grad_y, y, x, weight, mean, var, grad_x, grad_weight,
        grad_bias);
  });
}

void batch_norm_backward_sums(const BatchNorm& shape, const float* grad_y, const float* x,
                              const float* mean, double* sums) {
  for_each_channel(shape, [&](int64_t c) {
    const float center = mean[c];
    double part[2] = {};
    channel_sums<2>(
        shape, c,
        [=](int64_t plane, auto at, auto& terms) {
          terms[0] = at(grad_y + plane);
          terms[1] = terms[0] * (at(x + plane) - center);
        },
        part);
    sums[c] += part[0];
    sums[shape.c + c] += part[1];
  });
}

void batch_norm_backward_part(const BatchNorm& shape, bool batch_statistics, int64_t count,
                              const float* grad_y, const float* x, const float* weight,
                              const float* mean, const float* var, const double* sums,
                              float* grad_x) {
  for_each_channel(shape, [&](int64_t c) {
    channel_input_grad(shape, c, batch_statistics, static_cast<double>(count), grad_y, x, weight,
                       mean[c], inverse_std(var[c], shape.eps), {sums[c], sums[shape.c + c]},
                       grad_x);
  });
}

}  // namespace daf::DAF_ISA
