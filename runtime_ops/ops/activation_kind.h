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

// Of an activation that is a clamp, which other operators can do on the way.
struct Bounds {
  float low, high;
};
inline Bounds read_bounds(Arguments& args) {
  const Activation kind = read_activation(args);
  const auto a = static_cast<float>(args.number("a"));
  const auto b = static_cast<float>(args.number("b"));
  args.require(kind == Activation::kRelu || kind == Activation::kHardtanh,
               "only relu and hardtanh can be part of it");
  return kind == Activation::kRelu ? Bounds{0.0f, kNoBound} : Bounds{a, b};
}

}  // namespace daf::ops
