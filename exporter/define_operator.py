"""How a `daf::` operator is made known to PyTorch.

Every functional operator gets an out variant (ExecuTorch calls those), derived from its schema here so that the two
cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

library = torch.library.Library("daf", "DEF")


def defines(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Defines `daf::<function's name>` with its out variant; the decorated function is its fake."""

    def define(fake: Callable[..., Any]) -> Callable[..., Any]:
        name = fake.__name__
        arguments, returns = schema.rsplit(" -> ", 1)
        n_outputs = returns.count("Tensor")
        library.define(f"{name}{schema}")
        letters = "abcdefgh"[:n_outputs]
        names = ["out"] if n_outputs == 1 else [f"out{i}" for i in range(n_outputs)]
        outs = ", ".join(f"Tensor({letter}!) {out}" for letter, out in zip(letters, names, strict=True))
        types = ", ".join(f"Tensor({letter}!)" for letter in letters)
        out_returns = types if n_outputs == 1 else f"({types})"
        library.define(f"{name}.out{arguments[:-1]}, *, {outs}) -> {out_returns}")
        torch.library.register_fake(f"daf::{name}", fake, lib=library)

        def out_fake(*args: Any, **kwargs: Any) -> Any:
            given = tuple(kwargs[out] for out in names)
            return given[0] if n_outputs == 1 else given

        torch.library.register_fake(f"daf::{name}.out", out_fake, lib=library)
        return fake

    return define
