"""Conditions such as `peak > 1.05x` or `loss > 0.5`, for continuous integration."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daf.errors import Exit, UserError
from daf.tools.comparison import METRICS, Metric, figures, short_names
from daf.tools.trace.summary import TraceSummary

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_UNITS = {
    "bytes": {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
    "us": {"us": 1.0, "ms": 1e3, "s": 1e6},
    "1": {"": 1.0},
}
_SYNTAX = re.compile(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True)
class Condition:
    text: str
    metric: Metric
    compare: Callable[[float, float], bool]
    limit: float
    relative: bool  # the limit is a ratio to the first trace


def parse_condition(text: str) -> Condition:
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise _error(text, "write it as METRIC > LIMIT, for example 'peak > 1.05x' or 'step_time > 20ms'")
    name, sign, number, unit = match.groups()
    metric = next((metric for metric in METRICS if metric.name == name), None)
    if metric is None:
        raise _error(text, f"there is no metric '{name}'; use one of {', '.join(m.name for m in METRICS)}")
    relative = unit == "x"
    factors = _UNITS[metric.unit]
    if not relative and unit not in factors:
        units = ", ".join(repr(u) for u in ("x", *factors) if u)
        raise _error(text, f"'{number}{unit}' is no limit for {name}; give it with one of the units {units}")
    limit = float(number) * (1.0 if relative else factors[unit])
    return Condition(text.strip(), metric, _OPERATORS[sign], limit, relative)


def failures(condition: Condition, summaries: Sequence[TraceSummary]) -> list[str]:
    """What to say of each trace that meets the condition, or of which it cannot be told."""
    if condition.relative and len(summaries) < 2:
        raise _error(condition.text, "a ratio needs a second trace to compare with the first")
    found = []
    names = short_names(summaries)
    for index, figure in enumerate(figures(condition.metric, summaries)):
        if condition.relative and index == 0:
            continue
        value = figure.ratio if condition.relative else figure.value
        if value is None:
            found.append(
                f"{names[index]}: '{condition.text}' cannot be told, because it has no {condition.metric.name}"
            )
        elif math.isnan(value) or condition.compare(value, condition.limit):
            found.append(f"{names[index]}: {condition.text}: it is {figure.text(condition.metric)}")
    return found


def _error(text: str, reason: str) -> UserError:
    return UserError(f"cannot use --fail-if '{text}': {reason}", Exit.USAGE)
