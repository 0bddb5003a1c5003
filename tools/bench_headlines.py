"""The few figures of `daf bench --quick` that stand for all: at the end of its output, on its page, and in the README.

`python -m daf.tools.bench_headlines RESULTS.json README.md` puts the table of a file of results into the README.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daf.errors import Exit, UserError
from daf.files import atomic_write
from daf.text import format_table, markdown_table

BEGIN, END = "<!-- daf bench --quick: begin -->", "<!-- daf bench --quick: end -->"
COLUMNS = ("measured", "DAF", "peer", "", "peer is")

Row = dict[str, Any]


@dataclass(frozen=True)
class Headline:
    """The result of a suite whose texts match."""

    label: str
    suite: str
    name: str
    setting: str
    peer: str

    def find(self, rows: Sequence[Row]) -> Row | None:
        wanted = {key: getattr(self, key) for key in ("suite", "name", "setting", "peer")}
        matches = (row for row in rows if all(re.search(text, str(row.get(key))) for key, text in wanted.items()))
        return next(matches, None)


_RESNET, _SMALL = "ResNet-18 of width 16, batch 8", "^width=16, batch 8, "
HEADLINES = (
    Headline(f"{_RESNET}: kept for backward, 2 bits", "memory", "kept for backward", f"{_SMALL}daf", "PyTorch"),
    Headline(f"{_RESNET}: peak memory, 2 bits", "memory", "peak RSS", f"{_SMALL}daf", "PyTorch"),
    Headline(f"{_RESNET}: a step, float32", "step", "resnet18", f"{_SMALL}1 thread", "PyTorch"),
    Headline(f"{_RESNET}: a step, 2 bits", "memory", "step", f"{_SMALL}daf", "eager$"),
    Headline(f"{_RESNET}: a step, 2 bits", "memory", "step", f"{_SMALL}daf", "saved-tensor hooks"),
    Headline("digits, 110 steps: test accuracy, float32", "accuracy", "cnn_digits", "fp32", "PyTorch"),
    Headline("digits, 110 steps: test accuracy, 2 bits", "accuracy", "cnn_digits", "2 bits, gradient", "PyTorch"),
    Headline("matrix product, 1024 x 1024", "kernels", "gemm", "1024x1024x1024", "PyTorch"),
    Headline("storing float32 in 2 bits", "store", "^pack", "^2 bits", "memcpy"),
    Headline("reading them back", "store", "^unpack", "^2 bits", "memcpy"),
    Headline("digits: memory that a run held, 2 bits", "device", "memory held", "daf", "predicted"),
)


def headlines(document: Row) -> list[tuple[str, ...]]:
    """Rows of COLUMNS; those whose suite was left out are missing."""
    found = ((headline.label, headline.find(document["results"])) for headline in HEADLINES)
    return [
        (
            label,
            _value(row["ours"], row["unit"]),
            _value(row["peer_value"], row["unit"]),
            _verdict(row),
            row["peer"],
        )
        for label, row in found
        if row is not None
    ]


def _value(value: float, unit: str) -> str:
    return f"{value:.2f} %" if unit == "%" else f"{value:.3g} {unit}"


def _verdict(row: Row) -> str:
    ratio: float = row["ratio"]
    if row["unit"] == "%":
        return f"{row['ours'] - row['peer_value']:+.2f} points"
    if row["unit"] == "MB":
        return f"{1 / ratio:.1f}x less" if ratio < 0.9 else f"{ratio:.2f}x"
    return f"{ratio:.2f}x the {'time' if row['unit'] == 'ms' else 'speed'}, ±{50 * row['spread']:.0f} %"


def headline_text(document: Row) -> str:
    rows = headlines(document)
    return format_table(rows, COLUMNS) if rows else ""


def headline_markdown(document: Row) -> str:
    table = markdown_table(headlines(document), COLUMNS)
    first = document["results"][0]
    where = f"{document['date'][:10]}, {first['hardware']}, {first['versions']}"
    return f"{table}\n\nMade by `daf bench --quick`: {where}."


def fill_readme(readme: str, document: Row) -> str:
    """The text with the table between its two markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"cannot put the table into the README: the lines {BEGIN} and {END} are not in it", Exit.DATA)
    return f"{before}{BEGIN}\n{headline_markdown(document)}\n{END}{after}"


def main(results: str, readme: str) -> None:
    from daf.tools.bench_report import read_document

    text = fill_readme(Path(readme).read_text(encoding="utf-8"), read_document(Path(results)))
    with atomic_write(Path(readme)) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
