#include "runtime_ops/session/trace.h"

#include <fcntl.h>

#include <cerrno>

namespace daf {
namespace {

constexpr int kTraceSchema = 1;
constexpr int kTraceMinor = 2;

Json::Object parts_json(const MemoryParts& parts) {
  return {{"weights", parts.weights},
          {"constants", parts.constants},
          {"optimizer", parts.optimizer},
          {"arena", parts.arena},
          {"activations", parts.activations},
          {"gradients", parts.gradients},
          {"pool", parts.pool},
          {"workspace", parts.workspace},
          {"batch", parts.batch}};
}

Json optional_json(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

const char* name_of(EndReason reason) {
  switch (reason) {
    case EndReason::kDone:
      return "done";
    case EndReason::kStopped:
      return "stopped";
    case EndReason::kError:
      return "error";
  }
  return "";
}

}  // namespace

Json to_json(const TraceHeader& header) {
  const DeviceFacts& device = header.device;
  return Json::Object{
      {"type", "header"},
      {"format", "daf-trace"},
      {"schema", kTraceSchema},
      {"minor", kTraceMinor},
      {"daf_version", DAF_VERSION},
      {"device", Json::Object{{"kind", header.device_kind},
                              {"model", device.model},
                              {"soc", device.soc},
                              {"os", device.os},
                              {"abi", device.abi},
                              {"cores", device.cores},
                              {"ram_bytes", device.ram_bytes}}},
      {"program", Json::Object{{"file", header.program_file},
                               {"sha256", header.program_sha256},
                               {"model", header.model_name}}},
      {"config", header.config},
      {"clock", Json::Object{{"unit", "us"}, {"started_unix_ms", header.started_unix_ms}}},
      {"memory_plan", header.memory_plan},
      {"rss_baseline_bytes", header.rss_baseline_bytes},
      {"available_bytes", header.available_bytes},
      {"activations", header.activations}};
}

Json to_json(const StepRow& row) {
  return Json::Object{{"type", "step"},
                      {"step", row.step},
                      {"t_us", row.t_us},
                      {"loss", row.loss},
                      {"lr", row.lr},
                      {"samples", row.samples},
                      {"forward_us", optional_json(row.forward_us)},
                      {"backward_us", optional_json(row.backward_us)},
                      {"update_us", optional_json(row.update_us)},
                      {"total_us", row.total_us},
                      {"peak", parts_json(row.peak)}};
}

Json to_json(const CounterRow& row) {
  Json::Object fields = {{"type", "counters"}, {"step", row.step}, {"t_us", row.t_us}};
  for (JsonMember& part : parts_json(row.held)) fields.push_back(std::move(part));
  fields.push_back({"rss", row.process.rss});
  fields.push_back({"peak_rss", row.process.peak_rss});
  fields.push_back({"swap", row.process.swap});
  fields.push_back({"available", row.process.available});
  if (row.pss_bytes) fields.push_back({"pss", *row.pss_bytes});
  if (row.temperature_mc) fields.push_back({"temperature_mc", *row.temperature_mc});
  return fields;
}

Json to_json(const TraceFooter& footer) {
  return Json::Object{{"type", "footer"},
                      {"completed", footer.reason == EndReason::kDone},
                      {"reason", name_of(footer.reason)},
                      {"steps", footer.steps},
                      {"peak_rss_bytes", footer.peak_rss_bytes},
                      {"peak", parts_json(footer.peak)},
                      {"t_us", footer.t_us},
                      {"error", footer.error ? Json(*footer.error) : Json()}};
}

Json event_json(const std::string& event, int64_t step, int64_t t_us, Json::Object fields) {
  Json::Object row = {{"type", "event"}, {"t_us", t_us}, {"step", step}, {"event", event}};
  for (JsonMember& field : fields) row.push_back(std::move(field));
  return row;
}

TraceWriter::TraceWriter(std::string path, OnLine on_line)
    : path_(std::move(path)), on_line_(std::move(on_line)) {
  if (path_.empty()) return;
  fd_ = FileDescriptor(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (fd_.get() < 0) fail_output(path_, errno);
}

std::string TraceWriter::write(const Json& row) {
  std::string line = row.dump();
  on_line_(line);
  if (fd_.get() >= 0) {
    line += '\n';
    if (const int error_number = write_all(fd_.get(), line.data(), line.size())) {
      fail_output(path_, error_number);
    }
    line.pop_back();
  }
  return line;
}

}  // namespace daf
