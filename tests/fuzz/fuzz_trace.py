"""Fuzzes what reads a trace, guided by coverage: `make fuzz`. Needs the package atheris."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent))
from trace_fuzz import read_everything

from daf.tools.trace.summary import summarize

_SEED = Path(__file__).parent / "corpus" / "trace" / "stored.jsonl"


def _functions_of(owner: object, module: str) -> Iterator[FunctionType]:
    for value in list(vars(owner).values()):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(function, FunctionType) and function.__module__ == module:
            yield function
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions_of(value, module)


def _instrument() -> None:
    """What was imported: atheris.instrument_imports() does not see modules of an editable install."""
    for name, module in list(sys.modules.items()):
        if name.startswith("daf."):
            for function in _functions_of(module, name):
                atheris.instrument_func(function)


def main() -> None:
    other = summarize(_SEED)
    with tempfile.NamedTemporaryFile() as file:
        path = Path(file.name)

        def read(content: bytes) -> None:
            path.write_bytes(content)
            read_everything(path, other)

        _instrument()
        atheris.Setup(sys.argv, read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
