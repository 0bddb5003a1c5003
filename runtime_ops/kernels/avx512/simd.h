// Vectors of AVX-512: those of AVX2. Most kernels wait for memory, and the wide registers serve the
// inner loop of the matrix product.
#pragma once

#include "runtime_ops/kernels/avx2/simd.h"
