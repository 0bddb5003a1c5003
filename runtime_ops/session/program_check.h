// Whether this runtime can run a program, and whether its manifest tells the truth about it.
#pragma once

#include <string>
#include <vector>

#include "runtime_ops/session/manifest.h"
#include "runtime_ops/session/program_loader.h"

namespace daf {

// Bytes that each memory id needs for both methods (index 0 is id 1). Throws DafError with
// Exit::kProgram when an operator is missing, or the manifest differs from the program.
std::vector<size_t> check_program(const std::string& path, const LoadedProgram& loaded,
                                  const Manifest& manifest);

}  // namespace daf
