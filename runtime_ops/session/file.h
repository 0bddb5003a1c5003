// Files by descriptor: reading exact ranges, and writing so that a crash leaves the old file or
// the new one, never a part.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace daf {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  int release();
  void reset();

 private:
  int fd_;
};

// A regular file open for reading. Errors are FormatErrors: "no such file", ...
class InputFile {
 public:
  explicit InputFile(const std::string& path);

  uint64_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }
  void read(uint64_t offset, void* buffer, size_t size_bytes) const;

 private:
  FileDescriptor fd_;
  uint64_t size_bytes_ = 0;
};

// The whole file; FormatError when it is longer than the limit.
std::string read_text_file(const std::string& path, uint64_t max_size_bytes);

// Writes to `<path>.tmp`; commit() makes it durable and gives it its name. Without commit() the
// temporary file is removed. Errors are DafErrors with Exit::kOutput.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t size_bytes);
  void commit();

 private:
  std::string path_, temporary_path_;
  FileDescriptor fd_;
};

// All of it, however many calls that takes; returns 0 or the errno.
int write_all(int fd, const void* data, size_t size_bytes);

// A DafError with Exit::kOutput for this errno: "cannot write W: no space left on the device; ...".
[[noreturn]] void fail_output(const std::string& path, int error_number);

// Throws now what writing `path` would throw later, so that a long run does not end in it.
void check_can_write(const std::string& path);

// Reasons in the words of our messages.
std::string errno_text(int error_number);

// "12 B", "40.2 kB", "1.5 MB".
std::string format_bytes(uint64_t size_bytes);

}  // namespace daf
