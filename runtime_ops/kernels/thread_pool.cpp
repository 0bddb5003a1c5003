#include "runtime_ops/kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime_ops/kernels/kernels.h"

namespace daf {
namespace {

constexpr int kMaxThreads = 256;

struct Job {
  int64_t n_tasks;
  void (*body)(void*, int64_t, int);
  void* context;
  std::atomic<int64_t> next{0};

  void work(int worker) {
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) {
      body(context, task, worker);
    }
  }
};

class Pool {
 public:
  explicit Pool(int n_threads) {
    for (int worker = 1; worker < n_threads; ++worker) {
      threads_.emplace_back([this, worker] { serve(worker); });
    }
  }

  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stops_ = true;
      posted_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Job& job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      job_ = &job;
      posted_.fetch_add(1);
    }
    wake_.notify_all();
    job.work(0);
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = nullptr;  // who wakes up only now finds nothing
    done_.wait(lock, [this] { return n_busy_ == 0; });
  }

 private:
  void serve(int worker) {
    // The kernels of a step follow each other closely: looking again for some 20 us is cheaper than
    // going to sleep, and a thread with nothing to do for longer costs nothing.
    constexpr int kLooks = 512;
    for (uint64_t seen = 0;;) {
      for (int look = 0; look < kLooks && posted_.load() == seen; ++look) pause_briefly();
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return posted_.load() != seen; });
      seen = posted_.load();
      if (stops_) return;
      if (job_ == nullptr || worker >= job_->n_tasks) continue;
      Job& job = *job_;
      ++n_busy_;
      lock.unlock();
      job.work(worker);
      lock.lock();
      if (--n_busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> posted_{0};  // changes when there is something to look at
  Job* job_ = nullptr;
  int n_busy_ = 0;
  bool stops_ = false;
};

std::mutex run_mutex;  // held by whoever uses the pool
Pool* pool = nullptr;
std::atomic<int> thread_count{0};  // 0: not asked for yet
thread_local bool is_in_task = false;

// Threads must be gone before the process' own objects are.
struct StopAtExit {
  ~StopAtExit() { delete pool; }
} stop_at_exit;

int checked(long n, const std::string& text) {
  if (n >= 1 && n <= kMaxThreads) return static_cast<int>(n);
  throw std::invalid_argument(
      "cannot run kernels on '" + text + "' threads: it is not a number from 1 to " +
      std::to_string(kMaxThreads) + "; set DAF_THREADS to one, or not at all");
}

int default_threads() {
  const char* text = std::getenv("DAF_THREADS");
  if (text == nullptr || *text == '\0') {
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
  }
  long n = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, n);
  return checked(error == std::errc() && stop == end ? n : 0, text);
}

}  // namespace

int n_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n == 0) {
    n = default_threads();
    thread_count.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_threads(int n) {
  checked(n, std::to_string(n));
  const std::lock_guard<std::mutex> lock(run_mutex);
  if (n == thread_count.load()) return;
  delete pool;
  pool = nullptr;
  thread_count.store(n);
}

void run_tasks(int64_t n_tasks, void (*body)(void*, int64_t, int), void* context) {
  Job job{n_tasks, body, context};
  const int n = n_threads();
  if (n_tasks < 2 || n < 2 || is_in_task) return job.work(0);
  const std::unique_lock<std::mutex> lock(run_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return job.work(0);
  if (pool == nullptr) pool = new Pool(n);
  is_in_task = true;
  pool->run(job);
  is_in_task = false;
}

}  // namespace daf
