from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import click
import pytest
from commands import SCRIPTS, daf

from daf.cli_errors import run_command
from daf.errors import Exit, UserError

DEVICE_COMMANDS = ("devices", "push", "pull", "install", "logs", "shell-env")
COMMANDS = ("run", "eval", "data", "report", "compare", "demo", "doctor", "tune", "bench", *DEVICE_COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from daf.tools.cli import daf\n"
        "daf.main(['--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'executorch', 'numpy', 'safetensors', 'perfetto', 'adb_shell', 'adbutils', 'daf._native'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "bench"] + ["bench step"])
def test_every_command_explains_itself_with_examples(command: str) -> None:
    done = daf(*command.split(), "--help")
    assert done.returncode == 0
    assert "Examples:\n  " in done.stdout.replace("    ", "  ")


def test_version_is_that_of_the_package() -> None:
    assert daf("--version").stdout == f"daf {metadata.version('daf-mobile')}\n"


def test_tab_completion_offers_commands_and_options() -> None:
    def complete(words: str, index: int) -> str:
        environment = {**os.environ, "_DAF_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
        return subprocess.run([SCRIPTS / "daf"], env=environment, capture_output=True, text=True).stdout

    assert complete("daf ev", 1).split() == ["plain,eval"]
    assert "plain,--save-every" in complete("daf run --sa", 2).split()


@pytest.mark.parametrize("arguments", [["nonsense"], ["run"], ["run", "x.pte", "--steps", "0"], ["eval", "x.pte"]])
def test_usage_errors(arguments: list[str]) -> None:
    done = daf(*arguments)
    assert done.returncode == Exit.USAGE
    assert "Usage: daf" in done.stderr


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (UserError("cannot do it", Exit.DATA), Exit.DATA, "error: cannot do it\n"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "error: interrupted\n"),
        (MemoryError(), Exit.DEVICE, "error: out of memory; use a smaller model or batch, or close other programs\n"),
    ],
)
def test_errors_become_a_message_and_a_code(
    error: BaseException,
    exit_code: Exit,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["failing"])
    with pytest.raises(SystemExit) as caught:
        run_command(failing)
    assert caught.value.code == exit_code
    assert capsys.readouterr().err.lstrip("\n") == message


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def buggy() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(sys, "argv", ["buggy"])
    with pytest.raises(RuntimeError, match="a bug"):
        run_command(buggy)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with subprocess.Popen([SCRIPTS / "daf", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_doctor_finds_this_installation_in_order() -> None:
    done = daf("doctor", "--json")
    assert done.returncode == Exit.OK, done.stdout
    report = json.loads(done.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert report["ok"]
    assert checks["torch"]["detail"].startswith("2.13.0")
    assert checks["daf native module"]["status"] == "ok"
    assert all(check["fix"] for check in checks.values() if check["status"] != "ok")
