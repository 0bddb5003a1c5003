// The operators and instructions of a program, which ExecuTorch's own interface does not tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace daf {

// `program` is the start of a program that ExecuTorch has verified. Names are as in the kernel
// registry: "aten::add.out". Empty when there is no such method.
std::vector<std::string> operators_of(const uint8_t* program, const std::string& method);

int64_t n_instructions_of(const uint8_t* program, const std::string& method);

// The operator that this instruction of the method calls; empty when it calls none.
std::string operator_at(const uint8_t* program, const std::string& method, int64_t instruction);

}  // namespace daf
