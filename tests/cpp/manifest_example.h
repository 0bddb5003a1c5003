// A small manifest, and the same with pieces of its text replaced.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace daf {

inline std::string example_manifest(
    const std::vector<std::pair<std::string, std::string>>& replacements = {}) {
  std::string text =
      R"({"format":"daf-manifest","schema":1,"daf_version":"0.1.0",)"
      R"("program":{"file":"m.pte","size_bytes":1000,"sha256":"abcd"},)"
      R"("model":{"name":"mlp","settings":{}},"batch_size":4,"dynamic_batch":false,)"
      R"("optimizer":{"name":"sgd","lr":0.5},)"
      R"("activations":{"mode":"fp32","kept":[{"name":"relu","module":"l","dtype":"float32",)"
      R"("shape":[4,2],"scheme":"keep","raw_bytes":32,"stored_bytes":32}]},)"
      R"("methods":{"train_step":{"inputs":[{"name":"x","dtype":"float32","shape":[4,2]},)"
      R"({"name":"target","dtype":"int64","shape":[4]}],"runtime_inputs":["lr","clock"],)"
      R"("outputs":[{"name":"loss"}],"phases":[["forward",3],["backward",5]]},)"
      R"("predict":{"inputs":[{"name":"x","dtype":"float32","shape":[4,2]}],)"
      R"("runtime_inputs":[],"outputs":[{"name":"output0"}]}},)"
      R"("state":{"memory_id":2,"size_bytes":128,"tensors":[)"
      R"({"name":"l.weight","kind":"parameter","dtype":"float32","shape":[2,2],"offset":0},)"
      R"({"name":"n","kind":"buffer","dtype":"int64","shape":[],"offset":16},)"
      R"({"name":"m","kind":"optimizer","parameter":"l.weight","slot":"momentum_buffer",)"
      R"("dtype":"float32","shape":[2,2],"offset":64}]},)"
      R"("memory":{"arena":7,"activations":6,"gradients":1}})";
  for (const auto& [from, to] : replacements) {
    const size_t at = text.find(from);
    if (at == text.npos) throw std::runtime_error("the manifest has no " + from);
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace daf
