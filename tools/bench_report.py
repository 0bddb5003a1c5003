"""What becomes of the results of a benchmark: a table, a file, a page, a comparison with an earlier file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from daf.errors import Exit, UserError
from daf.files import atomic_write, check_output
from daf.text import format_bytes, format_table
from daf.tools.bench_headlines import headline_text, headlines
from daf.tools.bench_results import Result
from daf.tools.html_page import fill_page

FORMAT = "daf-bench"
SCHEMA = 1
# Where more is better; of everything else (time, memory, growth) less is.
MORE_IS_BETTER = {"GFLOP/s", "GB/s", "%"}
# What repeats of the same measurement differ by on a machine that has other work, whatever the spread says.
MIN_NOISE = 0.05


@dataclass(frozen=True)
class Outputs:
    json_path: Path | None
    html: Path | None
    against: Path | None

    def __post_init__(self) -> None:
        """Everything that can be wrong is found before minutes are spent on measuring."""
        for path in (self.json_path, self.html):
            if path is not None:
                check_output(path)
        if self.against is not None:
            read_results(self.against)

    def write(self, results: Sequence[Result], title: str) -> None:
        document = as_json(results)
        click.echo(table(results, title))
        if summary := headline_text(document):
            click.echo(f"\n{summary}")
        if self.json_path is not None:
            _write(self.json_path, json.dumps(document, indent=2) + "\n")
        if self.html is not None:
            _write(self.html, fill_page("bench", {**document, "headlines": headlines(document)}))
        if self.against is not None:
            compare(results, self.against)


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
    click.echo(f"wrote {path}")


def table(results: Sequence[Result], title: str) -> str:
    rows = [
        (
            result.name,
            result.setting,
            f"{result.ours:.4g} {result.unit}",
            f"{result.peer_value:.4g} {result.unit}",
            f"{result.ratio:.2f}" if result.ratio >= 0.1 else f"{result.ratio:.2g}",
            f"±{50 * result.spread:.0f} %",
            result.peer,
        )
        for result in results
    ]
    return format_table(rows, (title, "setting", "ours", "peer", "ratio", "spread", "peer is"))


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    where = {"hardware": hardware(), "versions": versions()}
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "results": [
            {**asdict(result), "ratio": result.ratio, "more_is_better": result.unit in MORE_IS_BETTER, **where}
            for result in results
        ],
    }


def hardware() -> str:
    from daf import native  # of what is measured; not for --help

    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    processor = f"{names[0] if names else platform.machine()} with {native.current_isa()}"
    return f"{processor}, {cores} cores, {format_bytes(memory)}, {platform.system()}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def versions() -> str:
    return ", ".join(f"{name} {version(package)}" for name, package in _PACKAGES.items())


_PACKAGES = {"daf": "daf-mobile", "torch": "torch", "executorch": "executorch"}


def read_results(path: Path) -> list[Result]:
    try:
        return [_read_result(row) for row in read_document(path)["results"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _refuse(path, f"a result is damaged ({error})") from None


def read_document(path: Path) -> dict[str, Any]:
    """What as_json() made."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise _refuse(path, error.strerror or str(error)) from None
    except ValueError:
        raise _refuse(path, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _refuse(path, "it holds no results of `daf bench`")
    if document.get("schema") != SCHEMA:
        raise _refuse(path, f"its schema is {document.get('schema')!r}, not {SCHEMA}")
    return document


def _refuse(path: Path, why: str) -> UserError:
    return UserError(f"cannot compare with {path}: {why}; give a file that `daf bench --json` wrote", Exit.DATA)


def _read_result(row: Any) -> Result:
    texts = [str(row[key]) for key in ("name", "setting", "peer", "unit")]
    ours, peer_value, spread = (float(row[key]) for key in ("ours", "peer_value", "spread"))
    return Result(texts[0], texts[1], ours, texts[2], peer_value, texts[3], spread)


@dataclass(frozen=True)
class Change:
    """Of a ratio, from an earlier run to this one."""

    old: Result
    new: Result

    @property
    def factor(self) -> float:
        """Above 1: worse."""
        factor = self.new.ratio / self.old.ratio if self.old.ratio and self.new.ratio else 1.0
        return 1 / factor if self.new.unit in MORE_IS_BETTER else factor

    @property
    def noise(self) -> float:
        """Both ratios lie within half of their spread."""
        return max(MIN_NOISE, (self.old.spread + self.new.spread) / 2)


def changes(old: Sequence[Result], new: Sequence[Result]) -> Iterator[Change]:
    """Of what both have; by ratios to the peer, so that another load or machine hardly counts."""
    known = {(result.name, result.setting, result.peer): result for result in old}
    for result in new:
        before = known.get((result.name, result.setting, result.peer))
        if before is not None:
            yield Change(before, result)


def compare(results: Sequence[Result], path: Path) -> None:
    """Fails when something became worse by more than the noise."""
    found = list(changes(read_results(path), results))
    if not found:
        raise UserError(f"cannot compare with {path}: it has none of these measurements; run the same suite", Exit.DATA)
    notable = [change for change in found if not 1 / (1 + change.noise) <= change.factor <= 1 + change.noise]
    rows = [
        (
            change.new.name,
            change.new.setting,
            f"{change.old.ratio:.3g}",
            f"{change.new.ratio:.3g}",
            "worse" if change.factor > 1 else "better",
            f"±{100 * change.noise:.0f} %",
        )
        for change in sorted(notable, key=lambda change: -change.factor)
    ]
    n_worse = sum(change.factor > 1 for change in notable)
    click.echo(f"\nagainst {path}: {len(found)} measurements in both, {n_worse} worse, {len(notable) - n_worse} better")
    if rows:
        click.echo(format_table(rows, ("changed", "setting", "ratio then", "ratio now", "is", "noise")))
    if n_worse:
        raise UserError(f"{n_worse} of {len(found)} measurements are worse than in {path}, beyond the noise")
