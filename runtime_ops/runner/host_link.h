// The line to the host of a runner: JSON lines on standard output, and signs that the host is gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace daf {

// Sends lines from any thread. A thread of its own says every second that the process is alive and
// watches standard input: the host holds it open, so its end means that the host or the connection
// is gone. So does a host that no longer reads.
class HostLink {
 public:
  HostLink();
  ~HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  void send(const std::string& line);
  bool host_is_gone() const { return gone_; }

 private:
  void keep_alive();
  void watch_input();

  std::atomic<bool> gone_ = false;
  std::mutex output_;
  std::mutex state_;
  std::condition_variable closing_changed_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace daf
