"""How backward gets a saved value back: a short postfix program, evaluated for a few samples at a time.

    planes:ID[:last]            decode entry ID of the store; `last` frees it afterwards     takes its token
    value                       a tensor that was kept as it is                              takes the tensor
    normalize:EPS:WEIGHT:BIAS   batch normalisation (WEIGHT, BIAS: 0 or 1)                   takes mean, var[, ...]
    add                         the sum of the last two
    mask:SLOPE                  zero (or SLOPE times) where the bit of the mask is not set   takes the mask
    dropout:P:LAYER             the dropout with that number                                 takes the clock

Each step is linear in what the store holds, so that a value made from stochastically rounded ones is unbiased.
`runtime_ops/ops/stored.cpp` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch.fx import Node


@dataclass(frozen=True)
class Step:
    word: str
    tensors: tuple[Node, ...] = ()
    entry: int | None = None  # of the store


@dataclass(frozen=True)
class Recipe:
    steps: tuple[Step, ...]

    @property
    def entries(self) -> list[int]:
        return [step.entry for step in self.steps if step.entry is not None]

    @property
    def n_terms(self) -> int:
        """How many whole tensors it reads."""
        return sum(step.word == "value" or step.entry is not None for step in self.steps)

    @property
    def depth(self) -> int:
        """How many values it holds at once."""
        depth = deepest = 0
        for step in self.steps:
            depth += 1 if step.word == "value" or step.entry is not None else -1 if step.word == "add" else 0
            deepest = max(deepest, depth)
        return deepest

    def then(self, step: Step) -> Recipe:
        return Recipe((*self.steps, step))

    def plus(self, other: Recipe) -> Recipe:
        return Recipe((*self.steps, *other.steps, Step("add")))

    def releasing(self, entries: set[int]) -> Recipe:
        """The same, and each of `entries` is free after this reading."""
        left = set(entries)
        steps = []
        for step in reversed(self.steps):
            if step.entry in left:
                left.remove(step.entry)
                step = replace(step, word=f"{step.word}:last")
            steps.append(step)
        return Recipe(tuple(reversed(steps)))

    def text(self) -> str:
        return " ".join(step.word for step in self.steps)

    def source(self) -> list[Node]:
        return [tensor for step in self.steps for tensor in step.tensors]


def planes(entry: int, token: Node) -> Recipe:
    return Recipe((Step(f"planes:{entry}", (token,), entry),))


def value(tensor: Node) -> Recipe:
    return Recipe((Step("value", (tensor,)),))


def normalize(mean: Node, var: Node, weight: Node | None, bias: Node | None, eps: float) -> Step:
    tensors = tuple(t for t in (mean, var, weight, bias) if t is not None)
    return Step(f"normalize:{eps!r}:{int(weight is not None)}:{int(bias is not None)}", tensors)


def dropout(clock: Node, p: float, layer: int) -> Step:
    return Step(f"dropout:{p!r}:{layer}", (clock,))


def mask(words: Node, slope: float) -> Step:
    return Step(f"mask:{slope!r}", (words,))
