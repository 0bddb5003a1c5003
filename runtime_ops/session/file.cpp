#include "runtime_ops/session/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime_ops/session/error.h"

namespace daf {
namespace {

constexpr size_t kMaxCallBytes = size_t{1} << 30;  // read and write refuse more than 2 GB

std::string temporary_path_for(const std::string& path) { return path + ".tmp"; }

// The temporary file for `path`.
FileDescriptor open_temporary(const std::string& path) {
  const std::string temporary = temporary_path_for(path);
  FileDescriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (fd.get() < 0) fail_output(path, errno);
  return fd;
}

// Makes a rename in this folder durable.
void sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder and say EINVAL: there is nothing more to do then.
  if (fd.get() < 0 || (::fsync(fd.get()) != 0 && errno != EINVAL)) fail_output(path, errno);
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(release());
}

InputFile::InputFile(const std::string& path)
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat info = {};
  if (fd_.get() < 0 || ::fstat(fd_.get(), &info) != 0) throw FormatError(errno_text(errno));
  if (!S_ISREG(info.st_mode)) throw FormatError("it is not a regular file");
  size_bytes_ = static_cast<uint64_t>(info.st_size);
}

void InputFile::read(uint64_t offset, void* buffer, size_t size_bytes) const {
  auto* bytes = static_cast<char*>(buffer);
  while (size_bytes > 0) {
    const ssize_t n =
        ::pread(fd_.get(), bytes, std::min(size_bytes, kMaxCallBytes), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FormatError(errno_text(errno));
    if (n == 0) throw FormatError("it became shorter while it was read");
    bytes += n;
    offset += static_cast<uint64_t>(n);
    size_bytes -= static_cast<size_t>(n);
  }
}

std::string read_text_file(const std::string& path, uint64_t max_size_bytes) {
  const InputFile file(path);
  if (file.size_bytes() > max_size_bytes) {
    throw FormatError("it is too long (" + format_bytes(file.size_bytes()) + ")");
  }
  std::string text(file.size_bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_path_(temporary_path_for(path_)) {
  fd_ = open_temporary(path_);
}

AtomicFile::~AtomicFile() {
  if (fd_.get() >= 0) ::unlink(temporary_path_.c_str());
}

void AtomicFile::write(const void* data, size_t size_bytes) {
  if (const int error_number = write_all(fd_.get(), data, size_bytes)) {
    fail_output(path_, error_number);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) fail_output(path_, errno);
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail_output(path_, errno);
  fd_.reset();
  sync_folder_of(path_);
}

int write_all(int fd, const void* data, size_t size_bytes) {
  const auto* bytes = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t n = ::write(fd, bytes, std::min(size_bytes, kMaxCallBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes += n;
    size_bytes -= static_cast<size_t>(n);
  }
  return 0;
}

void fail_output(const std::string& path, int error_number) {
  const char* next_step = "choose another place for it";
  if (error_number == ENOSPC || error_number == EDQUOT) next_step = "free some space and run again";
  if (error_number == ENOENT) next_step = "create it first";
  const std::string reason =
      error_number == ENOENT ? "its folder does not exist" : errno_text(error_number);
  throw DafError(Exit::kOutput, "cannot write " + path + ": " + reason + "; " + next_step);
}

void check_can_write(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail_output(path, EISDIR);
  open_temporary(path);
  ::unlink(temporary_path_for(path).c_str());
}

std::string errno_text(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "no such file";
    case EACCES:
    case EPERM:
      return "permission denied";
    case EROFS:
      return "the file system is read-only";
    case ENOSPC:
      return "no space left on the device";
    case EISDIR:
      return "it is a folder";
    default:
      return std::strerror(error_number);
  }
}

std::string format_bytes(uint64_t size_bytes) {
  if (size_bytes < 1000) return std::to_string(size_bytes) + " B";
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  double value = static_cast<double>(size_bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.95 && unit < 3; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace daf
