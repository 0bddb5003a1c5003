// PlaneGroup of the instruction set this translation unit is compiled for.
#pragma once

#if defined(DAF_ISA_avx512)
#include "runtime_ops/kernels/avx512/plane_group.h"
#elif defined(DAF_ISA_avx2)
#include "runtime_ops/kernels/avx2/plane_group.h"
namespace daf::DAF_ISA {
using PlaneGroup = PlaneGroup256;
}
#elif defined(DAF_ISA_neon)
#include "runtime_ops/kernels/neon/plane_group.h"
#else
#include "runtime_ops/kernels/scalar/plane_group.h"
#endif
