"""`--update` and its options as a user meets them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import daf
from sparse_model import SOURCE
from training import native  # noqa: F401  (first: it silences what torch reports on import)

from daf.cli_errors import run_command
from daf.errors import Exit
from daf.exporter import cli


def daf_export(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """In this process."""
    monkeypatch.setattr(sys, "argv", ["daf-export", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        run_command(cli.export)
    return int(caught.value.code or 0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--update half", "'half' is none of dense, bias, sparse and last:N"),
        ("--update last:0", "'last:0' is none of"),
        ("--update last:x", "'last:x' is none of"),
        ("--update sparse --update-ratio 0", "0 is not a part of the weights; give a number above 0 and up to 1"),
        ("--update sparse --update-ratio 1.5", "1.5 is not a part of the weights"),
        ("--update sparse --update-ratio nan", "nan is not a part of the weights"),
        ("--update sparse --update-ratio some", "'some' is not a number"),
        ("--update sparse --update-layers 0", "0 layers: at least one must train"),
        ("--update sparse --update-layers -3", "-3 layers: at least one must train"),
        ("--update sparse --update-layers a,,b", "has an empty name"),
        ("--update sparse --rotate-every -1", "-1 is not in the range"),
        ("--update sparse --optimizer none", "give --optimizer sgd or adamw"),
        ("--update sparse --select gradient --rotate-every 0", "there are no gradients to choose by"),
        ("--update bias --update-ratio 0.1", "it is for --update sparse"),
        ("--update last:2 --update-layers 2", "it is for --update sparse"),
        ("--rotate-every 5", "it is for --update sparse"),
        ("--select norm", "it is for --update sparse"),
        ("--update last:9", "use --update last:6 or less"),
        ("--update sparse --update-layers featurs", "matches none of its layers; did you mean"),
    ],
)
def test_bad_options_are_usage_errors(
    options: str, expected: str, model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = daf_export(monkeypatch, model, *options.split(), "-q", "-o", model.with_suffix(".pte"))
    error = capfd.readouterr().err
    assert code == Exit.USAGE, error
    assert expected in error
    assert "Traceback" not in error
    assert not model.with_suffix(".pte").exists()


def test_from_export_to_report(
    model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The table says what is saved, the run rotates and resumes, run and report show the coverage."""
    program, weights, trace = (tmp_path / name for name in ("net.pte", "w.safetensors", "run.trace"))
    options = "--update sparse --update-ratio 0.3 --update-layers 3 --rotate-every 4 --select random --check"
    code = daf_export(monkeypatch, model, *options.split(), "-o", program)
    out, err = capfd.readouterr()
    assert (code, err) == (Exit.OK, "")
    assert "\nupdate                      sparse" in out
    assert "chosen anew every 4 steps" in out
    assert " % less" in out
    assert "check: largest relative gradient error" in out

    done = daf("run", program, "--steps", 10, "--save", weights, "--trace", trace)
    assert done.returncode == 0, done.stderr
    assert "% of the update layers' weights have trained" in done.stdout
    events = [row for row in map(json.loads, trace.read_text().splitlines()) if row.get("event") == "rotate"]
    assert [event["step"] for event in events] == [0, 4, 8]
    assert events[0]["changed"] == events[0]["chosen"]
    coverage = [event["coverage"] for event in events]
    assert 0 < coverage[0] <= coverage[1] <= coverage[2] <= 1
    done = daf("report", trace)
    assert f"{100 * coverage[-1]:.1f} % of the update layers' weights have trained" in done.stdout

    done = daf("run", program, "--steps", 4, "--resume", weights, "--trace", trace)
    assert done.returncode == 0, done.stderr
    events = [row for row in map(json.loads, trace.read_text().splitlines()) if row.get("event") == "rotate"]
    assert [event["step"] for event in events] == [12]
    assert events[0]["coverage"] >= coverage[-1]


def test_untrained_normalisation_is_warned_of(
    model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model.write_text("\n".join(line for line in SOURCE.splitlines() if "net.norm.running" not in line))
    code = daf_export(
        monkeypatch, model, "--set", "norm=true", "--update", "bias", "-q", "-o", model.with_suffix(".pte")
    )
    assert code == Exit.OK
    assert "1 batch normalisations have no statistics yet" in capfd.readouterr().err
