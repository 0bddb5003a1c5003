// ExecuTorch's log, kept for error messages instead of printed.
#pragma once

#include <string>

namespace daf {

// While one exists, what ExecuTorch logs on this thread is kept here; not to be nested.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // The first error, which is closest to the cause; empty when there was none.
  const std::string& first_error() const { return first_error_; }

 private:
  friend struct LogSink;
  std::string first_error_;
};

}  // namespace daf
