// A lock for many readers or one writer that a stream of readers cannot keep a writer from: who
// comes after a waiting writer waits too. For std::unique_lock and std::shared_lock.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace daf {

class FairSharedMutex {
 public:
  void lock() {
    const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

}  // namespace daf
