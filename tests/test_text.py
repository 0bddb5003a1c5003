from __future__ import annotations

import pytest

from daf.text import format_bytes, format_table, markdown_table


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_951, "1.0 MB"),
        (12_340_000, "12.3 MB"),
        (4_560_000_000, "4.56 GB"),
        (-2_500, "-2.5 kB"),
    ],
)
def test_bytes(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


def test_tables() -> None:
    rows = [("weights", "1 B"), ("x", "20.0 kB")]
    assert format_table(rows) == "weights  1 B\nx        20.0 kB"
    assert format_table(rows, ("part", "size")) == "part     size\nweights  1 B\nx        20.0 kB"
    assert markdown_table(rows[:1], ("part", "size")) == "| part | size |\n| --- | --- |\n| weights | 1 B |"
