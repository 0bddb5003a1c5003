#include "runtime_ops/session/program_operators.h"

#include <cstring>

// A program is a flatbuffer (schema/program.fbs in ExecuTorch). Field numbers of a flatbuffer table
// never change, and there are few to read: this needs neither the flatbuffers library nor generated
// code, which ExecuTorch's package lacks. Offsets were verified when the program was loaded.

namespace daf {
namespace {

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Tables, vectors and strings are stored as the distance to them.
const uint8_t* follow(const uint8_t* at) { return at == nullptr ? at : at + load<uint32_t>(at); }

// Where field `number` of a table is; null when it has its default. A table starts with the
// distance back to its vtable: its size, the table's size, then 16 bits per field.
const uint8_t* field(const uint8_t* table, int number) {
  if (table == nullptr) return nullptr;
  const uint8_t* vtable = table - load<int32_t>(table);
  const size_t entry = 4 + 2 * static_cast<size_t>(number);
  if (entry >= load<uint16_t>(vtable)) return nullptr;
  const uint16_t offset = load<uint16_t>(vtable + entry);
  return offset == 0 ? nullptr : table + offset;
}

uint32_t vector_size(const uint8_t* vector) { return vector ? load<uint32_t>(vector) : 0; }
const uint8_t* table_in(const uint8_t* vector, uint32_t i) { return follow(vector + 4 + 4 * i); }

std::string string_field(const uint8_t* table, int number) {
  const uint8_t* text = follow(field(table, number));
  if (text == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(text + 4), load<uint32_t>(text));
}

namespace program {
constexpr int kExecutionPlan = 1;
}
namespace execution_plan {
constexpr int kName = 0, kChains = 5, kOperators = 6;
}
namespace operator_ {
constexpr int kName = 0, kOverload = 1;
}
namespace chain {
constexpr int kInstructions = 2;
}
namespace instruction_ {
constexpr int kType = 0, kArguments = 1;
constexpr uint8_t kKernelCall = 1;
}  // namespace instruction_
namespace kernel_call {
constexpr int kOpIndex = 0;
}

const uint8_t* find_plan(const uint8_t* program, const std::string& method) {
  const uint8_t* plans = follow(field(follow(program), program::kExecutionPlan));
  for (uint32_t i = 0; i < vector_size(plans); ++i) {
    const uint8_t* plan = table_in(plans, i);
    if (string_field(plan, execution_plan::kName) == method) return plan;
  }
  return nullptr;
}

std::string operator_name(const uint8_t* op) {
  const std::string overload = string_field(op, operator_::kOverload);
  return string_field(op, operator_::kName) + (overload.empty() ? "" : "." + overload);
}

// One list for each chain; all of today's programs have one chain.
std::vector<const uint8_t*> instruction_lists(const uint8_t* plan) {
  const uint8_t* chains = follow(field(plan, execution_plan::kChains));
  std::vector<const uint8_t*> lists;
  for (uint32_t i = 0; i < vector_size(chains); ++i) {
    lists.push_back(follow(field(table_in(chains, i), chain::kInstructions)));
  }
  return lists;
}

// Empty when the instruction is not the call of a kernel.
std::string called_operator(const uint8_t* plan, const uint8_t* instruction) {
  const uint8_t* type = field(instruction, instruction_::kType);
  if (type == nullptr || *type != instruction_::kKernelCall) return "";
  const uint8_t* call = follow(field(instruction, instruction_::kArguments));
  const uint8_t* index = field(call, kernel_call::kOpIndex);
  const uint32_t op_index = index == nullptr ? 0 : load<uint32_t>(index);
  const uint8_t* operators = follow(field(plan, execution_plan::kOperators));
  return op_index < vector_size(operators) ? operator_name(table_in(operators, op_index)) : "";
}

}  // namespace

std::vector<std::string> operators_of(const uint8_t* program, const std::string& method) {
  const uint8_t* operators = follow(field(find_plan(program, method), execution_plan::kOperators));
  std::vector<std::string> names;
  for (uint32_t i = 0; i < vector_size(operators); ++i) {
    names.push_back(operator_name(table_in(operators, i)));
  }
  return names;
}

int64_t n_instructions_of(const uint8_t* program, const std::string& method) {
  int64_t n_instructions = 0;
  for (const uint8_t* instructions : instruction_lists(find_plan(program, method))) {
    n_instructions += vector_size(instructions);
  }
  return n_instructions;
}

std::string operator_at(const uint8_t* program, const std::string& method, int64_t instruction) {
  const uint8_t* plan = find_plan(program, method);
  for (const uint8_t* instructions : instruction_lists(plan)) {
    const int64_t n_instructions = vector_size(instructions);
    if (instruction < n_instructions) {
      return called_operator(plan, table_in(instructions, static_cast<uint32_t>(instruction)));
    }
    instruction -= n_instructions;
  }
  return "";
}

}  // namespace daf
