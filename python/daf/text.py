"""How sizes and tables look, on the terminal and in reports."""

from __future__ import annotations

from collections.abc import Sequence


def format_bytes(size_bytes: float) -> str:
    """`12.3 MB`, in decimal units."""
    for unit, decimals in (("B", 0), ("kB", 1), ("MB", 1)):
        # 999.95 would round up to 1000.0 of its unit.
        if abs(size_bytes) < 999.95:
            return f"{size_bytes:.{decimals}f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.2f} GB"


def format_table(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Left-aligned columns, two spaces apart."""
    lines = [header, *rows] if header else rows
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ((cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def markdown_table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
