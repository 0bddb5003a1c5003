#include "runtime_ops/session/tensor_spec.h"

namespace daf {
namespace {

struct DTypeRow {
  DType dtype;
  const char* numpy_name;
  const char* safetensors_name;
  size_t size_bytes;
};

// In the order of the enum.
constexpr DTypeRow kDTypes[] = {
    {DType::kFloat32, "float32", "F32", 4}, {DType::kFloat64, "float64", "F64", 8},
    {DType::kFloat16, "float16", "F16", 2}, {DType::kBFloat16, "bfloat16", "BF16", 2},
    {DType::kInt8, "int8", "I8", 1},        {DType::kInt16, "int16", "I16", 2},
    {DType::kInt32, "int32", "I32", 4},     {DType::kInt64, "int64", "I64", 8},
    {DType::kUint8, "uint8", "U8", 1},      {DType::kBool, "bool", "BOOL", 1},
};

const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

}  // namespace

size_t size_of(DType dtype) { return row_of(dtype).size_bytes; }
const char* numpy_name(DType dtype) { return row_of(dtype).numpy_name; }
const char* safetensors_name(DType dtype) { return row_of(dtype).safetensors_name; }

std::optional<DType> dtype_from_numpy_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (name == row.numpy_name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (name == row.safetensors_name) return row.dtype;
  }
  return std::nullopt;
}

std::string format_shape(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::optional<int64_t> tensor_size_bytes(DType dtype, const Shape& shape) {
  int64_t size = static_cast<int64_t>(size_of(dtype));
  for (const int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(size, n, &size)) return std::nullopt;
  }
  return size;
}

}  // namespace daf
