#include "runtime_ops/session/planned_memory.h"

#include <sys/mman.h>

#include <utility>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/file.h"

namespace daf {

PlannedMemory::PlannedMemory(size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  void* data =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw DafError(Exit::kDevice, "cannot reserve " + format_bytes(size_bytes) +
                                      " of memory for training; export with a smaller batch");
  }
  data_ = static_cast<uint8_t*>(data);
}

PlannedMemory::PlannedMemory(PlannedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PlannedMemory::~PlannedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

}  // namespace daf
