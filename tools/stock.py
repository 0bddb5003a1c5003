"""A training step as ExecuTorch alone runs it: forward and backward of the joint graph on its own kernels.

It has no kernels for batch normalisation in training, GELU's backward and random numbers, so few models can be run.
"""

from __future__ import annotations

import warnings

import torch
from executorch.exir import to_edge
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from torch import Tensor, nn
from torch.export.experimental import _export_forward_backward

from daf.exporter.load import ModelFile


class StockTrainer:
    def __init__(self, file: ModelFile) -> None:
        class Joint(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = file.make_model().train()

            def forward(self, *batch: Tensor) -> Tensor:
                return file.loss(self.model(*batch[:-1]), batch[-1])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            joint = _export_forward_backward(torch.export.export(Joint(), file.make_batch(), strict=True))
            self._buffer = to_edge(joint).to_executorch().buffer  # read in place
        self._program = _load_for_executorch_from_buffer(self._buffer)

    def step(self, batch: list[Tensor]) -> float:
        """The loss; the gradients are computed and dropped, no weight changes."""
        return float(self._program.run_method("forward", batch)[0])
