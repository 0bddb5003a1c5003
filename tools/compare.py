"""`daf compare`: traces side by side, as a table, JSON and a page; a check for continuous integration."""

from __future__ import annotations

import json
from pathlib import Path

import click

from daf.errors import Exit, UserError
from daf.files import atomic_write, check_output
from daf.text import format_table

FILE = click.Path(path_type=Path)


@click.command(short_help="Put traces side by side.")
@click.argument("traces", type=FILE, nargs=-1, required=True)
@click.option("--html", type=FILE, help="Write a page with charts here; it needs no network.")
@click.option("--json", "json_path", type=FILE, help="Write all figures here.")
@click.option("--fail-if", multiple=True, metavar="CONDITION", help="Exit with 1 if it holds; repeatable.")
@click.option("--force", is_flag=True, help="Compare traces of different models.")
@click.pass_context
def compare(
    ctx: click.Context,
    traces: tuple[Path, ...],
    html: Path | None,
    json_path: Path | None,
    fail_if: tuple[str, ...],
    force: bool,
) -> None:
    """Compare TRACES, files of daf run --trace, with the first of them.

    A condition is METRIC > LIMIT (or >=, <, <=). Metrics: activations, peak, weights, constants, optimizer, arena,
    pool, workspace, rss, step_time, loss. Limits: 1.05x is a ratio to the first trace; 24MB, 20ms and 0.5 are values.
    A trace that is incomplete, or has no such figure, fails the check too.

    \b
    Examples:
      daf compare fp32.trace daf.trace
      daf compare fp32.trace daf.trace --html compare.html
      daf compare last.trace new.trace --fail-if 'peak > 1.05x' --fail-if 'step_time > 1.2x'
    """
    for path in (html, json_path):
        if path is not None:
            check_output(path)
    from daf.tools import comparison
    from daf.tools.fail_if import failures, parse_condition
    from daf.tools.trace.summary import summarize

    conditions = [parse_condition(text) for text in fail_if]
    summaries = [summarize(path) for path in traces]
    different = comparison.model_differences(summaries)
    if different and not force:
        raise UserError(
            f"cannot compare: {'; '.join(different)}; compare traces of one model, or add --force", Exit.CHECK_FAILED
        )
    names = comparison.short_names(summaries)
    click.echo(format_table(comparison.table_rows(summaries), ("", *names)))
    for summary, name in zip(summaries, names, strict=True):
        if not summary.complete:
            click.echo(f"{name} is {summary.condition}")
    for difference in comparison.other_differences(summaries):
        click.echo(f"different {difference}")

    from daf.tools.compare_page import comparison_json
    from daf.tools.html_page import fill_page

    document = comparison_json(summaries)
    if json_path is not None:
        with atomic_write(json_path) as file:
            file.write(json.dumps(document, indent=2).encode() + b"\n")
        click.echo(f"wrote {json_path}")
    if html is not None:
        with atomic_write(html) as file:
            file.write(fill_page("compare", document).encode())
        click.echo(f"wrote {html}")

    failed = [text for condition in conditions for text in failures(condition, summaries)]
    if conditions:
        incomplete = [(name, s.condition) for name, s in zip(names, summaries, strict=True) if not s.complete]
        failed += [f"{name}: it is {condition}" for name, condition in incomplete]
    for text in failed:
        click.echo(f"failed: {text}", err=True)
    if failed:
        ctx.exit(Exit.CHECK_FAILED)
