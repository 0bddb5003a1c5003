// A lock for many readers or one writer that a stream of readers cannot keep a writer from: who
// comes while a writer waits, waits too. For std::unique_lock and std::shared_lock.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace daf {

class FairSharedMutex {
 public:
  void lock() {
    n_waiting_.fetch_add(1);
    {
      const std::lock_guard<std::mutex> turn(turn_);
      mutex_.lock();
    }
    n_waiting_.fetch_sub(1);
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    if (n_waiting_.load() > 0) const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::atomic<int> n_waiting_{0};  // writers
  std::mutex turn_;                // held by the writer who is next
  std::shared_mutex mutex_;
};

}  // namespace daf
