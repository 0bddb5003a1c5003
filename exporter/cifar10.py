"""CIFAR-10 for models of the zoo: `cifar10_10k.npz` in the folder that the environment variable DAF_DATA_DIR names.

Arrays train_x, train_y, test_x, test_y; pictures are uint8 NHWC, 32 x 32.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from daf.errors import Exit, UserError

MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
STD = torch.tensor([0.2470, 0.2435, 0.2616])
CLASSES = 10


def is_available() -> bool:
    return bool(os.environ.get("DAF_DATA_DIR"))


def load(split: str, model: str) -> tuple[Tensor, Tensor]:
    """Pictures (normalised, NCHW) and classes. `model` is for messages."""
    folder = os.environ.get("DAF_DATA_DIR")
    if not folder:
        raise UserError(
            f"cannot load the data of {model}: DAF_DATA_DIR is not set; set it to the folder with cifar10_10k.npz",
            Exit.DATA,
        )
    file = Path(folder) / "cifar10_10k.npz"
    try:
        with np.load(file) as arrays:
            pixels, labels = arrays[f"{split}_x"], arrays[f"{split}_y"]
    except Exception as error:
        raise UserError(
            f"cannot load the data of {model} from {file}: {error}; set DAF_DATA_DIR to the folder that holds it",
            Exit.DATA,
        ) from error
    x = (torch.from_numpy(pixels).float() / 255.0 - MEAN) / STD
    return x.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels).to(torch.int64)
