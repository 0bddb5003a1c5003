"""Phase 3, plan update: what trains. The gradients of all else leave the graph, with everything only they needed.

    dense    every parameter with a gradient, whole
    bias     every bias, and the last layer whole
    last:N   the last N layers, and everything behind the first of them
    sparse   some channels of the update layers, every bias behind the first of these, and the last layer whole

A frozen front ends the backward graph. Batch normalisation that does not train uses its running statistics and leaves
them as they are: that is, all of it with bias and sparse, and that in the front with last:N. These are our choices,
as are those of `_choose_layers`; docs/updates.md says why.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from torch import nn
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import OutputKind

from daf.errors import Exit, UserError
from daf.exporter.find_saved import find_saved
from daf.exporter.graph import GraphEditor, gradients
from daf.exporter.layers import Channels, Layer, find_layers, parameter_positions
from daf.exporter.passes.freeze_norms import freeze_norms, shorten_backward
from daf.exporter.passes.select_channels import select_channels

if TYPE_CHECKING:
    from daf.exporter.pipeline import Export

# Of its own accord the plan takes no layer in that would train fewer channels than this.
MIN_CHANNELS = 8


@dataclass(frozen=True)
class Update:
    """What the user asks for."""

    mode: Literal["dense", "bias", "last", "sparse"] = "dense"
    n_last: int = 0  # of last:N
    ratio: float = 0.02  # of sparse: what part of the layers' weights trains at a time
    layers: int | tuple[str, ...] | None = None  # the last so many, or these; None: as many as `ratio` allows
    rotate_every: int = 10  # steps; 0: never
    select: str = "norm"

    @property
    def name(self) -> str:
        return f"last:{self.n_last}" if self.mode == "last" else self.mode


@dataclass(frozen=True)
class UpdateLayer:
    """A layer of which some channels train."""

    name: str
    parameter: str
    channels: Channels
    slice_elements: int  # of one channel
    n_chosen: int


@dataclass(frozen=True)
class DenseNeeds:
    """What dense training of the same model would keep, in bytes."""

    activations: int
    gradients: int


@dataclass
class UpdatePlan:
    trained: dict[str, int] = field(default_factory=dict)  # parameter -> bytes
    layers: list[UpdateLayer] = field(default_factory=list)
    dense: DenseNeeds | None = None
    norms_without_statistics: int = 0  # that would use what they never gathered

    @property
    def sparse(self) -> dict[str, UpdateLayer]:
        return {layer.parameter: layer for layer in self.layers}

    @property
    def n_trained(self) -> int:
        """Numbers that train at a time."""
        whole = sum(size // 4 for name, size in self.trained.items() if name not in self.sparse)
        return whole + sum(layer.n_chosen * layer.slice_elements for layer in self.layers)


def plan_update(export: Export, program: ExportedProgram) -> UpdatePlan:
    """Changes the graph, and the model with it: what is frozen has no gradient there either."""
    update, model = export.options.update, export.model
    parameters = dict(model.named_parameters(remove_duplicate=False))
    sizes = {name: parameters[name].numel() * parameters[name].element_size() for name in gradients(program)}
    if update.mode == "dense":
        return UpdatePlan(sizes)
    plan = UpdatePlan(dense=DenseNeeds(_saved_bytes(program), sum(sizes.values())))
    layers = find_layers(program)
    if not layers:
        raise _error(update, "no layer of it trains: it has no weights of two or more axes with a gradient")
    positions = parameter_positions(program)
    chosen: dict[str, tuple[Layer, int]] = {}
    if update.mode == "last":
        begin = _last(update, layers)[0].position
        kept = {name for name in sizes if positions[name] >= begin}
        _freeze_norms(program, model, plan, begin)
    else:
        last, begin = layers[-1], 0
        if update.mode == "sparse":
            chosen = {layer.parameter: (layer, n) for layer, n in _choose_layers(update, layers)}
            begin = min(layer.position for layer, _ in chosen.values())
        biases = {name for name in sizes if name.rpartition(".")[2] == "bias" and positions[name] >= begin}
        kept = biases | set(chosen) | {last.parameter}
        _freeze_norms(program, model, plan, None)
    _remove_gradients(program, kept)
    trained = {id(parameters[name]) for name in kept}  # one may have several names
    for parameter in parameters.values():
        parameter.requires_grad_(id(parameter) in trained)
    for layer, n_chosen in chosen.values():
        assert layer.channels is not None
        select_channels(program, layer, n_chosen)
        plan.layers.append(UpdateLayer(layer.name, layer.parameter, layer.channels, layer.slice_elements, n_chosen))
    shorten_backward(program)
    plan.trained = {name: size for name, size in sizes.items() if name in kept}
    return plan


def _saved_bytes(program: ExportedProgram) -> int:
    saved = find_saved(program)
    for activation in saved:
        activation.node.meta.pop("daf_role")  # the graph is about to change
    return sum(activation.raw_bytes for activation in saved)


def _remove_gradients(program: ExportedProgram, kept: set[str]) -> None:
    edit = GraphEditor(program)
    edit.remove_outputs(lambda spec: spec.kind == OutputKind.GRADIENT_TO_PARAMETER and spec.target not in kept)
    edit.finish()


def _freeze_norms(program: ExportedProgram, model: nn.Module, plan: UpdatePlan, before: int | None) -> None:
    """Those whose first use is before a position; all, without one."""
    order = {node: i for i, node in enumerate(program.graph.nodes)}
    frozen = freeze_norms(program, lambda norm: before is None or order[norm] < before)
    for name in sorted(frozen):
        module = model.get_submodule(name).eval()
        # Their initial values. The count of batches does not tell: files of trained weights may have none.
        untouched = not module.running_mean.any() and bool((module.running_var == 1).all())  # type: ignore[union-attr, operator]
        plan.norms_without_statistics += untouched


def _last(update: Update, layers: list[Layer]) -> list[Layer]:
    if update.n_last > len(layers):
        raise _error(update, f"it has {len(layers)} layers that train; use --update last:{len(layers)} or less")
    return layers[-update.n_last :]


def _choose_layers(update: Update, layers: list[Layer]) -> list[tuple[Layer, int]]:
    """(layer, channels that train). Each trains the same number of them, so that wider, later layers train a smaller
    part; together as many as the ratio allows, of the weights of all layers but the last."""
    selectable = [layer for layer in layers[:-1] if layer.channels is not None]
    if not selectable:
        raise _error(update, "besides its last layer it has no convolution or linear layer that trains")
    allowed = update.ratio * sum(layer.n_elements for layer in selectable)
    if update.layers is None:
        taken = [selectable[-1]]
        for layer in reversed(selectable[:-1]):
            if _n_weights([*taken, layer], MIN_CHANNELS) > allowed:
                break
            taken.insert(0, layer)
    elif isinstance(update.layers, int):
        if update.layers > len(selectable):
            reason = f"it has {len(selectable)} layers whose channels can train besides its last one"
            raise _error(update, f"{reason}; use --update-layers {len(selectable)} or less")
        taken = selectable[-update.layers :]
    else:
        taken = _named(update, update.layers, selectable, layers[-1])
    return [(layer, min(_n_channels(update, taken, allowed, selectable), _n(layer))) for layer in taken]


def _n(layer: Layer) -> int:
    assert layer.channels is not None
    return layer.channels.n


def _n_weights(layers: Sequence[Layer], n_channels: int) -> int:
    return sum(min(n_channels, _n(layer)) * layer.slice_elements for layer in layers)


def _n_channels(update: Update, layers: list[Layer], allowed: float, selectable: list[Layer]) -> int:
    """The largest number of channels in each of `layers` with no more weights than allowed."""
    least = _n_weights(layers, 1)
    if least > allowed:
        share = least / sum(layer.n_elements for layer in selectable)
        ratio = -(-share // 1e-4) * 1e-4  # rounded up
        raise _error(
            update,
            f"one channel of each of its {len(layers)} update layers is {100 * share:.2g} % of the weights; use "
            f"--update-ratio {min(1.0, ratio):.4f} or more, or fewer layers",
        )
    low, high = 1, max(_n(layer) for layer in layers)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _n_weights(layers, middle) <= allowed else (low, middle - 1)
    return low


def _named(update: Update, names: tuple[str, ...], selectable: list[Layer], last: Layer) -> list[Layer]:
    """A name is that of a layer, of its weight, or of a module around it."""
    found: set[str] = set()
    for name in names:
        matching = {x.parameter for x in selectable if x.parameter == name or f"{x.name}.".startswith(f"{name}.")}
        if not matching and name in (last.name, last.parameter):
            raise _error(update, f"{name} is its last layer, which trains whole; leave it out of --update-layers")
        if not matching:
            known = sorted({part for layer in selectable for part in _prefixes(layer.name)})
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise _error(update, f"--update-layers {name} matches none of its layers; did you mean {near[0]}?")
        found |= matching
    return [layer for layer in selectable if layer.parameter in found]


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts) + 1)]


def _error(update: Update, reason: str) -> UserError:
    return UserError(f"cannot export the model with --update {update.name}: {reason}", Exit.USAGE)
