#pragma once

namespace daf {

// Makes the operators of exporter/ops.py known to ExecuTorch in this process. Call it once before
// a program is loaded; further calls do nothing.
void register_ops();

}  // namespace daf
