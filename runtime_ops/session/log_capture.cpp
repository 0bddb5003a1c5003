#include "runtime_ops/session/log_capture.h"

#include <executorch/runtime/platform/platform.h>

#include <iostream>

namespace daf {

// The log function of the process: to the capture of its thread, else to whoever was there before.
struct LogSink {
  static thread_local LogCapture* capture;
  static pal_emit_log_message_method previous;

  static void emit(et_timestamp_t timestamp, et_pal_log_level_t level, const char* file,
                   const char* function, size_t line, const char* message, size_t length) {
    if (capture == nullptr) {
      previous(timestamp, level, file, function, line, message, length);
    } else if ((level == et_pal_log_level_t::kError || level == et_pal_log_level_t::kFatal) &&
               capture->first_error_.empty()) {
      capture->first_error_.assign(message, length);
    }
  }

  static bool install() {
    previous = executorch::runtime::get_pal_impl()->emit_log_message;
    // ExecuTorch's Python module has put its own function there, and replacing it is logged as an
    // error: to std::cerr, by that function.
    std::streambuf* const errors = std::cerr.rdbuf(nullptr);
    executorch::runtime::register_pal(executorch::runtime::PalImpl::create(emit, __FILE__));
    std::cerr.rdbuf(errors);  // also clears the error bits that writing to nothing has set
    return true;
  }
};

thread_local LogCapture* LogSink::capture = nullptr;
pal_emit_log_message_method LogSink::previous = nullptr;

LogCapture::LogCapture() {
  static const bool installed = LogSink::install();
  (void)installed;
  LogSink::capture = this;
}

LogCapture::~LogCapture() { LogSink::capture = nullptr; }

}  // namespace daf
