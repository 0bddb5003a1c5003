"""The same training in PyTorch: the peer that `daf demo` and `daf bench` compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from daf.exporter.load import ModelFile
from daf.manifest import Manifest


class EagerTrainer:
    """Model, loss and optimizer as the program was exported with; in float64, to see how exact float32 is."""

    def __init__(self, model_file: ModelFile, manifest: Manifest, dtype: torch.dtype = torch.float32) -> None:
        self.model = model_file.make_model().train().to(dtype)
        self._dtype = dtype
        self._loss = model_file.loss
        self._optimizer = make_optimizer(self.model, manifest.optimizer)

    def step(self, inputs: list[torch.Tensor]) -> float:
        self._optimizer.zero_grad()
        inputs = [tensor.to(self._dtype) if tensor.is_floating_point() else tensor for tensor in inputs]
        loss = self._loss(self.model(*inputs[:-1]), inputs[-1])
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def step_with_lr(self, inputs: list[torch.Tensor], lr: float) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        return self.step(inputs)


def make_optimizer(model: torch.nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    common = {"lr": settings["lr"], "weight_decay": settings["weight_decay"]}
    if settings["name"] == "sgd":
        return torch.optim.SGD(trained, momentum=settings["momentum"], nesterov=settings["nesterov"], **common)
    return torch.optim.AdamW(trained, betas=(settings["beta1"], settings["beta2"]), eps=settings["eps"], **common)


def batches_of_run(
    manifest: Manifest, data: Mapping[str, torch.Tensor], steps: int, seed: int
) -> Iterator[list[torch.Tensor]]:
    """The batches that `daf run` takes, in its order."""
    from daf import native

    names = [tensor.name for tensor in manifest.train_step.inputs]
    n_samples, size = len(data[names[0]]), manifest.batch_size
    per_epoch = -(-n_samples // size) if manifest.dynamic_batch else n_samples // size
    for step in range(steps):
        epoch, place = divmod(step, per_epoch)
        order = native.epoch_order(seed, epoch, n_samples)[place * size : (place + 1) * size]
        rows = torch.from_numpy(np.asarray(order, dtype=np.int64))
        yield [data[name][rows] for name in names]
