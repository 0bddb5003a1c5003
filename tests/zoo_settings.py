"""Settings that make each zoo model small enough for a test: milliseconds a step, all its kinds of layers kept."""

from __future__ import annotations

_SMALL_TRANSFORMER: dict[str, object] = {
    "layers": 2,
    "hidden": 32,
    "heads": 2,
    "vocab": 128,
    "sequence_length": 12,
    "rank": 2,
    "batch_size": 4,
}

SMALL: dict[str, dict[str, object]] = {
    "cnn_digits": {"width": 4, "batch_size": 8},
    "gpt2_lora": _SMALL_TRANSFORMER,
    "minilm_lora": _SMALL_TRANSFORMER,
    "mlp_digits": {"width": 16, "batch_size": 8},
    # The last maps are 1x1: with a small batch BatchNorm would divide by the deviation of a few numbers, and even
    # eager's float32 gradients be off by 1e-3 and more.
    "mobilenet_v2": {"width": 0.25, "resolution": 32, "batch_size": 16},
    "resnet18": {"width": 4, "batch_size": 4},
    "resnet50": {"width": 2, "resolution": 64, "batch_size": 4},
    "roberta_lora": _SMALL_TRANSFORMER,
    "smollm2_lora": {**_SMALL_TRANSFORMER, "heads": 4, "key_heads": 2},
    "vit_tiny": {"image_size": 16, "patch": 4, "layers": 2, "width": 32, "heads": 2, "batch_size": 4},
}

# Those that take a minute to export; tests of every model leave them to `make test-full`.
DEEP = {"resnet50"}
