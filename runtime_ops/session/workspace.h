// Growing memory for ExecuTorch: scratch memory of kernels, and the structures of a method.
#pragma once

#include <executorch/runtime/core/memory_allocator.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime_ops/session/phase_timer.h"

namespace daf {

// Hands out memory from chunks and takes all of it back in reset(). After an instruction that
// needed several chunks the next one gets a single chunk for all of it, so in the long run this
// holds what the hungriest instruction needs, and no more.
class Workspace final : public executorch::runtime::MemoryAllocator {
 public:
  static constexpr size_t kMaxAlignment = 64;

  // No chunk is smaller than `min_chunk_bytes`: with what the kernels take at most, one chunk does.
  explicit Workspace(size_t min_chunk_bytes)
      : MemoryAllocator(0, nullptr), min_chunk_bytes_(min_chunk_bytes) {}

  // Null when the system has no more memory.
  void* allocate(size_t size_bytes, size_t alignment = kDefaultAlignment) override;
  void reset() override;

  // The most that executions have made this hold.
  size_t peak_bytes() const { return peak_bytes_; }

  // Gives the memory back to the system; nothing may be in use.
  void release();

  // Starts the timer, which counts the instructions of the execution that follows. ExecuTorch
  // resets the temporary memory of a method after every instruction, also one that fails (and once
  // before the first). This needs no step-by-step execution, from whose errors a method does not
  // recover.
  void count_instructions(PhaseTimer& timer);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Chunk {
    std::unique_ptr<uint8_t, Free> memory;
    size_t size_bytes;
  };

  bool add_chunk(size_t size_bytes);

  const size_t min_chunk_bytes_;
  std::vector<Chunk> chunks_;  // the last one is being used up
  size_t used_in_last_ = 0;    // bytes
  size_t used_before_ = 0;     // bytes of this instruction in earlier chunks
  size_t held_bytes_ = 0;      // sum of the chunks
  size_t peak_bytes_ = 0;
  size_t next_chunk_bytes_ = 0;
  PhaseTimer* timer_ = nullptr;
  bool before_first_ = false;  // the next reset does not end an instruction
};

}  // namespace daf
