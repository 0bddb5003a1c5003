// Activations by the names that exporter/ops.py gives them.
#pragma once

#include <string_view>

#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
inline constexpr NamedActivation kActivations[] = {
    {"relu", Activation::kRelu},
    {"hardtanh", Activation::kHardtanh},
    {"leaky_relu", Activation::kLeakyRelu},
    {"elu", Activation::kElu},
    {"sigmoid", Activation::kSigmoid},
    {"tanh", Activation::kTanh},
    {"silu", Activation::kSilu},
    {"hardswish", Activation::kHardswish},
    {"gelu", Activation::kGelu},
    {"gelu_tanh", Activation::kGeluTanh},
    {"exp", Activation::kExp},
};

inline Activation read_activation(Arguments& args) {
  const std::string_view name = args.text("kind");
  for (const NamedActivation& kind : kActivations) {
    if (kind.name == name) return kind.activation;
  }
  args.fail("this runtime has no activation ", name);
}

}  // namespace daf::ops
