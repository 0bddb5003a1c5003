// The codec's group of AVX-512: that of AVX2, which already is as fast as memory.
#pragma once

#include "runtime_ops/kernels/avx2/plane_group.h"
