// What a host asks the run loop to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime_ops/gpu/hybrid_reducer.h"
#include "runtime_ops/session/json.h"
#include "runtime_ops/session/manifest.h"
#include "runtime_ops/session/schedule.h"

namespace daf {

struct RunRequest {
  std::string program, manifest, data;
  int64_t steps = 0;  // further ones, after a resume
  int64_t seed = 0;   // a resumed run keeps its own
  bool shuffle = true;
  std::optional<double> lr;  // the manifest's when not given
  ScheduleKind schedule = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;               // of the schedule; `steps` when not given
  std::optional<int64_t> budget_bytes;   // the manifest's when not given
  std::optional<Importance> importance;  // the manifest's when not given
  std::string save;                      // empty: do not
  int64_t save_every = 0;                // steps; 0: only at the end
  std::string resume;                    // empty: do not
  std::string trace;                     // empty: do not
  ReduceMode reduce = ReduceMode::kAuto;
  std::string reduce_table;  // empty: none
  Json config = Json::Object{};

  // Unknown keys and wrong types are DafErrors with Exit::kUsage.
  static RunRequest parse(const std::string& text);
};

}  // namespace daf
