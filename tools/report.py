"""`daf report`: what a trace says, as tables, JSON, CSV or for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daf.files import atomic_write, check_output

if TYPE_CHECKING:
    from daf.tools.trace.rows import Header
    from daf.tools.trace.summary import RowSink, TraceSummary

FILE = click.Path(path_type=Path)


@click.command(short_help="Say what a trace contains.")
@click.argument("trace", type=FILE)
@click.option("--perfetto", type=FILE, help="Write the trace for ui.perfetto.dev here.")
@click.option("--csv", "csv_path", type=FILE, help="Write a line per step here.")
@click.option("--json", "json_path", type=FILE, help="Write the summary here, as JSON; - is standard output.")
@click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Activations to list.")
def report(trace: Path, perfetto: Path | None, csv_path: Path | None, json_path: Path | None, top: int) -> None:
    """Say what TRACE contains, a file of daf run --trace.

    A trace that is cut short or damaged is read as far as it goes, and the report says so.

    \b
    Examples:
      daf report run.trace
      daf report run.trace --perfetto run.pftrace --csv run.csv
      daf report run.trace --json - | jq .peak
    """
    to_stdout = json_path == Path("-")
    outputs = [path for path in (perfetto, csv_path, json_path) if path is not None and path != Path("-")]
    for path in outputs:
        check_output(path)
    summary = _read(trace, perfetto, csv_path)

    from daf.tools.report_json import summary_json
    from daf.tools.report_text import report_text

    document = json.dumps(summary_json(summary, top), indent=2)
    if json_path is not None and not to_stdout:
        with atomic_write(json_path) as file:
            file.write(document.encode() + b"\n")
    if to_stdout:
        click.echo(document)
        return
    click.echo(report_text(summary, top))
    for path in outputs:
        click.echo(f"wrote {path}")


def _read(trace: Path, perfetto: Path | None, csv_path: Path | None) -> TraceSummary:
    """Reads the trace once and writes the other formats on the way."""
    from daf.tools.trace.summary import summarize

    with ExitStack() as files:

        def make_sinks(header: Header) -> Iterator[RowSink]:
            if perfetto is not None:
                from daf.tools.trace.perfetto_writer import PerfettoWriter

                yield PerfettoWriter(files.enter_context(atomic_write(perfetto)), header)
            if csv_path is not None:
                from daf.tools.trace.csv_writer import CsvWriter

                writer = CsvWriter(files.enter_context(atomic_write(csv_path)))
                files.callback(writer.close)
                yield writer

        return summarize(trace, make_sinks)
