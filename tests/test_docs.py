"""Every command in the documentation is one that the tools take, and every file and page that it links to is there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from commands import SCRIPTS

from daf.exporter.cli import export
from daf.tools.cli import daf

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MADE_UP = {"..."}  # words that stand for what is left out


def commands(text: str) -> Iterator[str]:
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").partition("  #")[0].strip()
            if re.match(r"([A-Z_]+=\S+ )*(daf|daf-export) +[\w-]+", line) and "->" not in line:
                yield re.sub(r"^([A-Z_]+=\S+ )*", "", line)


CASES = [(page.name, command) for page in PAGES for command in commands(page.read_text())]


def test_there_are_commands() -> None:
    assert len(CASES) > 15


@pytest.mark.parametrize(("page", "command"), CASES)
def test_commands_are_taken(page: str, command: str) -> None:
    name, *words = [word for word in shlex.split(command) if word not in MADE_UP]
    if name == "daf-export":
        _parse(export, name, words, None)
    else:
        _parse(daf, name, words, None)


def _parse(tool: click.Command, name: str, words: list[str], parent: click.Context | None) -> None:
    """Nothing is run."""
    if not isinstance(tool, click.Group):
        tool.make_context(name, list(words), parent=parent)
        return
    context = tool.make_context(name, list(words), parent=parent)
    if not words:
        return
    found, command, rest = tool.resolve_command(context, list(words))
    assert command is not None, f"there is no {name} {words[0]}"
    _parse(command, found or "", rest, context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_folders_know_whom_the_diagram_says() -> None:
    """docs/how_it_works.md, against what the sources include and import."""
    text = (ROOT / "docs" / "how_it_works.md").read_text()
    drawn = {
        (folder, known)
        for folder, rest in re.findall(r"^(\w+) +-> *(.*)$", text, re.MULTILINE)
        for known in rest.split()
    }
    found = set()
    for path in [*ROOT.glob("runtime_ops/**/*.*"), *ROOT.glob("python/*.cpp")]:
        if path.suffix in (".h", ".cpp", ".inc") and not path.name.startswith("bench"):
            folder = path.relative_to(ROOT).parts[:2][path.is_relative_to(ROOT / "runtime_ops")]
            found |= {(folder, known) for known in re.findall(r'#include "runtime_ops/(\w+)/', path.read_text())}
    for path in [*ROOT.glob("exporter/**/*.py"), *ROOT.glob("tools/**/*.py"), *ROOT.glob("python/daf/*.py")]:
        folder = {"exporter": "exporter", "tools": "tools"}.get(path.relative_to(ROOT).parts[0], "daf")
        for package in re.findall(r"^\s*(?:from|import) daf(?:\.(\w+))?", path.read_text(), re.MULTILINE):
            found.add((folder, package if package in ("exporter", "tools") else "daf"))
    assert {(folder, known) for folder, known in found if folder != known} == drawn


# What a newcomer would do, in one folder and in this order. Commands for phones and GPUs are run by their own tests.
WALK = (
    ("README.md", "Your own model", "model.py"),
    ("README.md", "Compressed activations", None),
    ("docs/traces.md", "daf report", None),
    ("docs/traces.md", "daf compare", None),
    ("docs/guide.md", "Your own model", "mine.py"),
)


def section(page: str, heading: str) -> str:
    _, behind = re.split(rf"^#+ {heading}\n", (ROOT / page).read_text(), maxsplit=1, flags=re.MULTILINE)
    return behind.partition("\n## ")[0]


def test_a_newcomer_gets_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as they are printed, and the commands below them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    printed = {}
    for page, heading, file in WALK:
        text = section(page, heading)
        if file is not None:
            (tmp_path / file).write_text(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0])
        for command in commands(text):
            name, *words = shlex.split(command)
            done = subprocess.run([SCRIPTS / name, *words], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, f"{page}: {command}\n{done.stderr}"
            printed[command] = done.stdout
        for name in ("last", "new"):  # two runs of the same program
            shutil.copy(tmp_path / "run.trace", tmp_path / f"{name}.trace")
    assert len(printed) >= 15
    (accuracy,) = (re.findall(r"accuracy +([\d.]+) %", text) for text in printed.values() if "accuracy" in text)
    assert float(accuracy[0]) > 90
