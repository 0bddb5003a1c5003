"""The rows of a trace, typed, and the check of one parsed line.

A trace comes from another machine and may be damaged: a row is either whole and plausible or a RowError. Fields that
this version does not know are ignored, so that a trace with a newer minor version can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FORMAT = "daf-trace"
SCHEMA = 1
MINOR = 1

# Held side by side: their sum is what the session holds.
PARTS = ("weights", "constants", "optimizer", "arena", "pool", "workspace", "batch")
# What the arena is used for, as planned.
WITHIN_ARENA = ("activations", "gradients")

MAX_INTEGER = 2**53  # what every reader of JSON keeps exact
MAX_TEXT = 300


class RowError(ValueError):
    """What is wrong with a row."""


class SchemaError(RowError):
    """A header of another schema."""


@dataclass(frozen=True, slots=True)
class PlannedActivation:
    """An activation that the program keeps for backward, as planned at export."""

    name: str
    module: str  # where in the model it comes from
    scheme: str
    raw_bytes: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    minor: int
    daf_version: str
    device: Mapping[str, str | int]  # kind, model, soc, os, abi, cores, ram_bytes
    program_file: str
    program_sha256: str
    model: str
    config: Mapping[str, str | int | float | bool | None]  # flat: "optimizer.name"
    started_unix_ms: int  # by the device's clock
    memory_plan: Mapping[str, int]
    rss_baseline_bytes: int
    activations: tuple[PlannedActivation, ...] = ()  # since minor 1


@dataclass(frozen=True, slots=True)
class Step:
    step: int  # steps taken, this one included
    t_us: int  # when it ended
    loss: float  # may be NaN or infinite
    lr: float
    samples: int
    total_us: int
    forward_us: int | None
    backward_us: int | None
    update_us: int | None
    peak: Mapping[str, int]

    @property
    def start_us(self) -> int:
        return max(0, self.t_us - self.total_us)


@dataclass(frozen=True, slots=True)
class Counters:
    step: int
    t_us: int
    values: Mapping[str, int]  # parts of the session, rss, swap, pss, and whatever else was counted


@dataclass(frozen=True, slots=True)
class Event:
    event: str
    step: int
    t_us: int
    tensor: str = ""
    phase: str = ""
    ops: tuple[tuple[str, int], ...] = ()  # of a profile: operators of a step in order, and nanoseconds
    fields: Mapping[str, int] = field(default_factory=dict)  # raw_bytes, stored_bytes, used_bytes, bits, bytes
    coverage: float | None = None  # of a rotation: the part of the update layers' weights that has trained


@dataclass(frozen=True, slots=True)
class Footer:
    completed: bool
    reason: str
    steps: int
    peak_rss_bytes: int
    peak: Mapping[str, int]
    t_us: int
    error: str | None


Row = Header | Step | Counters | Event | Footer


def parse_row(document: object) -> Row | None:
    """A row, or None when its type is unknown: a newer minor version may have more of them."""
    if not isinstance(document, dict):
        raise RowError("not a JSON object")
    parser = _PARSERS.get(_text(document, "type"))
    return parser(document) if parser else None


def flatten(document: Mapping[str, Any], prefix: str = "") -> dict[str, str | int | float | bool | None]:
    """The scalars of a JSON object and of the objects in it, by dotted names."""
    flat: dict[str, str | int | float | bool | None] = {}
    for key, value in document.items():
        name = clean(prefix + key)
        if isinstance(value, dict) and not prefix:
            flat.update(flatten(value, prefix=f"{key}."))
        elif isinstance(value, str):
            flat[name] = clean(value)
        elif value is None or isinstance(value, int | float):
            flat[name] = value
    return flat


def clean(text: str) -> str:
    """Fit to print: no control characters, which a terminal would obey, no lone surrogates, and not endless."""
    if len(text) <= MAX_TEXT and text.isprintable():  # nearly always
        return text
    short = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    return "".join(c if c.isprintable() else "\ufffd" for c in short)


def _header(row: dict[str, Any]) -> Header:
    if row.get("format") != FORMAT:
        raise RowError("not a header of a DAF trace")
    schema = _integer(row, "schema")
    if schema != SCHEMA:
        raise SchemaError(f"schema {schema}")
    program, device = _object(row, "program"), _object(row, "device")
    known = (item for item in device.items() if isinstance(item[1], str | int))
    return Header(
        minor=_integer(row, "minor"),
        daf_version=_text(row, "daf_version"),
        device={clean(name): clean(value) if isinstance(value, str) else value for name, value in known},
        program_file=_text(program, "file"),
        program_sha256=_text(program, "sha256"),
        model=_text(program, "model"),
        config=flatten(_object(row, "config")),
        started_unix_ms=_integer(_object(row, "clock"), "started_unix_ms"),
        memory_plan=_sizes(_object(row, "memory_plan")),
        rss_baseline_bytes=_integer(row, "rss_baseline_bytes"),
        activations=_activations(row.get("activations")),
    )


def _activations(value: object) -> tuple[PlannedActivation, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RowError("'activations' is not a list of objects")
    return tuple(
        PlannedActivation(
            name=_text(item, "name"),
            module=_text(item, "module"),
            scheme=_text(item, "scheme"),
            raw_bytes=_integer(item, "raw_bytes"),
            stored_bytes=_integer(item, "stored_bytes"),
        )
        for item in value
    )


def _step(row: dict[str, Any]) -> Step:
    return Step(
        step=_integer(row, "step"),
        t_us=_integer(row, "t_us"),
        loss=_number(row, "loss"),
        lr=_number(row, "lr"),
        samples=_integer(row, "samples"),
        total_us=_integer(row, "total_us"),
        forward_us=_optional_integer(row, "forward_us"),
        backward_us=_optional_integer(row, "backward_us"),
        update_us=_optional_integer(row, "update_us"),
        peak=_sizes(_object(row, "peak")),
    )


def _counters(row: dict[str, Any]) -> Counters:
    values = {name: value for name, value in row.items() if name not in ("type", "step", "t_us")}
    return Counters(_integer(row, "step"), _integer(row, "t_us"), _sizes(values))


def _event(row: dict[str, Any]) -> Event:
    names = ("raw_bytes", "stored_bytes", "used_bytes", "bits", "bytes")
    return Event(
        event=_text(row, "event"),
        step=_integer(row, "step"),
        t_us=_integer(row, "t_us"),
        tensor=_text(row, "tensor") if "tensor" in row else "",
        phase=_text(row, "phase") if "phase" in row else "",
        ops=_operators(row["ops"]) if "ops" in row else (),
        fields={name: _integer(row, name) for name in names if row.get(name) is not None},
        coverage=_part(row, "coverage") if "coverage" in row else None,
    )


def _operators(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, list) or not all(isinstance(item, list) and len(item) == 2 for item in value):
        raise RowError("'ops' is not a list of pairs")
    pairs = ({"name": name, "ns": time} for name, time in value)
    return tuple((_text(pair, "name"), _integer(pair, "ns")) for pair in pairs)


def _footer(row: dict[str, Any]) -> Footer:
    return Footer(
        completed=row.get("completed") is True,
        reason=_text(row, "reason"),
        steps=_integer(row, "steps"),
        peak_rss_bytes=_integer(row, "peak_rss_bytes"),
        peak=_sizes(_object(row, "peak")),
        t_us=_integer(row, "t_us"),
        error=None if row.get("error") is None else _text(row, "error"),
    )


_PARSERS: Mapping[str, Callable[[dict[str, Any]], Row]] = {
    "header": _header,
    "step": _step,
    "counters": _counters,
    "event": _event,
    "footer": _footer,
}


def _object(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    if not isinstance(value, dict):
        raise RowError(f"'{name}' is not an object")
    return value


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise RowError(f"'{name}' is not a text")
    return clean(value)


def _integer(row: dict[str, Any], name: str) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise RowError(f"'{name}' is not a number from 0 to 2^53")
    return value


def _optional_integer(row: dict[str, Any], name: str) -> int | None:
    return None if row.get(name) is None else _integer(row, name)


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    if value in ("NaN", "Infinity", "-Infinity"):  # JSON has no such numbers
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e300:
        raise RowError(f"'{name}' is not a number")
    return float(value)


def _part(row: dict[str, Any], name: str) -> float:
    """Of a whole."""
    value = _number(row, name)
    if not 0 <= value <= 1:
        raise RowError(f"'{name}' is not a number from 0 to 1")
    return value


def _sizes(values: dict[str, Any]) -> dict[str, int]:
    """Numbers by name; what is not a number is not known here."""
    return {clean(name): _integer(values, name) for name, value in values.items() if type(value) is int}
