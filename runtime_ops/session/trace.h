// The trace of a run: one JSON object per line, written so that a kill loses no finished line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime_ops/session/file.h"
#include "runtime_ops/session/json.h"
#include "runtime_ops/session/memory_probe.h"

namespace daf {

struct TraceHeader {
  std::string device_kind;
  DeviceFacts device;
  std::string program_file, program_sha256, model_name;
  Json config;
  int64_t started_unix_ms = 0;
  Json memory_plan;
  Json activations = Json::Array{};
  int64_t rss_baseline_bytes = 0;
  int64_t available_bytes =
      0;  // memory that the device could still give, before anything is loaded
};

struct StepRow {
  int64_t step = 0;  // steps taken, this one included
  int64_t t_us = 0;  // since the start of the run
  double loss = 0;
  double lr = 0;
  int64_t samples = 0;
  // Null in the trace when the manifest does not say where the phases are.
  std::optional<int64_t> forward_us, backward_us, update_us;
  int64_t total_us = 0;
  MemoryParts peak;
};

struct CounterRow {
  int64_t step = 0;
  int64_t t_us = 0;
  MemoryParts held;
  ProcessMemory process;
  // Not in the row when they were not read.
  std::optional<int64_t> pss_bytes, temperature_mc;
};

enum class EndReason { kDone, kStopped, kError };

struct TraceFooter {
  EndReason reason = EndReason::kDone;
  int64_t steps = 0;  // of this run
  int64_t peak_rss_bytes = 0;
  MemoryParts peak;
  int64_t t_us = 0;
  std::optional<std::string> error;
};

Json to_json(const TraceHeader& header);
Json to_json(const StepRow& row);
Json to_json(const CounterRow& row);
Json to_json(const TraceFooter& footer);
// `fields` come after the common ones.
Json event_json(const std::string& event, int64_t step, int64_t t_us, Json::Object fields);

// Every line goes to the host, then to the file with one write(2).
class TraceWriter {
 public:
  using OnLine = std::function<void(const std::string& line)>;

  // No file when `path` is empty. Throws DafError with Exit::kOutput.
  TraceWriter(std::string path, OnLine on_line);

  // Returns the line, without the newline.
  std::string write(const Json& row);

 private:
  std::string path_;
  FileDescriptor fd_;
  OnLine on_line_;
};

}  // namespace daf
