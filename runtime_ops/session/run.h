// A whole training run: header, resume, steps, checkpoints, footer. The same for every host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime_ops/session/run_request.h"

namespace daf {

class TrainingSession;

// What a host has to say in the trace: the device's heat, a pause.
struct HostEvent {
  std::string name;
  Json::Object fields;
};

struct RunHost {
  std::string device_kind;                          // "local"
  std::function<void(const std::string&)> on_line;  // every trace line, without the newline
  std::function<bool()> should_stop;                // asked before every step; may wait
  // May be empty. Called with the session when it is ready, for trim() from other threads, and with
  // null before it goes.
  std::function<void(TrainingSession*)> on_session;
  // May be empty. Asked before every step and at the end; what it returns goes to the trace.
  std::function<std::vector<HostEvent>()> take_events;
};

// Returns the footer's line. When the host asks to stop, the current step is finished and the
// weights are saved, if the request says where. An error in the request, the manifest or the
// trace's path is thrown at once; every other one is written to the footer first.
std::string run(const RunRequest& request, const RunHost& host);

}  // namespace daf
