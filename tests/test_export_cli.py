"""`daf-export` as a user meets it: what it prints, what it writes, and how it refuses bad input.

The command runs in this process where that makes no difference: a start takes seconds of imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from commands import daf_export
from training import native  # first: it silences what torch reports on import

from daf.cli_errors import run_command
from daf.errors import Exit
from daf.exporter import check, cli
from daf.exporter import write as write_module

MODEL = """\
import torch
import torch.nn.functional as F
from torch import nn

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(4))

    def forward(self, x):
        return x * {scale}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.scale = nn.ModuleDict({{"inner": Scale()}})

    def forward(self, x):
        {first}
        return self.layer(self.scale["inner"](x))

def model():
    torch.manual_seed(0)
    return Net(){frozen}

def batch(batch_size: int = 5):
    return torch.ones(batch_size, 4), torch.zeros(batch_size, dtype=torch.int64)

def loss(output, target):
    return F.cross_entropy(output, target{reduction})
"""


def model_text(scale: str = "2", first: str = "pass", frozen: str = "", reduction: str = "") -> str:
    return MODEL.format(scale=scale, first=first, frozen=frozen, reduction=reduction)


@dataclass
class Done:
    exit_code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs daf-export in this process."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["daf-export", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            run_command(cli.export)
        return Done(int(caught.value.code or 0), *capfd.readouterr())

    return run


def write_model(folder: Path, **changes: str) -> Path:
    path = folder / "mine.py"
    path.write_text(model_text(**changes))
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


def assert_refused(done: Done, exit_code: Exit, *parts: str) -> None:
    assert done.exit_code == exit_code, done.err
    assert done.err.startswith("error: "), done.err
    assert len(done.err.strip().splitlines()) == 1, done.err
    for part in parts:
        assert part in done.err


# ---- what works -------------------------------------------------------------------------------------------------


def test_help_has_examples_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from daf.exporter.cli import export\n"
        "export.main(['--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'executorch', 'numpy', 'safetensors', 'daf._native'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Examples:\n    daf-export cnn_digits -o digits.pte\n" in done.stdout
    for parameter in cli.export.params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[-1] in done.stdout


def test_shows_phases_and_a_table(run: Run, tmp_path: Path) -> None:
    output, dump = tmp_path / "mine.pte", tmp_path / "graphs"
    done = run(
        write_model(tmp_path), "--optimizer", "adamw", "--batch-size", 3, "--dump", dump, "--check", "-o", output
    )
    assert (done.exit_code, done.err) == (Exit.OK, "")
    phases = [line.split("]")[1].split("  ")[0].strip() for line in done.out.splitlines() if line.startswith("[")]
    assert phases == [
        "load",
        "capture",
        "canonicalize",
        "plan update",
        "find saved activations",
        "assign schemes",
        "compress activations",
        "fuse operators",
        "fuse the optimizer",
        "lower",
        "write",
    ]
    for row in ("parameters ", "trainable parameters ", "activations kept ", "planned arena ", "predicted peak "):
        assert f"\n{row}" in done.out
    assert "check: largest relative gradient error" in done.out
    written = ["mine.daf.json", "mine.example.safetensors", "mine.pte"]
    assert names_in(tmp_path) == ["graphs", *written, "mine.py"]
    manifest = json.loads((tmp_path / "mine.daf.json").read_text())
    assert (manifest["batch_size"], manifest["optimizer"]["name"]) == (3, "adamw")
    native.Session(str(output), str(tmp_path / "mine.daf.json"))

    methods = ("predict", "train_step")
    numbered = [f"{number:02d}-{name.replace(' ', '-')}" for number, name in enumerate(phases, start=1)][1:]
    assert names_in(dump) == [f"{name}.{method}.txt" for name in numbered for method in methods]
    assert "torch.ops.aten.addmm.default" in (dump / "02-capture.train_step.txt").read_text()
    assert "torch.ops.daf.gemm.default" in (dump / "03-canonicalize.train_step.txt").read_text()
    assert "adamw_" in (dump / "09-fuse-the-optimizer.train_step.txt").read_text()
    assert "adamw_" not in (dump / "09-fuse-the-optimizer.predict.txt").read_text()


def test_quiet_prints_nothing(run: Run, tmp_path: Path) -> None:
    done = run(write_model(tmp_path), "--quiet", "--momentum", 0, "-o", tmp_path / "mine.pte")
    assert done == Done(Exit.OK, "", "")
    assert (tmp_path / "mine.pte").is_file()
    optimizer = json.loads((tmp_path / "mine.daf.json").read_text())["optimizer"]
    assert optimizer == {"name": "sgd", "lr": 0.01, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False}


def test_a_failed_check_is_exit_code_1(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = check.program_gradients
    monkeypatch.setattr(check, "program_gradients", lambda *a: {n: 1.1 * g for n, g in right(*a).items()})
    done = run(write_model(tmp_path), "--quiet", "--check", "-o", tmp_path / "mine.pte")
    assert_refused(done, Exit.CHECK_FAILED, "the program's step differs from eager by more than 0.001")
    assert "check: largest relative gradient error 1.0e-01, in " in done.out


# ---- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing argument 'MODEL'"),
        (["mlp_digits"], "Missing option '-o'"),
        (["mlp_digits", "-o", "x.bin"], "x.bin does not end in .pte"),
        (["mlp_digits", "-o", "x.pte", "--set", "width"], "'width' is not of the form name=value"),
        (["mlp_digits", "-o", "x.pte", "--batch-size", "0"], "'--batch-size'"),
        (["mlp_digits", "-o", "x.pte", "--optimizer", "adam"], "'adam' is not one of 'sgd', 'adamw', 'none'"),
        (["mlp_digits", "-o", "x.pte", "--momentum", "1"], "'--momentum'"),
        (["mlp_digits", "-o", "x.pte", "--lr", "-1"], "'--lr'"),
        (["mlp_digits", "-o", "x.pte", "--optimizer", "adamw", "--momentum", "0.5"], "adamw has no such setting"),
        (["mlp_digits", "-o", "x.pte", "--optimizer", "none", "--weight-decay", "1"], "none has no such setting"),
        (["mlp_digits", "-o", "x.pte", "--nesterov", "--momentum", "0"], "Nesterov momentum needs a momentum"),
        (["mlp_digits", "-o", "x.pte", "--activations", "int2"], "'int2' is not"),
        (["mlp_digits", "-o", "x.pte", "--lfc-block", "8"], "only division has it; add --activations division"),
        (["mlp_digits", "-o", "x.pte", "--activations", "daf", "--hfc-bits", "2"], "only division has it"),
        (["mlp_digits", "-o", "x.pte", "--activations", "division", "--hfc-bits", "9"], "not in the range 1<=x<=8"),
        (["mlp_digits", "-o", "x.pte", "--activations", "division", "--lfc-block", "1"], "not in the range 2<=x<=64"),
        (["mlp_digits", "-o", "x.pte", "--activations", "division", "--lfc-block", "a"], "'a' is not a valid int"),
        (["mlp_digits", "-o", "x.pte", "--activations", "division", "--bits", "2"], "division has --hfc-bits instead"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors(run: Run, arguments: list[str], told: str) -> None:
    done = run(*arguments)
    assert done.exit_code == Exit.USAGE
    assert done.err.startswith("Usage: ")
    assert told in done.err


def test_unknown_setting(run: Run, tmp_path: Path) -> None:
    done = run("mlp_digits", "--set", "widht=3", "-o", tmp_path / "x.pte")
    assert_refused(done, Exit.USAGE, "cannot set widht of mlp_digits.py", "did you mean width?")


# ---- bad input --------------------------------------------------------------------------------------------------


def test_no_such_model(run: Run, tmp_path: Path) -> None:
    assert_refused(run("nowhere.py", "-o", tmp_path / "x.pte"), Exit.MODEL, "cannot load nowhere.py: no such file")
    assert_refused(run("resnet19", "-o", tmp_path / "x.pte"), Exit.MODEL, "did you mean resnet18?")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reduction": ", reduction='none'"}, "cannot train on loss(): it returned a tensor of shape [5]"),
        ({"frozen": ".requires_grad_(False)"}, "no parameter is trainable"),
        ({"frozen": " + 1"}, "model() raised TypeError at line 25"),
        ({"first": "x = x[:, :3]"}, "cannot run the model on its batch: RuntimeError: The size of tensor"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unusable_model(run: Run, tmp_path: Path, changes: dict[str, str], told: str) -> None:
    if "first" in changes:
        changes = {**changes, "scale": "self.matrix[0]"}
    done = run(write_model(tmp_path, **changes), "--quiet", "-o", tmp_path / "x.pte")
    assert_refused(done, Exit.MODEL, told)
    assert not (tmp_path / "x.pte").exists()


def test_missing_contract_and_broken_files(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    for text, told in (
        ("", "it does not define model() or batch() or loss()"),
        ("x = 1\nx.y\n", "importing it raised AttributeError at line 2"),
        ("def model(\n", "importing it raised SyntaxError at line 1"),
    ):
        path.write_text(text)
        assert_refused(run(path, "-o", tmp_path / "x.pte"), Exit.MODEL, f"cannot use {path}: {told}")


def test_unsupported_operator_in_forward(run: Run, tmp_path: Path) -> None:
    path = write_model(tmp_path, scale="torch.linalg.det(self.matrix)")
    done = run(path, "--quiet", "-o", tmp_path / "x.pte")
    told = f"in module scale.inner ({path}:11: return x * torch.linalg.det(self.matrix))"
    assert_refused(
        done, Exit.UNSUPPORTED, "the model needs aten::_linalg_det, for which the runtime has no kernel", told
    )
    assert not (tmp_path / "x.pte").exists()


def test_unsupported_operator_in_backward(run: Run, tmp_path: Path) -> None:
    path = write_model(tmp_path, scale="F.threshold(self.matrix[0], 0.1, 0.0)")
    done = run(path, "--quiet", "-o", tmp_path / "x.pte")
    place = f"in module scale.inner ({path}:11: return x * F.threshold(self.matrix[0], 0.1, 0.0))"
    assert_refused(done, Exit.UNSUPPORTED, place)


def test_data_dependence(tmp_path: Path) -> None:
    """In a process of its own: nothing that torch prints may reach the user."""
    path = write_model(tmp_path, first="x = x * 2 if x.sum() > 0 else x")
    done = daf_export(path, "--quiet", "-o", tmp_path / "x.pte")
    place = f"({path}:20: x = x * 2 if x.sum() > 0 else x)"
    assert_refused(
        Done(done.returncode, done.stdout, done.stderr), Exit.UNSUPPORTED, "depends on the data", place, "torch.where"
    )
    assert done.stdout == ""


# ---- output folders ---------------------------------------------------------------------------------------------


def test_impossible_output(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder.pte").mkdir()
    for output, told in (
        (tmp_path / "nowhere" / "x.pte", "its folder does not exist"),
        (tmp_path / "folder.pte", "it is a folder"),
    ):
        assert_refused(run("mlp_digits", "-o", output), Exit.OUTPUT, f"cannot write {output}: {told}")
    (tmp_path / "file").touch()
    done = run("mlp_digits", "-o", tmp_path / "x.pte", "--dump", tmp_path / "file" / "graphs")
    assert_refused(done, Exit.OUTPUT, "is not a folder")


def test_read_only_folder_is_found_before_the_work(run: Run, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert_refused(run("no_such_model", "-o", small_disk / "x.pte"), Exit.OUTPUT, "the folder is read-only")


def test_full_disk(run: Run, tmp_path: Path, small_disk: Path) -> None:
    disk = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes((disk.f_bavail - 1) * disk.f_frsize))
    done = run(write_model(tmp_path), "--quiet", "-o", small_disk / "x.pte")
    assert_refused(done, Exit.OUTPUT, f"cannot write {small_disk}/x.pte: the disk is full")
    assert os.listdir(small_disk) == ["filler"]


def test_interrupted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(write_module, "_manifest", interrupt)  # between the program and its manifest
    done = run(write_model(tmp_path), "--quiet", "-o", tmp_path / "x.pte")
    assert (done.exit_code, done.err.strip()) == (Exit.INTERRUPTED, "error: interrupted")
    assert names_in(tmp_path) == ["mine.py"], "nothing is left"
