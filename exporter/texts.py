"""Texts for models of the zoo: MRPC and E2E, in the folder that the environment variable DAF_DATA_DIR names.

mrpc_{train,test}.csv.gz                  sentence1, sentence2, label: whether both say the same
e2e_{train_detok,dev,test}.csv.gz         mr, ref: what is known of a restaurant, and a text that says it
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from pathlib import Path

from daf.errors import Exit, UserError

_E2E_FILES = {"train": "train_detok"}  # of splits whose file has another name


def read_mrpc(split: str, model: str) -> tuple[list[tuple[str, str]], list[int]]:
    """Pairs of sentences, and 1 where they are paraphrases. `model` is for messages."""
    rows = _read(f"mrpc_{split}.csv.gz", ("sentence1", "sentence2", "label"), model)
    return [(first, second) for first, second, _ in rows], [int(label == "1") for _, _, label in rows]


def read_e2e(split: str, model: str) -> list[tuple[str, str]]:
    """Meaning representations and texts. `model` is for messages."""
    rows = _read(f"e2e_{_E2E_FILES.get(split, split)}.csv.gz", ("mr", "ref"), model)
    return [(meaning, text) for meaning, text in rows]


def _read(name: str, columns: tuple[str, ...], model: str) -> list[tuple[str, ...]]:
    folder = os.environ.get("DAF_DATA_DIR")
    if not folder:
        raise UserError(
            f"cannot load the data of {model}: DAF_DATA_DIR is not set; set it to the folder with {name}", Exit.DATA
        )
    file = Path(folder) / name
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
            return [tuple(row[column] for column in columns) for row in csv.DictReader(text)]
    except KeyError as error:
        problem = f"it has no column {error}"
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        problem = str(error)
    raise UserError(
        f"cannot load the data of {model} from {file}: {problem}; set DAF_DATA_DIR to the folder that holds it",
        Exit.DATA,
    )
