#include "runtime_ops/session/manifest.h"

#include <algorithm>
#include <cmath>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/file.h"
#include "runtime_ops/session/json_fields.h"
#include "runtime_ops/store/plan.h"

namespace daf {
namespace {

constexpr uint64_t kMaxManifestBytes = 64'000'000;
constexpr int64_t kMaxInstructions = 1 << 30;
constexpr int64_t kMaxStoredElements = int64_t{1} << 40;
constexpr int kMaxPlanes = 8;

void check_format(const JsonFields& fields) {
  if (fields.string("format") != "daf-manifest") throw FormatError("it is not a daf manifest");
  const int64_t schema = fields.integer("schema");
  if (schema != kManifestSchema) {
    throw FormatError("built for schema " + std::to_string(kManifestSchema) + ", the program has " +
                      std::to_string(schema));
  }
}

TensorSpec parse_tensor(const JsonFields& fields) {
  TensorSpec spec;
  spec.name = fields.string("name");
  const std::string dtype = fields.string("dtype");
  const std::optional<DType> known = dtype_from_numpy_name(dtype);
  if (!known) fields.fail("dtype", "'" + dtype + "' is not supported");
  spec.dtype = *known;
  spec.shape = fields.sizes("shape");
  if (!tensor_size_bytes(spec.dtype, spec.shape)) fields.fail("shape", "it is too large");
  return spec;
}

RuntimeInput parse_runtime_input(const JsonFields& fields, const Json& item) {
  const std::string* name = item.string();
  if (name != nullptr && *name == "lr") return RuntimeInput::kLr;
  if (name != nullptr && *name == "clock") return RuntimeInput::kClock;
  fields.fail("runtime_inputs", "expected \"lr\" or \"clock\", found " + item.dump());
}

PhaseRun parse_phase(const JsonFields& fields, const Json& item) {
  const Json::Array* pair = item.array();
  if (pair != nullptr && pair->size() == 2 && (*pair)[0].string() && (*pair)[1].integer()) {
    const std::string& name = *(*pair)[0].string();
    const int64_t n_instructions = *(*pair)[1].integer();
    for (size_t i = 0; i < kPhaseNames.size(); ++i) {
      if (name == kPhaseNames[i] && n_instructions >= 0 && n_instructions < kMaxInstructions) {
        return {static_cast<Phase>(i), n_instructions};
      }
    }
  }
  fields.fail("phases", "expected [\"forward|backward|update\", count], found " + item.dump());
}

MethodSpec parse_method(const JsonFields& fields) {
  MethodSpec method;
  for (const JsonFields& input : fields.objects("inputs")) {
    method.inputs.push_back(parse_tensor(input));
  }
  for (const Json& item : fields.array("runtime_inputs")) {
    method.runtime_inputs.push_back(parse_runtime_input(fields, item));
  }
  for (const JsonFields& output : fields.objects("outputs")) {
    method.outputs.push_back(output.string("name"));
  }
  if (fields.find("phases") != nullptr) {
    for (const Json& item : fields.array("phases")) {
      method.phases.push_back(parse_phase(fields, item));
    }
  }
  return method;
}

// Axis 0 of every data input is the batch.
void check_batch_axis(const Manifest& manifest, const MethodSpec& method) {
  for (const TensorSpec& input : method.inputs) {
    if (input.shape.empty() || input.shape[0] != manifest.batch_size) {
      throw FormatError("input '" + input.name + "' is " + input.type_and_shape() +
                        ", axis 0 must be the batch of " + std::to_string(manifest.batch_size));
    }
  }
}

StateTensor parse_state_tensor(const JsonFields& fields) {
  StateTensor tensor;
  tensor.spec = parse_tensor(fields);
  tensor.offset = fields.size("offset");
  const std::string kind = fields.string("kind");
  if (kind == "parameter") {
    tensor.kind = StateKind::kParameter;
  } else if (kind == "buffer") {
    tensor.kind = StateKind::kBuffer;
  } else if (kind == "optimizer" || kind == "index") {
    tensor.kind = kind == "index" ? StateKind::kIndex : StateKind::kOptimizer;
    tensor.parameter = fields.string("parameter");
    tensor.spec.name = tensor.parameter + "." + fields.string("slot");
  } else {
    fields.fail("kind", "expected parameter, buffer, optimizer or index, found '" + kind + "'");
  }
  return tensor;
}

// Tensors lie inside the state's memory and do not overlap; names are unique.
void check_state(const Manifest& manifest) {
  std::vector<const StateTensor*> by_offset;
  std::vector<std::string> names;
  for (const StateTensor& tensor : manifest.state) {
    by_offset.push_back(&tensor);
    names.push_back(tensor.spec.name);
  }
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) throw FormatError("state tensor '" + *twin + "' is there twice");

  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->spec.size_bytes()) < std::pair(b->offset, b->spec.size_bytes());
  });
  int64_t end = 0;
  for (const StateTensor* tensor : by_offset) {
    if (tensor->offset < end) {
      throw FormatError("state tensor '" + tensor->spec.name + "' overlaps another");
    }
    const int64_t size_bytes = tensor->spec.size_bytes();
    if (size_bytes > manifest.state_size_bytes ||
        tensor->offset > manifest.state_size_bytes - size_bytes) {
      throw FormatError("state tensor '" + tensor->spec.name + "' is outside the state's memory");
    }
    end = tensor->offset + size_bytes;
  }
}

Json parse_activations(const JsonFields& activations) {
  Json::Array kept;
  for (const JsonFields& tensor : activations.objects("kept")) {
    kept.push_back(Json::Object{{"name", tensor.string("name")},
                                {"module", tensor.string("module")},
                                {"scheme", tensor.string("scheme")},
                                {"raw_bytes", tensor.size("raw_bytes")},
                                {"stored_bytes", tensor.size("stored_bytes")}});
  }
  return kept;
}

MapEncoding parse_map(const JsonFields& entry, int64_t n_elements) {
  const JsonFields fields = entry.object("map");
  MapEncoding map;
  map.height = fields.size("height");
  map.width = fields.size("width");
  map.block_height = fields.size("block_height");
  map.block_width = fields.size("block_width");
  if (const std::string reason = why_unusable(map, n_elements); !reason.empty()) {
    entry.fail("map", reason);
  }
  return map;
}

StoreEntry parse_store_entry(const JsonFields& fields) {
  StoreEntry entry;
  entry.name = fields.string("name");
  entry.n_elements = fields.size("n_elements");
  entry.bits = static_cast<int>(std::min<int64_t>(fields.size("bits"), kMaxPlanes + 1));
  entry.min_bits = static_cast<int>(std::min<int64_t>(fields.size("min_bits"), kMaxPlanes + 1));
  entry.sensitivity = fields.number("sensitivity");
  if (entry.n_elements < 1 || entry.n_elements > kMaxStoredElements) {
    fields.fail("n_elements", "must be from 1 to " + std::to_string(kMaxStoredElements));
  }
  if (entry.min_bits < 1 || entry.bits < entry.min_bits || entry.bits > kMaxPlanes) {
    fields.fail("bits", "must be from min_bits to " + std::to_string(kMaxPlanes));
  }
  if (!(entry.sensitivity >= 0) || std::isinf(entry.sensitivity)) {
    fields.fail("sensitivity", "must be a number of at least 0");
  }
  if (fields.find("map") != nullptr) entry.map = parse_map(fields, entry.n_elements);
  entry.are_probabilities = fields.boolean("probabilities", false);
  return entry;
}

StorePlan parse_store(const JsonFields& fields) {
  const int64_t schema = fields.integer("schema");
  if (schema != kStoreSchema) {
    fields.fail("schema", "this runtime stores activations by schema " +
                              std::to_string(kStoreSchema) + ", the program by " +
                              std::to_string(schema));
  }
  StorePlan plan;
  for (const JsonFields& entry : fields.objects("entries")) {
    plan.entries.push_back(parse_store_entry(entry));
  }
  const std::optional<Importance> importance = importance_named(fields.string("importance"));
  if (!importance) fields.fail("importance", "must be uniform, calibrated or gradient");
  plan.importance = *importance;
  plan.chunk_bytes = fields.size("chunk_bytes");
  if (const Json* budget = fields.find("budget_bytes"); budget != nullptr && !budget->is_null()) {
    plan.budget_bytes = fields.size("budget_bytes");
  }
  return plan;
}

UpdatePlan parse_update(const JsonFields& fields) {
  UpdatePlan plan;
  if (fields.find("layers") == nullptr) return plan;
  for (const JsonFields& layer : fields.objects("layers")) {
    plan.layers.push_back({layer.string("name"), layer.string("parameter"), layer.size("axis"),
                           layer.size("channels"), layer.size("chosen")});
    if (plan.layers.back().n_channels < 1) layer.fail("channels", "must be at least 1");
  }
  const std::string selection = fields.string("select");
  if (selection == "gradient") {
    plan.selection = ChannelSelection::kGradient;
  } else if (selection == "random") {
    plan.selection = ChannelSelection::kRandom;
  } else if (selection != "norm") {
    fields.fail("select", "must be norm, gradient or random");
  }
  plan.rotate_every = fields.size("rotate_every");
  return plan;
}

}  // namespace

std::optional<Importance> importance_named(const std::string& name) {
  if (name == "uniform") return Importance::kUniform;
  if (name == "calibrated") return Importance::kCalibrated;
  if (name == "gradient") return Importance::kGradient;
  return std::nullopt;
}

int64_t StorePlan::planned_pool_bytes() const {
  return entries.empty() ? 0 : static_cast<int64_t>(ActivationStore::planned_bytes(entries));
}

Manifest Manifest::parse(const std::string& text) {
  const Json document = Json::parse(text);
  const JsonFields fields(document, "");
  check_format(fields);
  Manifest manifest;
  const JsonFields program = fields.object("program");
  manifest.program_file = program.string("file");
  manifest.program_size_bytes = program.size("size_bytes");
  manifest.program_sha256 = program.string("sha256");
  manifest.model_name = fields.object("model").string("name");
  manifest.batch_size = fields.size("batch_size");
  manifest.dynamic_batch = fields.boolean("dynamic_batch");
  const JsonFields optimizer = fields.object("optimizer");
  if (optimizer.string("name") != "none") manifest.lr = optimizer.number("lr");

  const JsonFields methods = fields.object("methods");
  manifest.train_step = parse_method(methods.object("train_step"));
  manifest.predict = parse_method(methods.object("predict"));
  if (manifest.batch_size == 0) throw FormatError("batch_size: must be at least 1, found 0");
  check_batch_axis(manifest, manifest.train_step);
  check_batch_axis(manifest, manifest.predict);
  if (manifest.train_step.outputs.empty() || manifest.train_step.outputs[0] != "loss") {
    throw FormatError("methods.train_step.outputs: the first must be the loss");
  }

  const JsonFields state = fields.object("state");
  manifest.state_memory_id = state.size("memory_id");
  manifest.state_size_bytes = state.size("size_bytes");
  for (const JsonFields& tensor : state.objects("tensors")) {
    manifest.state.push_back(parse_state_tensor(tensor));
  }
  check_state(manifest);
  manifest.activations = parse_activations(fields.object("activations"));
  if (fields.find("store") != nullptr) manifest.store = parse_store(fields.object("store"));
  if (fields.find("update") != nullptr) manifest.update = parse_update(fields.object("update"));
  manifest.memory_plan = fields.get("memory");
  manifest.activation_bytes = fields.object("memory").size("activations");
  manifest.gradient_bytes = fields.object("memory").size("gradients");
  return manifest;
}

Manifest Manifest::load(const std::string& path) {
  const auto fail = [&](const FormatError& error, const char* next_step) {
    return DafError(Exit::kProgram,
                    "cannot use the manifest " + path + ": " + error.what() + "; " + next_step);
  };
  std::string text;
  try {
    text = read_text_file(path, kMaxManifestBytes);
  } catch (const FormatError& error) {
    throw fail(error, "daf-export writes it beside the program, keep the two together");
  }
  try {
    return parse(text);
  } catch (const FormatError& error) {
    throw fail(error, "export again with this version of daf-export");
  }
}

}  // namespace daf
