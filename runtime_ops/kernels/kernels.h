// Vocabulary of the DAF kernels: plain C++17 on raw pointers, no framework.
//
// Every tensor is contiguous float32 in PyTorch's default layout (NCHW, row-major) unless a
// comment says otherwise. Outputs never alias inputs unless a comment says so. NaN and inf
// propagate as in PyTorch. Sums that PyTorch rounds in float are accumulated at least as
// precisely here, in an order that does not depend on anything but the shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace daf {

// ---- how the kernels run ----------------------------------------------------------------

// Every kernel exists once per instruction set. The best one this processor has is chosen at first
// use, or the one that the environment variable DAF_ISA names; a name that is unknown or not
// available throws std::invalid_argument, from select_isa as from the first use.
std::vector<std::string> available_isas();  // best first
std::string current_isa();
void select_isa(const std::string& name);

// Threads that kernels run on, the caller's included: DAF_THREADS, otherwise one per processor.
// Anything but a number in [1, 256] throws std::invalid_argument. No result depends on it.
int n_threads();
void set_threads(int n);

// Temporary memory for one kernel call. The host of the kernels (the session, a test) owns
// and accounts for the bytes; a kernel takes what it needs and never frees.
class Scratch {
 public:
  virtual ~Scratch() = default;
  // 64-byte aligned, never null: throws std::bad_alloc when the host has no more.
  virtual void* allocate(size_t size_bytes) = 0;
  template <class T>
  T* take(size_t n_elements) {
    return static_cast<T*>(allocate(n_elements * sizeof(T)));
  }
};

// The most a kernel takes from Scratch with the threads there are now.
size_t max_scratch_bytes();

// ---- matrix products --------------------------------------------------------------------

// A missing bound: nothing is below or above it.
inline constexpr float kNoBound = std::numeric_limits<float>::quiet_NaN();

// c[m,n] = alpha op(a)[m,k] op(b)[k,n] + bias[n] + addend[m,n], clamped to [low, high]; op
// transposes where the flag says so. `lda`, `ldb` and `ldc` are row strides of the matrices as they
// lie in memory.
struct Gemm {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t lda, ldb, ldc;
};
struct GemmTerms {
  float alpha = 1.0f;
  const float* bias = nullptr;    // or null
  const float* addend = nullptr;  // lies as c does, may be c, or null
  float low = kNoBound, high = kNoBound;
};
void gemm(const Gemm& shape, const float* a, const float* b, const GemmTerms& terms, float* c,
          Scratch& scratch);

// outer * inner products, c = alpha op(a) op(b) each. Number (i, j) begins at
// a + i * a_step[0] + j * a_step[1], b and c likewise: heads of an attention are read and written
// where they lie.
struct GemmBatch {
  Gemm product;
  int64_t outer, inner;
  int64_t a_step[2], b_step[2], c_step[2];
};
void batch_gemm(const GemmBatch& shape, const float* a, const float* b, float alpha, float* c,
                Scratch& scratch);

// ---- convolution ------------------------------------------------------------------------

// x[n, c_in, h, w], weight[c_out, c_in / groups, kh, kw], y[n, c_out, out_h, out_w].
struct Conv2d {
  int64_t n, c_in, h, w;
  int64_t c_out, kh, kw;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t groups;
  int64_t out_h, out_w;  // given, not derived: a transposed convolution may leave a remainder
};
void conv2d(const Conv2d& shape, const float* x, const float* weight, const float* bias, float* y,
            Scratch& scratch);
// Also the forward of a transposed convolution: then grad_y is its input, and `bias`
// (otherwise null) has c_in entries.
void conv2d_input_grad(const Conv2d& shape, const float* grad_y, const float* weight,
                       const float* bias, float* grad_x, Scratch& scratch);
// With `accumulate` it is added to grad_weight.
void conv2d_weight_grad(const Conv2d& shape, const float* grad_y, const float* x, bool accumulate,
                        float* grad_weight, Scratch& scratch);

// ---- normalisation ----------------------------------------------------------------------

// In all three, a null grad_x, grad_weight or grad_bias is not computed.

// x[n, c, spatial], n * spatial >= 1; weight and bias have c entries or are null. `var` is the
// biased variance. running_* may be null (then new_running_* are set to the batch's mean and
// unbiased variance), and new_running_* may be running_*. The unbiased variance of a single
// value is NaN, as in PyTorch.
//
// y is then clamped to [low, high], which makes ReLU and ReLU6 part of it. y may be x, and grad_x
// may be grad_y.
struct BatchNorm {
  int64_t n, c, spatial;
  float eps;
  float low = kNoBound, high = kNoBound;
};
void batch_norm_train(const BatchNorm& shape, const float* x, const float* weight,
                      const float* bias, const float* running_mean, const float* running_var,
                      float momentum, float* y, float* mean, float* var, float* new_running_mean,
                      float* new_running_var);
void batch_norm_eval(const BatchNorm& shape, const float* x, const float* weight, const float* bias,
                     const float* mean, const float* var, float* y);
// `batch_statistics`: mean and var came from x (training); otherwise they are constants. Where
// there are bounds, y tells which elements they stopped; otherwise it may be null.
void batch_norm_backward(const BatchNorm& shape, bool batch_statistics, const float* grad_y,
                         const float* y, const float* x, const float* weight, const float* mean,
                         const float* var, float* grad_x, float* grad_weight, float* grad_bias);

// The same in two passes, for an x that is there only in parts (of the batch): first the sums of
// grad_y and of grad_y * (x - mean), added to sums[2][c] part by part; then, for each part again,
// grad_x. `count` is n * spatial of the whole.
void batch_norm_backward_sums(const BatchNorm& shape, const float* grad_y, const float* x,
                              const float* mean, double* sums);
void batch_norm_backward_part(const BatchNorm& shape, bool batch_statistics, int64_t count,
                              const float* grad_y, const float* x, const float* weight,
                              const float* mean, const float* var, const double* sums,
                              float* grad_x);

// x[rows, n]; weight and bias have n entries or are null; mean and rstd have `rows`.
struct LayerNorm {
  int64_t rows, n;
  float eps;
};
void layer_norm(const LayerNorm& shape, const float* x, const float* weight, const float* bias,
                float* y, float* mean, float* rstd);
void layer_norm_backward(const LayerNorm& shape, const float* grad_y, const float* x,
                         const float* weight, const float* mean, const float* rstd, float* grad_x,
                         float* grad_weight, float* grad_bias);

// x[n, c, spatial] in `groups` of channels; mean and rstd have n * groups entries.
struct GroupNorm {
  int64_t n, c, spatial, groups;
  float eps;
};
void group_norm(const GroupNorm& shape, const float* x, const float* weight, const float* bias,
                float* y, float* mean, float* rstd);
void group_norm_backward(const GroupNorm& shape, const float* grad_y, const float* x,
                         const float* weight, const float* mean, const float* rstd, float* grad_x,
                         float* grad_weight, float* grad_bias);

// ---- arithmetic and copies --------------------------------------------------------------

// y[i] = a[i] op b[i] over n_dims <= 16 axes; strides are in elements, those of y are contiguous.
// The last axis of a and b has stride 1, or 0 where all elements are the same one. y may be one of
// them, if that has as many elements.
enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide };
void arithmetic(Arithmetic kind, int n_dims, const int64_t* sizes, const int64_t* a_strides,
                const int64_t* b_strides, const float* a, const float* b, float* y);
// y[i] = a[i] + b[i], clamped to [low, high]: a residual sum with its ReLU. y may be a or b.
void add_clamped(int64_t n, float low, float high, const float* a, const float* b, float* y);
// y[i] = x[i], x with any strides.
void strided_copy(int n_dims, const int64_t* sizes, const int64_t* x_strides, const float* x,
                  float* y);

// ---- activations and softmax ------------------------------------------------------------

enum class Activation {
  kRelu,       // backward reads y
  kHardtanh,   // clamp to [a, b]; backward reads x or y, which say the same
  kLeakyRelu,  // slope a; backward reads x
  kElu,        // alpha a (scale and input scale 1); backward reads x
  kSigmoid,    // backward reads y
  kTanh,       // backward reads y
  kSilu,       // backward reads x
  kHardswish,  // backward reads x
  kGelu,       // the erf form; backward reads x
  kGeluTanh,   // the tanh form; backward reads x
  kExp,        // backward reads y
};
// y may be x.
void activation(Activation kind, float a, float b, int64_t n, const float* x, float* y);
// `saved` is x or y as the enum says; grad_x may be grad_y.
void activation_backward(Activation kind, float a, float b, int64_t n, const float* grad_y,
                         const float* saved, float* grad_x);
// What the backward multiplies the gradient by.
void activation_derivative(Activation kind, float a, float b, int64_t n, const float* saved,
                           float* y);

// Also sets bit i % 32 of mask[i / 32] where the gradient passes element i as it is; for kRelu,
// kHardtanh and kLeakyRelu. y may be x.
void activation_with_mask(Activation kind, float a, float b, int64_t n, const float* x, float* y,
                          uint32_t* mask);
// y[i] = x[i] where bit first + i of the mask is set, slope * x[i] (0 for slope 0) elsewhere. y may
// be x.
void apply_mask(int64_t n, const uint32_t* mask, int64_t first, float slope, const float* x,
                float* y);

// y += x
void add_to(int64_t n, const float* x, float* y);

// Over the middle axis of x[outer, n, inner]; the logarithm of it where `log`.
struct Softmax {
  int64_t outer, n, inner;
  bool log;
  // softmax_backward reads probabilities that were rounded (never logarithms). They do not add up
  // to 1, so it divides their sum out: otherwise what all of a row's gradients have in common,
  // which has no effect, would come through as noise.
  bool keeps_probabilities = false;
};
void softmax(const Softmax& shape, const float* x, float* y);
// grad_x may be grad_y.
void softmax_backward(const Softmax& shape, const float* grad_y, const float* y, float* grad_x);

// Over the last axis of x + mask. n_dims is 1 to 16; the strides are those of the mask, 0 where it
// is repeated, and 1 or 0 for the last axis. y may be x.
void masked_softmax(int n_dims, const int64_t* sizes, const int64_t* mask_strides, const float* x,
                    const float* mask, float* y);

// ---- losses -----------------------------------------------------------------------------

// log_p[n, c, spatial], target[n, spatial]. A target outside [0, c) that is not ignore_index
// makes nll_loss return false (and leaves the outputs unspecified).
enum class Reduction { kNone = 0, kMean = 1, kSum = 2 };
struct NllLoss {
  int64_t n, c, spatial;
  int64_t ignore_index;
  Reduction reduction;
};
// `loss` has n * spatial entries for kNone, otherwise 1; `weight` (c entries) may be null.
bool nll_loss(const NllLoss& shape, const float* log_p, const int64_t* target, const float* weight,
              float* loss, float* total_weight);
void nll_loss_backward(const NllLoss& shape, const float* grad_loss, const int64_t* target,
                       const float* weight, const float* total_weight, float* grad_log_p);

// nll_loss of the log-probabilities of logits x[n, c], and its gradient, both at once: so neither
// the log-probabilities nor the logits are needed any more. spatial is 1, the reduction is not
// kNone. grad_x may be x. Returns false as nll_loss does.
bool cross_entropy(const NllLoss& shape, const float* x, const int64_t* target, const float* weight,
                   float* loss, float* grad_x);

// ---- pooling ----------------------------------------------------------------------------

// Maps are [planes, h, w] -> [planes, out_h, out_w].
struct Pool2d {
  int64_t planes, h, w;
  int64_t kh, kw, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t out_h, out_w;
};
// `offset` is the place of the maximum in its window, row-major: Index is uint8_t where
// kh * kw <= 256, otherwise int32_t.
template <class Index>
void max_pool2d(const Pool2d& shape, const float* x, float* y, Index* offset);
template <class Index>
void max_pool2d_backward(const Pool2d& shape, const float* grad_y, const Index* offset,
                         float* grad_x);
// divisor_override 0: none.
void avg_pool2d(const Pool2d& shape, bool count_include_pad, int64_t divisor_override,
                const float* x, float* y);
void avg_pool2d_backward(const Pool2d& shape, bool count_include_pad, int64_t divisor_override,
                         const float* grad_y, float* grad_x);
void adaptive_avg_pool2d(int64_t planes, int64_t h, int64_t w, int64_t out_h, int64_t out_w,
                         const float* x, float* y);
void adaptive_avg_pool2d_backward(int64_t planes, int64_t h, int64_t w, int64_t out_h,
                                  int64_t out_w, const float* grad_y, float* grad_x);

// ---- embedding, dropout, sums -----------------------------------------------------------

// False when an index is outside [0, n_rows).
bool embedding(int64_t n_rows, int64_t dim, int64_t n_indices, const float* weight,
               const int64_t* index, float* y);
// grad_weight[n_rows, dim] is cleared first; rows equal to padding_idx get nothing.
bool embedding_backward(int64_t n_rows, int64_t dim, int64_t n_indices, int64_t padding_idx,
                        const float* grad_y, const int64_t* index, float* grad_weight);

// y = x * keep / (1 - p), keep drawn from (seed, step, layer, element index) alone, so that
// forward and backward make the same mask and nothing is stored. p = 1 gives zeros. y may be x.
// x[0] is the element with the index `first`.
struct Dropout {
  float p;
  uint64_t seed, step;
  uint32_t layer;
};
void dropout(const Dropout& rng, int64_t first, int64_t n, const float* x, float* y);

// Sum of x over the axes whose bit in `axis_mask` is set; y has the other axes in their order.
// `scale` multiplies the result (a mean). n_dims <= 16.
void sum_axes(int n_dims, const int64_t* sizes, uint32_t axis_mask, float scale, const float* x,
              float* y);

// ---- activations in few bits ------------------------------------------------------------

// Smallest and largest value, in a domain where all bit patterns have an order: key(x) is the bits
// of x with the sign inverted, or all of them when it was set. -NaN < -inf < -0.0 < 0.0 < inf <
// NaN, and integers compare the same on every processor, where floats with NaN and -0.0 do not.
// Both members are maxima, so that zeros are the range of nothing.
struct OrderedRange {
  uint32_t not_minimum;  // ~key(smallest)
  uint32_t maximum;      // key(largest)
};
// One for each group of `group_size` values; the last may be shorter.
void ordered_ranges(int64_t n, int64_t group_size, const float* x, OrderedRange* ranges);

// Bit-planes: n values are ceil(n / 256) groups. A group has a header and `bits` planes of 256
// bits, the most significant first; bit i % 32 of word i / 32 of a plane belongs to value i of the
// group.
//
//   header   bits 0-15   minimum, bfloat16, rounded down
//            bits 16-31  scale, bfloat16, rounded up: the step between two codes
//   value    minimum + scale * t, with t near (code that the planes say)
//
// Rounded outwards, a header encloses all values, so no code is clamped and rounding stays
// unbiased. The price is a step that is up to 1/128 wider, and a range wider by up to |minimum| /
// 128: little, unless the values of a group differ by less than that.
//
// Codes are rounded with noise: code = floor(t + u), with t = (x - minimum) / scale to the nearest
// of 8 fractional bits and u of 0, 1/256, ..., 255/256 from (seed, step, tensor, element index)
// alone. The forms that a tensor can have (PlaneForm) are all right on average:
//
//   plain      t = code: stochastic rounding. With f the fraction of t, the error has a variance of
//              f (1 - f): 1/6 on average, but nothing for values that are codes, such as zeros.
//   dithered   t = code - u + 255/512: the noise is taken off again. The error is spread evenly
//              over one step whatever t was: a variance of 1/12.
//   rotated    dithered, of the group as a vector turned by a fixed rotation: single values that
//              are far from all others no longer make the steps of a group wide.
//   roots      dithered, of the square roots of probabilities: their squares, less the variance of
//              their errors. Where most are near 0, so are then the errors.
//
// Within a group u goes through 0, k/256, 2k/256, ... (mod 1), from a place that is random, with
// one of eight k at random: each of the 256 numbers comes once, and neighbours have very different
// ones, so that the errors of what is alike and lies together mostly cancel in a sum. (The squared
// error of ResNet-18's gradients at 2 bits: plain 0.27, dithered with independent noise 0.13, like
// this 0.09; at 1 bit 8.3, 1.6 and 0.9.)
//
// All instruction sets and any number of threads give the same bits. Every prefix of the planes is
// an encoding too: the planes that are missing read as the middle of what they could have said, and
// without any of them there is no noise to take off.
//
// A group that no header can describe (a value is not finite, or the range overflows) is marked in
// bit 31 of its header. Its planes are zero, its values are the caller's to keep.
inline constexpr int64_t kPlaneGroup = 256;      // values
inline constexpr int64_t kPlaneGroupBytes = 32;  // of one group in one plane
inline constexpr int kMaxPlanes = 8;
inline constexpr uint32_t kExactGroup = 0x80000000;
inline constexpr uint32_t kNoiseSteps[] = {75, 97, 101, 107, 149, 155, 159, 181};

struct StochasticRounding {
  uint64_t seed, step;
  uint32_t tensor;
};
// What the noise of all its groups comes from.
uint32_t noise_key(const StochasticRounding& rounding);

enum class PlaneForm { kPlain, kDithered, kRotated, kRoots };
struct Coding {
  uint32_t key = 0;          // noise_key()
  uint32_t first_group = 0;  // of the tensor, that the planes begin with
  PlaneForm form = PlaneForm::kDithered;
};
struct BitPlanes {
  int bits;                     // planes that were made: `scale` belongs to so many
  uint32_t* headers;            // one per group
  uint32_t* plane[kMaxPlanes];  // eight words per group
  Coding coding;
};
// Which of the first three has the smallest error, from a sample of x.
PlaneForm bitplane_choose_form(int bits, int64_t n, const float* x);
// x[0] is the first value of the first group. Returns how many groups were marked. `around_caches`:
// x is part of something larger than them, so what is written need not be there.
int64_t bitplane_encode(int64_t n, const float* x, bool around_caches, const BitPlanes& to);
// The same with the ranges of the groups given, as ordered_ranges() finds them: the same bits. Only
// plain and dithered forms have use for them.
int64_t bitplane_encode_ranges(int64_t n, const float* x, const OrderedRange* ranges,
                               bool around_caches, const BitPlanes& to);
// For a device that packs by itself: what scalar/plane_group.h calls minimum and inverse of a
// group, and of its noise: value i has (start + i) * step mod 256. `inverse` is negative when the
// group is marked.
struct GroupCode {
  float minimum, inverse;
  uint32_t noise_start, noise_step;
};
// Headers and codes of groups with these ranges. Returns how many were marked.
int64_t bitplane_headers(const Coding& coding, int64_t n_groups, int bits,
                         const OrderedRange* ranges, uint32_t* headers, GroupCode* codes);
// y[0, n) from value `first` of the group that `from` starts with, by the first `n_planes` planes.
// What belongs to a marked group is not written. `around_caches` as above, for y.
void bitplane_decode(const BitPlanes& from, int n_planes, int64_t first, int64_t n,
                     bool around_caches, float* y);

// DIVISION (Wang et al., ICML 2023): a map is stored as the averages over its blocks, in bfloat16,
// and bit-planes of what is left when these are taken off again. The planes are those of groups of
// 256 values, as above, but read plainly, with noise that is independent from value to value, and
// minimum and scale belong to a map: its header is like that of a group. Maps need not begin where
// groups do.
//
//   value   average + (minimum + scale * code)
//
// At most 256 values that lie together, of one map and one row of averages.
struct MapSegment {
  int64_t count;
  uint32_t header;          // of the map
  const uint16_t* average;  // bfloat16, of the first value
  // Of each value, how many there are from it on, itself included, with the same average; the next
  // one has the next average. Where it is null, each has the next, or all have the first.
  const int32_t* n_alike;
  bool is_one_average;
};
struct MapRange {
  float minimum = std::numeric_limits<float>::infinity();
  float maximum = -std::numeric_limits<float>::infinity();
  bool is_finite = true;
};
// The averages of `n` blocks beside each other; `stride` is between the rows of x.
inline constexpr int64_t kMaxMapBlock = 64;
void division_averages(int64_t n, int64_t block_height, int64_t block_width, int64_t stride,
                       const float* x, uint16_t* averages);
// Widens the range by what the averages leave of x; headers are not read.
void division_range(int64_t n_segments, const MapSegment* segments, const float* x,
                    MapRange* range);
// Rounded outwards as those of groups; marked when no header can describe the range.
uint32_t division_header(const MapRange& range, int bits);
// Segments of at most 256 values, which begin with the first of a group, whose planes `to` has.
// Values of marked maps have code 0.
void division_encode(int64_t n_segments, const MapSegment* segments, const float* x,
                     const BitPlanes& to);
// The same segments, or some of them: the first value is `first` of the group. What belongs to a
// marked map is not written.
void division_decode(const BitPlanes& from, int n_planes, int64_t first, int64_t n_segments,
                     const MapSegment* segments, float* y);

// To the nearest bfloat16, ties to even; NaN stays NaN.
void to_bfloat16(int64_t n, const float* x, uint16_t* y);
void from_bfloat16(int64_t n, const uint16_t* x, float* y);

// ---- optimizers, one pass over memory ---------------------------------------------------

// torch.optim.SGD. `momentum_buffer` is null where momentum is 0. On step 0 the buffer is
// set to the gradient, as PyTorch does.
struct Sgd {
  float lr, momentum, dampening, weight_decay;
  bool nesterov;
  int64_t step;  // steps taken before this one
};
void sgd(const Sgd& options, int64_t n, const float* grad, float* weight, float* momentum_buffer);

// torch.optim.AdamW.
struct AdamW {
  float lr;
  double beta1, beta2;
  float eps, weight_decay;
  int64_t step;  // steps taken before this one
};
void adamw(const AdamW& options, int64_t n, const float* grad, float* weight, float* exp_avg,
           float* exp_avg_sq);

}  // namespace daf
