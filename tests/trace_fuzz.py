"""Everything that reads a trace, for those that damage one: the tests, and the fuzzer (tests/fuzz/fuzz_trace.py)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

from daf.errors import UserError
from daf.tools import comparison
from daf.tools.compare_page import comparison_json
from daf.tools.fail_if import failures, parse_condition
from daf.tools.html_page import fill_page
from daf.tools.report_json import summary_json
from daf.tools.report_text import report_text
from daf.tools.trace.csv_writer import CsvWriter
from daf.tools.trace.perfetto_writer import PerfettoWriter
from daf.tools.trace.rows import Header
from daf.tools.trace.summary import RowSink, TraceSummary, summarize

CONDITIONS = [parse_condition(text) for text in ("peak > 1.05x", "loss > 0.5", "step_time > 20ms")]


def read_everything(path: Path, other: TraceSummary) -> bool:
    """As `daf report` does with all its outputs, and `daf compare` with `other`. False if it is refused.

    Nothing else may happen.
    """

    def sinks(header: Header) -> Iterator[RowSink]:
        yield PerfettoWriter(io.BytesIO(), header)
        yield CsvWriter(io.BytesIO())

    try:
        summary = summarize(path, sinks)
    except UserError:
        return False
    report_text(summary, 5).encode()
    json.dumps(summary_json(summary, 5), allow_nan=False)
    for pair in ([other, summary], [summary, other]):
        comparison.model_differences(pair), comparison.other_differences(pair), comparison.table_rows(pair)
        json.dumps(comparison_json(pair), allow_nan=False)
        for condition in CONDITIONS:
            failures(condition, pair)
    fill_page("compare", comparison_json([other, summary])).encode()
    return True
