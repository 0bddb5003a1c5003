#include "runtime_ops/session/run_request.h"

#include <cmath>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/json_fields.h"

namespace daf {
namespace {

constexpr int64_t kRequestSchema = 1;

bool is_given(const JsonFields& fields, const char* key) {
  const Json* value = fields.find(key);
  return value != nullptr && !value->is_null();
}

std::string path_or_empty(const JsonFields& fields, const char* key) {
  if (!is_given(fields, key)) return "";
  std::string path = fields.string(key);
  if (path.empty()) fields.fail(key, "must not be empty");
  return path;
}

std::string required_path(const JsonFields& fields, const char* key) {
  std::string path = fields.string(key);
  if (path.empty()) fields.fail(key, "must not be empty");
  return path;
}

int64_t size_or(const JsonFields& fields, const char* key, int64_t fallback) {
  return fields.find(key) == nullptr ? fallback : fields.size(key);
}

ScheduleKind parse_schedule(const JsonFields& fields) {
  if (fields.find("schedule") == nullptr) return ScheduleKind::kConstant;
  const std::string name = fields.string("schedule");
  if (name == "constant") return ScheduleKind::kConstant;
  if (name == "cosine") return ScheduleKind::kCosine;
  fields.fail("schedule", "expected constant or cosine, found '" + name + "'");
}

ReduceMode parse_reduce(const JsonFields& fields) {
  if (fields.find("reduce") == nullptr) return ReduceMode::kAuto;
  const std::string name = fields.string("reduce");
  const ReduceMode* mode = find_reduce_mode(name);
  if (mode == nullptr) {
    fields.fail("reduce", "expected auto, cpu, vulkan or opencl, found '" + name + "'");
  }
  return *mode;
}

RunRequest parse_fields(const JsonFields& fields) {
  const int64_t schema = fields.integer("schema");
  if (schema != kRequestSchema) {
    fields.fail("schema", "this runtime reads " + std::to_string(kRequestSchema) + ", found " +
                              std::to_string(schema));
  }
  fields.refuse_unknown({"schema",      "program",      "manifest",   "data",     "steps",
                         "seed",        "shuffle",      "lr",         "schedule", "warmup_steps",
                         "total_steps", "save",         "save_every", "resume",   "trace",
                         "config",      "budget_bytes", "importance", "reduce",   "reduce_table"});
  RunRequest request;
  request.program = required_path(fields, "program");
  request.manifest = required_path(fields, "manifest");
  request.data = required_path(fields, "data");
  request.steps = fields.size("steps");
  request.seed = fields.integer("seed", 0);
  request.shuffle = fields.boolean("shuffle", true);
  if (is_given(fields, "lr")) {
    request.lr = fields.number("lr");
    if (*request.lr < 0) fields.fail("lr", "must not be negative");
  }
  request.schedule = parse_schedule(fields);
  request.warmup_steps = size_or(fields, "warmup_steps", 0);
  request.total_steps = size_or(fields, "total_steps", request.steps);
  if (is_given(fields, "budget_bytes")) request.budget_bytes = fields.size("budget_bytes");
  if (is_given(fields, "importance")) {
    request.importance = importance_named(fields.string("importance"));
    if (!request.importance) fields.fail("importance", "must be uniform, calibrated or gradient");
  }
  request.save = path_or_empty(fields, "save");
  request.save_every = size_or(fields, "save_every", 0);
  if (request.save_every > 0 && request.save.empty()) fields.fail("save_every", "needs save");
  request.resume = path_or_empty(fields, "resume");
  request.trace = path_or_empty(fields, "trace");
  request.reduce = parse_reduce(fields);
  request.reduce_table = path_or_empty(fields, "reduce_table");
  if (fields.find("config") != nullptr) {
    fields.object("config");
    request.config = fields.get("config");
  }
  return request;
}

}  // namespace

RunRequest RunRequest::parse(const std::string& text) {
  try {
    const Json document = Json::parse(text);
    return parse_fields(JsonFields(document, ""));
  } catch (const FormatError& error) {
    throw DafError(Exit::kUsage, std::string("cannot read the run request: ") + error.what() +
                                     "; use the same version of daf on both sides");
  }
}

}  // namespace daf
