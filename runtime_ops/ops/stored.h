// A saved value that backward reads a few samples at a time, by its recipe (exporter/recipe.py).
#pragma once

#include <algorithm>
#include <string_view>

#include "runtime_ops/ops/arguments.h"
#include "runtime_ops/ops/current_store.h"

namespace daf::ops {

// Lends the same memory to each of several kernel calls: ExecuTorch takes it back only when the
// operator returns.
class ReusedScratch final : public Scratch {
 public:
  explicit ReusedScratch(Scratch& source) : source_(source) {}

  void* allocate(size_t size_bytes) override;
  void reuse() { n_lent_ = 0; }

 private:
  struct Block {
    void* memory;
    size_t size_bytes;
  };
  static constexpr size_t kMaxBlocks = 16;  // of one kernel call
  Scratch& source_;
  std::array<Block, kMaxBlocks> blocks_{};
  size_t n_blocks_ = 0, n_lent_ = 0;
};

double square_norm(const float* x, int64_t n);
template <class T>
double square_norm(const Array<T>& x) {
  return square_norm(x.data, x.n_elements());
}
// error / value. What is zero, as the first gradients of LoRA are, cannot be relatively wrong.
inline double relative(double error, double value) { return value > 0 ? error / value : 0; }

class StoredValue {
 public:
  // Takes source, recipe and shape, and checks them against the store.
  explicit StoredValue(Arguments& args);
  StoredValue(const StoredValue&) = delete;
  StoredValue& operator=(const StoredValue&) = delete;

  const Shape& shape() const { return shape_; }
  int64_t n_samples() const { return shape_[0]; }
  int64_t sample_elements() const { return sample_elements_; }

  // body(first, count, values) for chunks of samples that together are all of them, in order.
  // `values` may be overwritten.
  template <class Body>
  void for_each_chunk(Body body) {
    for (int64_t first = 0; first < n_samples(); first += chunk_samples_) {
      const int64_t count = std::min(chunk_samples_, n_samples() - first);
      body(first, count, read(first, count));
    }
  }

  // Chunks of so many samples or more; before the first one.
  void read_at_least(int64_t n) { chunk_samples_ = std::clamp(n, chunk_samples_, n_samples()); }
  void read_whole(float* out);
  // In a step that measures importance: relative_error() is the square of the relative error of
  // what the operator computes, for values that are off by 1 on average (the root of the mean
  // square). It is added to each stored tensor of the recipe by how wide its groups are, as in
  // ActNN. Before release().
  template <class RelativeError>
  void weigh(RelativeError relative_error) {
    if (current_importance() != nullptr) add_importance(relative_error());
  }
  // Frees what the recipe reads for the last time. Not called when an operator fails: then the
  // session frees everything.
  void release();

 private:
  struct Step {
    enum class Kind { kPlanes, kValue, kNormalize, kAdd, kMask, kDropout } kind;
    int entry = 0;            // kPlanes
    bool last = false;        // kPlanes
    float constant = 0;       // eps, slope, p
    uint32_t layer = 0;       // kDropout
    const void* tensor[4]{};  // in the order of the recipe's language; null where absent
  };
  static constexpr int kMaxSteps = 16;

  void add_importance(double relative_error) const;
  double gain(const Step& step) const;
  void take_memory();
  float* read(int64_t first, int64_t count);
  void read_to(int64_t first, int64_t count, float* out);
  void run(const Step& step, int64_t first, int64_t count, int& top, float* const* values);
  void parse(Arguments& args, std::string_view recipe);

  Arguments& args_;
  executorch::aten::ArrayRef<executorch::aten::Tensor> source_;
  Shape shape_;
  int64_t sample_elements_ = 0, channels_ = 1, spatial_ = 1, chunk_samples_ = 1;
  std::array<Step, kMaxSteps> steps_{};
  int n_steps_ = 0, depth_ = 0;
  float* memory_ = nullptr;
};

}  // namespace daf::ops
