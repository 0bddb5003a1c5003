// The instruction set this translation unit is compiled for. Every source of this folder is
// compiled once per instruction set (see CMakeLists.txt) and puts all it defines, inline functions
// and templates included, into `namespace daf::DAF_ISA`: code compiled for one processor must
// never be merged by the linker with the same code compiled for another.
#pragma once

#if defined(DAF_ISA_avx512)
#include "runtime_ops/kernels/avx512/simd.h"
#elif defined(DAF_ISA_avx2)
#include "runtime_ops/kernels/avx2/simd.h"
#elif defined(DAF_ISA_neon)
#include "runtime_ops/kernels/neon/simd.h"
#else
#include "runtime_ops/kernels/scalar/simd.h"
#endif

#include "runtime_ops/kernels/kernels.h"

namespace daf::DAF_ISA {

#define DAF_KERNEL(result, name, parameters, arguments) result name parameters;
#include "runtime_ops/kernels/kernels.inc"
#undef DAF_KERNEL

}  // namespace daf::DAF_ISA
