"""Reads a trace row by row, in constant memory, and keeps account of what could not be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from daf.errors import Exit, UserError
from daf.tools.trace.rows import SCHEMA, Footer, Header, Row, RowError, SchemaError, parse_row

MAX_LINE_BYTES = 4 << 20


class TraceReader:
    """Iterates once over the rows after the header. The counts are complete when the iteration has ended.

    A line that is damaged is skipped and counted. A file whose first line is not the header of a trace is a UserError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_damaged = 0
        self.first_damaged_line: int | None = None
        self.n_unknown = 0  # rows of a newer minor version
        self.footer: Footer | None = None
        try:
            self._file = path.open("rb")
            self.header = self._read_header()
        except OSError as error:
            raise trace_error(path, f"{error.strerror or error}; give a file that daf run --trace wrote") from error

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Row]:
        for number, line in enumerate(self._lines(), start=2):
            try:
                row = _parse(line)
                if isinstance(row, Header):
                    raise RowError("a second header")
            except RowError:
                self.n_damaged += 1
                self.first_damaged_line = self.first_damaged_line or number
                continue
            if row is None:
                self.n_unknown += 1
                continue
            if isinstance(row, Footer):
                self.footer = row
            yield row

    def _read_header(self) -> Header:
        line = next(self._lines(), b"")
        if not line:
            raise trace_error(self.path, "it is empty: the run ended before its first line; run it again")
        try:
            row = _parse(line)
        except SchemaError as error:
            reason = f"it has {error} and this version reads schema {SCHEMA}; use the version of daf that wrote it"
            raise trace_error(self.path, reason) from error
        except RowError as error:
            raise trace_error(self.path, f"its first line is {error}; give a file of daf run --trace") from error
        if not isinstance(row, Header):
            raise trace_error(self.path, "it does not begin with a header; give a file of daf run --trace")
        return row

    def _lines(self) -> Iterator[bytes]:
        """Of an endless line, only the beginning: it will not parse."""
        while line := self._file.readline(MAX_LINE_BYTES):
            rest = line
            while not rest.endswith(b"\n") and len(rest) == MAX_LINE_BYTES:
                rest = self._file.readline(MAX_LINE_BYTES)
            yield line

    @property
    def complete(self) -> bool:
        return self.footer is not None and self.footer.completed and not self.n_damaged

    def condition(self) -> str:
        """`complete`, or what is missing."""
        if self.footer is None:
            text = "incomplete: it ends without a footer, so the run was killed or is still going on"
        elif not self.footer.completed:
            text = f"incomplete: {self.footer.error or self.footer.reason}"
        else:
            text = "complete"
        if self.n_damaged:
            lines = "line is" if self.n_damaged == 1 else "lines are"
            text += f"; {self.n_damaged} {lines} damaged (first: {self.first_damaged_line}) and skipped"
        if self.n_unknown:
            text += f"; {self.n_unknown} rows are of kinds that a newer version of daf writes"
        return text


def trace_error(path: Path, reason: str) -> UserError:
    return UserError(f"cannot read trace {path}: {reason}", Exit.DATA)


def _parse(line: bytes) -> Row | None:
    try:
        return parse_row(json.loads(line.decode()))
    except RowError:
        raise
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, too many digits, or nested too deep
        raise RowError("not a line of JSON") from error
