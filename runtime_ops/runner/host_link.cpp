#include "runtime_ops/runner/host_link.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace daf {
namespace {

constexpr auto kAlivePeriod = std::chrono::seconds(1);
constexpr int kHostPatienceMs = 20'000;  // for a host that reads slowly

// False when the other side is gone or takes nothing for too long.
bool write_patiently(int fd, const char* data, size_t size_bytes) {
  while (size_bytes > 0) {
    pollfd writable = {fd, POLLOUT, 0};
    const int ready = ::poll(&writable, 1, kHostPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t n = ::write(fd, data, size_bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    data += n;
    size_bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

HostLink::HostLink() : thread_([this] { keep_alive(); }) {}

HostLink::~HostLink() {
  {
    const std::lock_guard lock(state_);
    closing_ = true;
  }
  closing_changed_.notify_all();
  thread_.join();
}

void HostLink::send(const std::string& line) {
  const std::lock_guard lock(output_);
  if (gone_) return;
  const std::string text = line + '\n';
  if (!write_patiently(STDOUT_FILENO, text.data(), text.size())) gone_ = true;
}

void HostLink::keep_alive() {
  std::unique_lock lock(state_);
  while (!closing_changed_.wait_for(lock, kAlivePeriod, [this] { return closing_; })) {
    watch_input();
    send(R"({"type":"alive"})");
  }
}

void HostLink::watch_input() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, 0) <= 0) return;
  char ignored[256];
  const ssize_t n = ::read(STDIN_FILENO, ignored, sizeof ignored);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) gone_ = true;
}

}  // namespace daf
