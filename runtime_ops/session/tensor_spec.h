// Names, types and shapes of tensors, as the manifest, data files and checkpoints have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace daf {

enum class DType {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kBool,
};

size_t size_of(DType dtype);
const char* numpy_name(DType dtype);        // "float32"
const char* safetensors_name(DType dtype);  // "F32"
std::optional<DType> dtype_from_numpy_name(std::string_view name);
std::optional<DType> dtype_from_safetensors_name(std::string_view name);

using Shape = std::vector<int64_t>;

// "[8, 3, 32, 32]"
std::string format_shape(const Shape& shape);
// The size of a contiguous tensor; nothing when it does not fit int64.
std::optional<int64_t> tensor_size_bytes(DType dtype, const Shape& shape);

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;

  // Only for specs that a reader has checked: the size fits.
  int64_t size_bytes() const { return *tensor_size_bytes(dtype, shape); }
  // "float32[8, 3, 32, 32]"
  std::string type_and_shape() const { return numpy_name(dtype) + format_shape(shape); }
};

// A tensor and where it lies. Whoever made the view says how long `data` is valid.
struct TensorView {
  TensorSpec spec;
  void* data = nullptr;
};
struct ConstTensorView {
  TensorSpec spec;
  const void* data = nullptr;
};

}  // namespace daf
