#include "runtime_ops/session/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime_ops/kernels/philox.h"
#include "runtime_ops/session/error.h"

namespace daf {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw DafError(Exit::kData, "cannot train on " + path + ": " + reason);
}

SafetensorsFile open_data(const std::string& path) {
  try {
    return SafetensorsFile(path);
  } catch (const FormatError& error) {
    fail(path, std::string(error.what()) + "; give a safetensors file with --data");
  }
}

Shape sample_shape(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

// "float32[3, 32, 32]", for one sample.
std::string sample_type(const TensorSpec& spec) {
  return numpy_name(spec.dtype) + format_shape(sample_shape(spec.shape));
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<int64_t> epoch_order(uint64_t seed, uint64_t epoch, int64_t n_samples) {
  std::vector<int64_t> order(static_cast<size_t>(n_samples));
  std::iota(order.begin(), order.end(), 0);
  const Philox random(seed, kDataOrderStream | epoch);
  std::array<uint32_t, 4> words = {};
  uint64_t draw = 0;
  for (uint64_t i = order.size(); i-- > 1; ++draw) {
    if (draw % 4 == 0) words = random(draw / 4);
    std::swap(order[i], order[(words[draw % 4] * (i + 1)) >> 32]);
  }
  return order;
}

Dataset::Dataset(const std::string& path, const Manifest& manifest, uint64_t seed, bool shuffle)
    : path_(path),
      file_(open_data(path)),
      batch_size_(manifest.batch_size),
      dynamic_batch_(manifest.dynamic_batch),
      seed_(seed),
      shuffle_(shuffle) {
  check_inputs(manifest);
  const int64_t least = dynamic_batch_ ? 1 : batch_size_;
  if (n_samples_ < least) {
    fail(path_, "it has " + std::to_string(n_samples_) + " samples, a batch needs " +
                    std::to_string(least) + "; add samples or export with a smaller batch");
  }
  if (n_samples_ > int64_t{UINT32_MAX}) fail(path_, "it has too many samples; split it");
  for (const TensorSpec& spec : manifest.train_step.inputs) {
    const size_t sample_bytes = static_cast<size_t>(spec.size_bytes() / batch_size_);
    const size_t n_words = (static_cast<size_t>(spec.size_bytes()) + 7) / 8;
    inputs_.push_back({file_.find(spec.name), sample_bytes, std::vector<uint64_t>(n_words)});
    views_.push_back({spec, inputs_.back().buffer.data()});
  }
}

void Dataset::check_inputs(const Manifest& manifest) {
  std::vector<std::string> expected, missing, extra;
  std::set<std::string> known;
  for (const TensorSpec& spec : manifest.train_step.inputs) {
    expected.push_back(spec.name);
    known.insert(spec.name);
    if (file_.find(spec.name) == nullptr) missing.push_back(spec.name);
  }
  for (const SafetensorsEntry& entry : file_.entries()) {
    if (known.count(entry.spec.name) == 0) extra.push_back(entry.spec.name);
  }
  if (!missing.empty() || !extra.empty()) {
    fail(path_, "the program expects the tensors " + join(expected) +
                    (missing.empty() ? "" : "; missing in the file: " + join(missing)) +
                    (extra.empty() ? "" : "; not expected: " + join(extra)) +
                    "; rename or remove tensors in the file");
  }
  bool is_first = true;
  for (const TensorSpec& spec : manifest.train_step.inputs) {
    const TensorSpec& found = file_.find(spec.name)->spec;
    if (found.dtype != spec.dtype) {
      fail(path_, "'" + spec.name + "' must be " + numpy_name(spec.dtype) + ", found " +
                      numpy_name(found.dtype) + "; convert it");
    }
    if (found.shape.empty() || sample_shape(found.shape) != sample_shape(spec.shape)) {
      fail(path_, "a sample of '" + spec.name + "' must be " + sample_type(spec) + ", found " +
                      (found.shape.empty() ? "a scalar" : sample_type(found)) +
                      "; axis 0 of the tensor must be the samples");
    }
    if (!is_first && found.shape[0] != n_samples_) {
      fail(path_, "'" + spec.name + "' has " + std::to_string(found.shape[0]) +
                      " samples, the other tensors have " + std::to_string(n_samples_) +
                      "; axis 0 must be the same for all");
    }
    n_samples_ = found.shape[0];
    is_first = false;
  }
}

int64_t Dataset::batches_per_epoch() const {
  return dynamic_batch_ ? (n_samples_ + batch_size_ - 1) / batch_size_ : n_samples_ / batch_size_;
}

const std::vector<ConstTensorView>& Dataset::batch(int64_t steps_taken) {
  const int64_t epoch = steps_taken / batches_per_epoch();
  const int64_t begin = steps_taken % batches_per_epoch() * batch_size_;
  const int64_t n = std::min(batch_size_, n_samples_ - begin);
  if (shuffle_ && epoch != epoch_) {
    order_ = epoch_order(seed_, static_cast<uint64_t>(epoch), n_samples_);
    epoch_ = epoch;
  }
  try {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      auto* target = reinterpret_cast<uint8_t*>(input.buffer.data());
      views_[i].spec.shape[0] = n;
      if (!shuffle_) {
        file_.read(*input.entry, static_cast<uint64_t>(begin) * input.sample_bytes, target,
                   static_cast<size_t>(n) * input.sample_bytes);
        continue;
      }
      for (int64_t k = 0; k < n; ++k, target += input.sample_bytes) {
        const auto sample = static_cast<uint64_t>(order_[static_cast<size_t>(begin + k)]);
        file_.read(*input.entry, sample * input.sample_bytes, target, input.sample_bytes);
      }
    }
  } catch (const FormatError& error) {
    fail(path_, std::string(error.what()) + "; do not change it while training runs");
  }
  return views_;
}

}  // namespace daf
