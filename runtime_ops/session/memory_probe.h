// What the process and the device say about memory, and what the session holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace daf {

// Bytes the session holds, by part.
struct MemoryParts {
  int64_t weights = 0;    // parameters and buffers that training changes
  int64_t constants = 0;  // frozen weights, mapped from the program
  int64_t optimizer = 0;
  int64_t arena = 0;        // activations, gradients, temporaries
  int64_t activations = 0;  // kept for backward: of the arena, as planned, and of the pool
  int64_t gradients = 0;    // of the arena, as planned: of parameters, the most at once
  int64_t pool = 0;         // of the activation store, at its highest
  int64_t workspace = 0;    // scratch memory of kernels, at its highest
  int64_t batch = 0;        // the inputs of a step, which its caller holds
};

// Bytes; 0 where the kernel does not tell.
struct ProcessMemory {
  int64_t rss = 0;
  int64_t peak_rss = 0;
  int64_t swap = 0;
  int64_t available = 0;  // what the device could still give, to any process
};

ProcessMemory read_process_memory();
// Proportional set size: slow, the kernel walks all mappings.
std::optional<int64_t> read_pss_bytes();
// Makes peak_rss start over, where the kernel allows it.
void reset_peak_rss();

// The number of bytes in a line such as "VmRSS:	 123 kB" of `text`, 0 when there is none.
int64_t find_kilobytes(const std::string& text, const std::string& field);

struct DeviceFacts {
  std::string model;
  std::string soc;
  std::string os;
  std::string abi;
  int64_t cores = 0;
  int64_t ram_bytes = 0;
};
DeviceFacts read_device_facts();

}  // namespace daf
