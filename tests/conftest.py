from __future__ import annotations

import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import daf, daf_export

if TYPE_CHECKING:
    from training import Export

# A shell starts what it puts in the background with Ctrl-C ignored, and so would be every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"needs root to mount a small disk: {mount.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture(scope="session")
def cnn_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cnn_digits, exported with SGD and momentum. Shared by all tests: copy what you change."""
    program = tmp_path_factory.mktemp("cnn_program") / "cnn.pte"
    done = daf_export("cnn_digits", "--optimizer", "sgd", "--batch-size", "32", "-o", program)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training split of the handwritten digits."""
    path = tmp_path_factory.mktemp("digits") / "train.safetensors"
    done = daf("data", "cnn_digits", "--split", "train", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="session")
def app_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app's logic and its tests, compiled."""
    from java_app import compile_core

    return compile_core(tmp_path_factory.mktemp("app"))


@pytest.fixture(scope="session")
def cnn_export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """A small cnn_digits with SGD, exported in this process. Shared by all tests: copy what you change."""
    from training import Sgd, export_model
    from zoo_settings import SMALL

    optimizer = Sgd(lr=0.1, momentum=0.9, weight_decay=0.001)
    return export_model("cnn_digits", tmp_path_factory.mktemp("cnn_export"), optimizer, SMALL["cnn_digits"])


@pytest.fixture(scope="session")
def dropout_export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """A perceptron with two dropouts and AdamW, exported in this process. Shared as above."""
    from training import AdamW, export_model

    model = Path(__file__).parent / "models" / "dropout.py"
    return export_model(str(model), tmp_path_factory.mktemp("dropout_export"), AdamW(lr=0.01))


@pytest.fixture(scope="session")
def plain_export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """A small mlp_digits without optimizer, exported in this process. Shared as above."""
    from training import NoOptimizer, export_model
    from zoo_settings import SMALL

    return export_model("mlp_digits", tmp_path_factory.mktemp("plain_export"), NoOptimizer(), SMALL["mlp_digits"])


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runner for this machine, in a folder with its libraries as it lies on a device."""
    from daf.tools.adb.bundle import find_bundle

    folder = tmp_path_factory.mktemp("runner")
    for path in find_bundle(f"linux-{platform.machine()}", "this machine").files:
        shutil.copy(path, folder)
    return folder / "daf_runner"
