// A whole training run: header, resume, steps, checkpoints, footer. The same for every host.
#pragma once

#include <functional>
#include <string>

#include "runtime_ops/session/run_request.h"

namespace daf {

struct RunHost {
  std::string device_kind;                          // "local"
  std::function<void(const std::string&)> on_line;  // every trace line, without the newline
  std::function<bool()> should_stop;                // asked before every step
};

// Returns the footer's line. When the host asks to stop, the current step is finished and the
// weights are saved, if the request says where. An error in the request, the manifest or the
// trace's path is thrown at once; every other one is written to the footer first.
std::string run(const RunRequest& request, const RunHost& host);

}  // namespace daf
