// DType and ExecuTorch's ScalarType, one for the other.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <optional>
#include <utility>

#include "runtime_ops/session/tensor_spec.h"

namespace daf {

inline constexpr std::pair<DType, executorch::aten::ScalarType> kScalarTypes[] = {
    {DType::kFloat32, executorch::aten::ScalarType::Float},
    {DType::kFloat64, executorch::aten::ScalarType::Double},
    {DType::kFloat16, executorch::aten::ScalarType::Half},
    {DType::kBFloat16, executorch::aten::ScalarType::BFloat16},
    {DType::kInt8, executorch::aten::ScalarType::Char},
    {DType::kInt16, executorch::aten::ScalarType::Short},
    {DType::kInt32, executorch::aten::ScalarType::Int},
    {DType::kInt64, executorch::aten::ScalarType::Long},
    {DType::kUint8, executorch::aten::ScalarType::Byte},
    {DType::kBool, executorch::aten::ScalarType::Bool},
};

inline executorch::aten::ScalarType scalar_type_of(DType dtype) {
  return kScalarTypes[static_cast<size_t>(dtype)].second;  // in the order of DType
}

inline std::optional<DType> dtype_of(executorch::aten::ScalarType scalar_type) {
  for (const auto& [dtype, known] : kScalarTypes) {
    if (known == scalar_type) return dtype;
  }
  return std::nullopt;
}

}  // namespace daf
