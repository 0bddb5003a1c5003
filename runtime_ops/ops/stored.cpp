#include "runtime_ops/ops/stored.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "runtime_ops/ops/clock.h"

namespace daf::ops {
namespace {

// What a reader holds of each tensor at a time (or one sample, if that is more): it stays in the
// cache. As CHUNK_BYTES in exporter/compress_activations.py.
constexpr int64_t kChunkBytes = 1 << 19;

std::string_view next_part(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

void* ReusedScratch::allocate(size_t size_bytes) {
  if (n_lent_ == kMaxBlocks) throw std::bad_alloc();
  Block& block = blocks_[n_lent_++];
  if (n_lent_ > n_blocks_ || block.size_bytes < size_bytes) {
    block = {source_.allocate(size_bytes), size_bytes};
    n_blocks_ = std::max(n_blocks_, n_lent_);
  }
  return block.memory;
}

StoredValue::StoredValue(Arguments& args) : args_(args) {
  source_ = args.tensors("source");
  const std::string_view recipe = args.text("recipe");
  for (const int64_t size : args.integers("shape")) shape_.append(size);
  args.require(shape_.rank() >= 1 && shape_.n_elements() > 0, "a stored value has shape ", shape_);
  sample_elements_ = shape_.product(1, shape_.rank());
  if (shape_.rank() >= 2) channels_ = shape_[1];
  if (shape_.rank() >= 2) spatial_ = shape_.product(2, shape_.rank());
  const int64_t sample_bytes = sample_elements_ * static_cast<int64_t>(sizeof(float));
  chunk_samples_ = std::clamp<int64_t>(kChunkBytes / sample_bytes, 1, shape_[0]);
  parse(args, recipe);
}

double square_norm(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void StoredValue::add_importance(double relative_error) const {
  struct Term {
    int entry, place;  // place: on the stack
    double gain;
  };
  std::array<Term, kMaxSteps> terms{};
  int n_terms = 0, top = -1;
  for (int i = 0; i < n_steps_; ++i) {
    const Step& step = steps_[i];
    if (step.kind == Step::Kind::kPlanes) {
      terms[n_terms++] = {step.entry, ++top, 1.0};
    } else if (step.kind == Step::Kind::kValue) {
      ++top;
    } else {
      if (step.kind == Step::Kind::kAdd) --top;
      for (int t = 0; t < n_terms; ++t) {
        if (terms[t].place < top) continue;
        terms[t].place = top;
        if (step.kind != Step::Kind::kAdd) terms[t].gain *= gain(step);
      }
    }
  }
  for (int t = 0; t < n_terms; ++t) {
    const double range = current_store()->mean_square_range(terms[t].entry);
    (*current_importance())[terms[t].entry] += relative_error * terms[t].gain * range;
  }
}

// How much of the square of an error passes.
double StoredValue::gain(const Step& step) const {
  if (step.kind == Step::Kind::kDropout) return step.constant < 1 ? 1 / (1 - step.constant) : 0;
  if (step.kind == Step::Kind::kMask) {
    const auto* words = static_cast<const uint32_t*>(step.tensor[0]);
    int64_t n_set = 0;
    for (int64_t i = 0; i < (shape_.n_elements() + 31) / 32; ++i) {
      n_set += __builtin_popcount(words[i]);
    }
    const double part = static_cast<double>(n_set) / static_cast<double>(shape_.n_elements());
    return part + (1 - part) * step.constant * step.constant;
  }
  const auto* var = static_cast<const float*>(step.tensor[1]);
  const auto* weight = static_cast<const float*>(step.tensor[2]);
  double sum = 0;
  for (int64_t c = 0; c < channels_; ++c) {
    const double scale = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
    sum += scale * scale / (static_cast<double>(var[c]) + step.constant);
  }
  return sum / static_cast<double>(channels_);
}

void StoredValue::release() {
  for (int i = 0; i < n_steps_; ++i) {
    if (steps_[i].kind == Step::Kind::kPlanes && steps_[i].last) {
      current_store()->release(steps_[i].entry);
    }
  }
}

void StoredValue::parse(Arguments& args, std::string_view recipe) {
  const auto refuse = [&](std::string_view word) {
    args.fail("'", std::string(word), "' is not understood; export the program again");
  };
  size_t n_taken = 0;
  const auto take = [&](executorch::aten::ScalarType type, int64_t n_elements) {
    args.require(n_taken < source_.size(), "the recipe takes more than ", source_.size(),
                 " tensors");
    const executorch::aten::Tensor& tensor = source_[n_taken++];
    args.require(tensor.scalar_type() == type && tensor.numel() == n_elements &&
                     tensor.const_data_ptr() != nullptr,
                 "tensor ", n_taken, " of the recipe has ", tensor.numel(), " elements, expected ",
                 n_elements);
    return tensor.const_data_ptr();
  };
  constexpr auto kFloat = executorch::aten::ScalarType::Float;
  int depth = 0;
  std::string_view rest = recipe;
  while (!rest.empty()) {
    const std::string_view word = next_part(rest, ' ');
    std::string_view parts = word;
    const std::string_view name = next_part(parts, ':');
    args.require(n_steps_ < kMaxSteps, "the recipe is too long");
    Step& step = steps_[n_steps_];
    step = Step{};
    const auto number = [&] {
      const std::string text(next_part(parts, ':'));
      char* end = nullptr;
      const float value = std::strtof(text.c_str(), &end);
      if (text.empty() || *end != '\0') refuse(word);
      return value;
    };
    const auto integer = [&](auto value) {
      const std::string_view text = next_part(parts, ':');
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
      if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) refuse(word);
      return value;
    };
    if (name == "planes") {
      step.kind = Step::Kind::kPlanes;
      step.entry = integer(int{});
      args.require(current_store() != nullptr && step.entry >= 0 &&
                       step.entry < static_cast<int>(current_store()->plan().size()),
                   "the program has no stored tensor ", step.entry);
      args.require(current_store()->plan()[step.entry].n_elements == shape_.n_elements(),
                   "stored tensor ", step.entry, " has ",
                   current_store()->plan()[step.entry].n_elements, " elements, expected ", shape_);
      current_store()->begin_fetch(step.entry);
      step.last = parts == "last";
      if (!step.last && !parts.empty()) refuse(word);
      take(executorch::aten::ScalarType::Byte, 1);
      ++depth;
    } else if (name == "value") {
      step.kind = Step::Kind::kValue;
      step.tensor[0] = take(kFloat, shape_.n_elements());
      ++depth;
    } else if (name == "normalize") {
      step.kind = Step::Kind::kNormalize;
      step.constant = number();
      const bool has_weight = next_part(parts, ':') == "1", has_bias = parts == "1";
      for (int i = 0; i < 4; ++i) {
        if (i < 2 || (i == 2 && has_weight) || (i == 3 && has_bias)) {
          step.tensor[i] = take(kFloat, channels_);
        }
      }
    } else if (name == "mask") {
      step.kind = Step::Kind::kMask;
      step.constant = number();
      step.tensor[0] = take(executorch::aten::ScalarType::Int, (shape_.n_elements() + 31) / 32);
    } else if (name == "dropout") {
      step.kind = Step::Kind::kDropout;
      step.constant = number();
      if (!(step.constant >= 0 && step.constant <= 1)) refuse(word);
      step.layer = integer(uint32_t{});
      step.tensor[0] = take(executorch::aten::ScalarType::Long, 2);
    } else if (name == "add") {
      step.kind = Step::Kind::kAdd;
      --depth;
    } else {
      refuse(word);
    }
    if (depth < 1) refuse(word);
    depth_ = std::max(depth_, depth);
    ++n_steps_;
  }
  args.require(depth == 1, "the recipe leaves ", depth, " values; export the program again");
}

float* StoredValue::read(int64_t first, int64_t count) {
  take_memory();
  read_to(first, count, memory_);
  return memory_;
}

void StoredValue::read_whole(float* out) {
  if (depth_ == 1) return read_to(0, n_samples(), out);
  take_memory();
  for (int64_t first = 0; first < n_samples(); first += chunk_samples_) {
    read_to(first, std::min(chunk_samples_, n_samples() - first), out + first * sample_elements_);
  }
}

void StoredValue::take_memory() {
  if (memory_ != nullptr) return;
  memory_ =
      args_.scratch().take<float>(static_cast<size_t>(depth_ * chunk_samples_ * sample_elements_));
}

void StoredValue::read_to(int64_t first, int64_t count, float* out) {
  std::array<float*, kMaxSteps> values{};
  values[0] = out;
  for (int i = 1; i < depth_; ++i) {
    values[i] = memory_ + i * chunk_samples_ * sample_elements_;
  }
  int top = -1;
  for (int i = 0; i < n_steps_; ++i) run(steps_[i], first, count, top, values.data());
}

void StoredValue::run(const Step& step, int64_t first, int64_t count, int& top,
                      float* const* values) {
  const int64_t begin = first * sample_elements_, n = count * sample_elements_;
  switch (step.kind) {
    case Step::Kind::kPlanes:
      current_store()->read(step.entry, begin, n, values[++top]);
      return;
    case Step::Kind::kValue:
      std::copy_n(static_cast<const float*>(step.tensor[0]) + begin, n, values[++top]);
      return;
    case Step::Kind::kNormalize: {
      const auto tensor = [&](int i) { return static_cast<const float*>(step.tensor[i]); };
      batch_norm_eval({count, channels_, spatial_, step.constant}, values[top], tensor(2),
                      tensor(3), tensor(0), tensor(1), values[top]);
      return;
    }
    case Step::Kind::kAdd:
      --top;
      add_to(n, values[top + 1], values[top]);
      return;
    case Step::Kind::kMask:
      apply_mask(n, static_cast<const uint32_t*>(step.tensor[0]), begin, step.constant, values[top],
                 values[top]);
      return;
    case Step::Kind::kDropout: {
      const auto* clock = static_cast<const int64_t*>(step.tensor[0]);
      const Dropout rng = make_dropout({clock[0], clock[1]}, step.constant, step.layer);
      daf::dropout(rng, begin, n, values[top], values[top]);
      return;
    }
  }
}

}  // namespace daf::ops
