// Bytes as a file, for what reads paths.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace daf {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) : descriptor_(::memfd_create("fuzz", 0)) {
    if (::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }
  ~TemporaryFile() { ::close(descriptor_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace daf
