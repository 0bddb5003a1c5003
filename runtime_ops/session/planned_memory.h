// Zeroed, page-aligned memory of one memory id of a program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace daf {

// Pages become resident when they are first touched.
class PlannedMemory {
 public:
  // Throws DafError with Exit::kDevice.
  explicit PlannedMemory(size_t size_bytes);
  PlannedMemory(PlannedMemory&& other) noexcept;
  ~PlannedMemory();

  uint8_t* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace daf
