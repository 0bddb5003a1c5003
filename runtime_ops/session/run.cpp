#include "runtime_ops/session/run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime_ops/session/dataset.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/file.h"
#include "runtime_ops/session/session.h"
#include "runtime_ops/session/thermal_probe.h"
#include "runtime_ops/session/trace.h"

namespace daf {
namespace {

// The step whose instructions are listed: the first one that is warm.
constexpr int64_t kProfiledStep = 2;
// Reading these takes milliseconds.
constexpr int64_t kStepsPerPss = 50;
constexpr int64_t kTemperaturePeriodUs = 1'000'000;
constexpr int64_t kStepsPerStoreEvents = 50;

class Run {
 public:
  Run(const RunRequest& request, const RunHost& host)
      : request_(request),
        host_(host),
        manifest_(Manifest::load(request.manifest)),
        trace_(request.trace, host.on_line) {}

  std::string execute() {
    try {
      write_header();
      prepare();
      const EndReason reason = train();
      return write_footer(reason, std::nullopt);
    } catch (const std::exception& error) {
      write_last_footer(error.what());
      throw;
    }
  }

  ~Run() {
    if (session_ && host_.on_session) host_.on_session(nullptr);
  }

 private:
  void write_header() {
    reset_peak_rss();
    observe_memory();
    TraceHeader header;
    header.device_kind = host_.device_kind;
    header.device = read_device_facts();
    header.program_file = std::filesystem::path(request_.program).filename().string();
    header.program_sha256 = manifest_.program_sha256;
    header.model_name = manifest_.model_name;
    header.config = request_.config;
    header.started_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
    header.memory_plan = manifest_.memory_plan;
    header.activations = manifest_.activations;
    header.rss_baseline_bytes = process_.rss;
    header.available_bytes = process_.available;
    trace_.write(to_json(header));
  }

  void prepare() {
    if (!request_.save.empty()) check_can_write(request_.save);
    session_.emplace(request_.program, request_.manifest,
                     SessionOptions{request_.seed, request_.budget_bytes, request_.importance,
                                    request_.reduce, request_.reduce_table});
    if (session_->reducer() != nullptr) write_reduce_event();
    if (session_->store() != nullptr) {
      session_->store()->set_observer([this](const StoreEvent& event) { take_store_event(event); });
    }
    if (!request_.resume.empty()) {
      session_->restore(request_.resume);
      write_event("resume", request_.resume);
    }
    dataset_.emplace(request_.data, manifest_, static_cast<uint64_t>(session_->seed()),
                     request_.shuffle);
    if (host_.on_session) host_.on_session(&*session_);
  }

  EndReason train() {
    const Schedule schedule = {request_.schedule, request_.lr.value_or(manifest_.lr),
                               request_.warmup_steps, request_.total_steps};
    EndReason reason = EndReason::kDone;
    while (n_steps_ < request_.steps) {
      const bool stops = host_.should_stop();
      write_waiting_events();
      write_host_events();
      if (stops) {
        reason = EndReason::kStopped;
        break;
      }
      take_step(schedule.lr_after(session_->step_count()));
      if (request_.save_every > 0 && session_->step_count() % request_.save_every == 0) save();
    }
    if (!request_.save.empty() && saved_step_ != session_->step_count()) save();
    write_waiting_events();
    write_host_events();
    if (session_->reducer() != nullptr) write_reduce_use_event();
    session_->save_reduce_table();
    return reason;
  }

  void write_host_events() {
    if (!host_.take_events) return;
    for (HostEvent& event : host_.take_events()) {
      trace_.write(
          event_json(event.name, session_->step_count(), elapsed_us(), std::move(event.fields)));
    }
  }

  void take_step(double lr) {
    const std::vector<ConstTensorView>& batch = dataset_->batch(session_->step_count());
    const StepResult result = session_->step(batch, static_cast<float>(lr));
    ++n_steps_;
    if (const auto rotation = session_->take_rotation()) write_rotation_event(*rotation);
    observe_memory();
    StepRow row;
    row.step = session_->step_count();
    row.t_us = elapsed_us();
    row.loss = result.loss;
    row.lr = lr;
    row.samples = batch[0].spec.shape[0];
    if (result.phases) {
      row.forward_us = result.phases->forward_us;
      row.backward_us = result.phases->backward_us;
      row.update_us = result.phases->update_us;
    }
    row.total_us = result.total_us;
    row.peak = held_;
    trace_.write(to_json(row));
    if (n_steps_ == kProfiledStep) write_profile(row.t_us - row.total_us);

    CounterRow counters = {row.step, elapsed_us(), held_, process_, std::nullopt, std::nullopt};
    if (n_steps_ % kStepsPerPss == 1) counters.pss_bytes = read_pss_bytes();
    if (n_steps_ == 1 || counters.t_us - temperature_read_us_ >= kTemperaturePeriodUs) {
      counters.temperature_mc = read_temperature_mc();
      temperature_read_us_ = counters.t_us;
    }
    trace_.write(to_json(counters));
    if (session_->reducer() != nullptr) {
      if (n_steps_ % kStepsPerStoreEvents == 0) write_reduce_use_event();
      if (!session_->reducer()->failure().empty()) {
        write_fallback_event(session_->reducer()->failure());
      }
    }
  }

  void write_rotation_event(const Rotation& rotation) {
    trace_.write(event_json("rotate", rotation.step, elapsed_us(),
                            {{"changed", rotation.n_changed},
                             {"chosen", rotation.n_chosen},
                             {"coverage", rotation.coverage}}));
  }

  // Which devices were looked for, and what is used.
  void write_reduce_event() {
    const HybridReducer& reducer = *session_->reducer();
    Json::Array probed;
    std::string missing;
    for (const ProbedBackend& backend : reducer.probed()) {
      Json::Object fields = {{"backend", name_of(backend.backend)}};
      if (!backend.device.name.empty()) {
        fields.push_back({"device", backend.device.name});
        fields.push_back({"driver", backend.device.driver});
      }
      fields.push_back({"used", backend.reason.empty()});
      if (!backend.reason.empty()) fields.push_back({"reason", backend.reason});
      if (missing.empty()) missing = backend.reason;
      probed.push_back(std::move(fields));
    }
    trace_.write(event_json("reduce", session_->step_count(), elapsed_us(),
                            {{"mode", name_of(reducer.mode())},
                             {"probed", probed},
                             {"uses_gpu", reducer.has_gpu()},
                             {"shares_pool", session_->store()->shares_pool()}}));
    if (reducer.mode() != ReduceMode::kAuto && !missing.empty()) write_fallback_event(missing);
  }

  // Since the start of the run; copies are what memory that cannot be shared costs.
  void write_reduce_use_event() {
    const HybridReducer& reducer = *session_->reducer();
    const auto uses = reducer.uses();
    if (uses.empty()) return;
    Json::Object by_variant;
    for (const auto& [name, use] : uses) {
      by_variant.push_back(
          {name, Json::Object{{"calls", use.n_calls}, {"elapsed_us", use.elapsed_ns / 1000}}});
    }
    trace_.write(event_json(
        "reduce_use", session_->step_count(), elapsed_us(),
        {{"uses", by_variant}, {"copied_bytes", static_cast<int64_t>(reducer.copied_bytes())}}));
  }

  // Once: nothing is tried again.
  void write_fallback_event(const std::string& reason) {
    if (has_fallen_back_) return;
    has_fallen_back_ = true;
    trace_.write(event_json("reduce_fallback", session_->step_count(), elapsed_us(),
                            {{"mode", name_of(request_.reduce)}, {"reason", reason}}));
  }

  void write_profile(int64_t start_us) {
    Json::Array ops;
    for (const InstructionTime& time : session_->profile()) {
      ops.push_back(Json::Array{time.operator_name, time.elapsed_ns});
    }
    trace_.write(event_json("profile", session_->step_count(), start_us, {{"ops", ops}}));
  }

  // On the thread that trains, or on one that trims: only the former may call the host, so what the
  // latter sees waits for the next step.
  void take_store_event(const StoreEvent& event) {
    if (std::this_thread::get_id() == thread_) {
      write_store_event(event);
      return;
    }
    const std::lock_guard lock(waiting_mutex_);
    waiting_.push_back(event);
  }

  void write_waiting_events() {
    std::vector<StoreEvent> waiting;
    {
      const std::lock_guard lock(waiting_mutex_);
      waiting.swap(waiting_);
    }
    for (const StoreEvent& event : waiting) write_store_event(event);
  }

  // Every drop, grow and trim; stash and release only of some steps, they are the same each time.
  void write_store_event(const StoreEvent& event) {
    const int64_t step = session_->step_count();
    const bool is_routine = event.kind == StoreEvent::Kind::kStash ||
                            event.kind == StoreEvent::Kind::kFetch ||
                            event.kind == StoreEvent::Kind::kRelease;
    if (is_routine && n_steps_ > 0 && n_steps_ % kStepsPerStoreEvents != 0) return;
    Json::Object fields;
    if (event.tensor >= 0) {
      const std::string& name = manifest_.store.entries[static_cast<size_t>(event.tensor)].name;
      fields.push_back({"tensor", name});
      fields.push_back({"bits", event.bits});
    }
    fields.push_back({"raw_bytes", static_cast<int64_t>(event.raw_bytes)});
    fields.push_back({"stored_bytes", static_cast<int64_t>(event.stored_bytes)});
    fields.push_back({"used_bytes", static_cast<int64_t>(event.used_bytes)});
    trace_.write(event_json(name_of(event.kind), step, elapsed_us(), std::move(fields)));
  }

  void save() {
    session_->save(request_.save);
    saved_step_ = session_->step_count();
    write_event("checkpoint", request_.save);
  }

  void write_event(const char* event, const std::string& path) {
    trace_.write(event_json(event, session_->step_count(), elapsed_us(), {{"path", path}}));
  }

  std::string write_footer(EndReason reason, std::optional<std::string> error) {
    observe_memory();
    TraceFooter footer;
    footer.reason = reason;
    footer.steps = n_steps_;
    footer.peak_rss_bytes = std::max(process_.peak_rss, peak_rss_and_swap_);
    footer.peak = held_;
    footer.t_us = elapsed_us();
    footer.error = std::move(error);
    return trace_.write(to_json(footer));
  }

  // The footer of a failed run must not hide why it failed.
  void write_last_footer(const std::string& error) noexcept {
    try {
      write_footer(EndReason::kError, error);
    } catch (const std::exception&) {
    }
  }

  void observe_memory() {
    process_ = read_process_memory();
    peak_rss_and_swap_ = std::max(peak_rss_and_swap_, process_.rss + process_.swap);
    if (session_) held_ = session_->memory();  // its parts only grow
  }

  int64_t elapsed_us() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 started_)
        .count();
  }

  const RunRequest& request_;
  const RunHost& host_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const std::thread::id thread_ = std::this_thread::get_id();
  const Manifest manifest_;
  TraceWriter trace_;
  std::mutex waiting_mutex_;
  std::vector<StoreEvent> waiting_;
  std::optional<TrainingSession> session_;
  std::optional<Dataset> dataset_;
  int64_t n_steps_ = 0;
  std::optional<int64_t> saved_step_;
  MemoryParts held_;
  ProcessMemory process_;
  int64_t peak_rss_and_swap_ = 0;
  int64_t temperature_read_us_ = 0;
  bool has_fallen_back_ = false;
};

}  // namespace

std::string run(const RunRequest& request, const RunHost& host) {
  return Run(request, host).execute();
}

}  // namespace daf
