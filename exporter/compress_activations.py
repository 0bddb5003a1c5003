"""Phase 6, compress activations: forward stashes what backward needs, backward reads it by recipes.

A reader that the runtime has a fused form of (`daf::stored_*`) takes the value a few samples at a time: the whole
float32 tensor never exists again. Other readers get it whole, by `daf::fetch` right before them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter import recipe as recipes
from daf.exporter.find_saved import storage_root
from daf.exporter.graph import GraphEditor
from daf.exporter.recipe import Recipe
from daf.exporter.schemes import (
    AssignedScheme,
    Derivation,
    Dropped,
    Normalized,
    Saved,
    backward_readers,
    batch_norm_of,
    forward_activation,
    is_log_softmax,
    layer_norm_of,
    passes_by_mask,
)

aten = torch.ops.aten
daf = torch.ops.daf


@dataclass(frozen=True)
class StorePlan:
    entries: list[AssignedScheme]  # that are stored; the place in the list is the id
    chunk_bytes: int  # what the readers hold at most, beside the kernels' own workspace


def compress_activations(program: ExportedProgram, schemes: list[AssignedScheme]) -> StorePlan:
    rewrite = _Rewrite(GraphEditor(program), schemes)
    rewrite.run()
    return StorePlan(rewrite.entries, rewrite.chunk_bytes)


# A reader holds about this much of each tensor it reads (or one sample, if that is more): it stays in the cache.
# As kChunkBytes in runtime_ops/ops/stored.cpp.
CHUNK_BYTES = 1 << 19
# Terms of a sum that a matrix product should have at once. As kMinDepth in runtime_ops/ops/gemm.cpp.
MIN_DEPTH = 256
ALIGNMENT = 64  # of what a reader takes from the workspace


class _Rewrite:
    def __init__(self, edit: GraphEditor, schemes: list[AssignedScheme]) -> None:
        self.edit = edit
        self.schemes = schemes
        self.entries: list[AssignedScheme] = []
        self.chunk_bytes = 0
        self._order = {node: i for i, node in enumerate(edit.graph.nodes)}
        self._masks: dict[Node, Node] = {}  # activation function -> the mask that it makes
        self._recipes: dict[Node, Recipe] = {}  # saved activation -> how to get it back
        self._fused: dict[Node, Node] = {}  # reader -> its fused form
        self._scaled: dict[Node, Node] = {}  # batch normalisation -> the scaling of what it normalised
        self._constants: dict[tuple[torch.Size, float], Node] = {}  # (shape, number) -> a tensor full of it

    def run(self) -> None:
        # Who reads what is settled before anything changes.
        readings = [
            (reader, scheme)
            for scheme in self.schemes
            if scheme.is_stored or scheme.value == "derive"
            for reader in dict.fromkeys(backward_readers(scheme.activation.node))
            if not passes_by_mask(reader, scheme.activation.node)
        ]
        readings.sort(key=lambda reading: self._order[reading[0]])
        for scheme in self.schemes:
            if scheme.mask:
                self._make_mask(scheme)
            self._keep_value(scheme)
        last_reader = {entry: i for i, (_, scheme) in enumerate(readings) for entry in self._recipe_of(scheme).entries}
        for i, (reader, scheme) in enumerate(readings):
            recipe = self._recipe_of(scheme)
            released = {entry for entry in recipe.entries if last_reader[entry] == i}
            self._read(reader, scheme.activation.node, recipe.releasing(released))
        self.edit.finish()

    def _recipe_of(self, scheme: AssignedScheme) -> Recipe:
        return self._recipes[scheme.activation.node]

    # ---- forward ---------------------------------------------------------------------------------------------------

    def _make_mask(self, scheme: AssignedScheme) -> None:
        saved = scheme.activation.node
        for reader in [r for r in backward_readers(saved) if passes_by_mask(r, saved)]:
            forward = forward_activation(reader)
            assert forward is not None
            if forward not in self._masks:
                self._masks[forward] = self._masked_activation(forward)
            slope = float(reader.args[3]) if reader.args[2] == "leaky_relu" else 0.0  # type: ignore[arg-type]
            with self.edit.at(reader):
                grad = self.edit.call(daf.masked_gradient.default, reader.args[0], self._masks[forward], slope)
            self.edit.replace(reader, grad)

    def _masked_activation(self, forward: Node) -> Node:
        """Lets `forward` also make its mask. The node stays the one that schemes refer to."""
        with self.edit.at(forward):
            both = self.edit.call(daf.activation_with_mask.default, *forward.args)
            mask = self.edit.item(both, 1)
        forward.target = operator.getitem
        forward.args = (both, 0)
        mask.meta["daf_role"] = "activation"
        return mask

    def _keep_value(self, scheme: AssignedScheme) -> None:
        saved = scheme.activation.node
        if scheme.value == "keep":
            self._recipes[saved] = recipes.value(saved)
            return
        saved.meta.pop("daf_role", None)
        if scheme.is_stored:
            entry = len(self.entries)
            self.entries.append(scheme)
            recipe = recipes.planes(entry, self._stash(scheme, entry))
            if self._made_by(saved) == "relu":
                recipe = recipe.then(recipes.mask(self._masks[saved], 0.0))
            self._recipes[saved] = recipe
        elif scheme.value == "derive":
            assert scheme.derivation is not None
            recipe = self._derive(scheme.derivation)
            if not scheme.mask:
                self._recipes[saved] = recipe
                return
            both = saved.args[0]
            assert isinstance(both, Node)
            slope = float(both.args[2]) if both.args[1] == "leaky_relu" else 0.0  # type: ignore[arg-type]
            self._recipes[saved] = recipe.then(recipes.mask(self._masks[saved], slope))

    @staticmethod
    def _made_by(saved: Node) -> str | None:
        """The kind of activation whose output `saved` is."""
        made = saved.args[0] if saved.target is operator.getitem else None
        masked = isinstance(made, Node) and made.target is daf.activation_with_mask.default
        return str(made.args[1]) if masked and isinstance(made, Node) else None

    def _derive(self, derivation: Derivation) -> Recipe:
        if isinstance(derivation, Saved):
            return self._recipes[derivation.node]
        if isinstance(derivation, Normalized):
            return self._recipes[derivation.x].then(self._normalize(derivation.node))
        if isinstance(derivation, Dropped):
            _, clock, p, layer = derivation.node.args
            return self._recipes[derivation.x].then(recipes.dropout(clock, float(p), int(layer)))  # type: ignore[arg-type]
        return self._derive(derivation.left).plus(self._derive(derivation.right))

    def _normalize(self, norm: Node) -> recipes.Step:
        if norm in self._scaled:  # what is stored is normalised
            _, weight, bias, mean, var, eps = self._scaled[norm].args
        else:
            _, weight, bias, _, _, _, eps = norm.args
            mean, var = self._output(norm, 1), self._output(norm, 2)
        return recipes.normalize(mean, var, weight, bias, float(eps))  # type: ignore[arg-type]

    def _output(self, made: Node, index: int) -> Node:
        for user in made.users:
            if user.target is operator.getitem and user.args[1] == index:
                return user
        raise AssertionError(f"{made.name} is normalisation with a backward, which reads its statistics")

    def _stash(self, scheme: AssignedScheme, entry: int) -> Node:
        """As soon as it is there: so the last operator of forward that reads it may write over it."""
        saved, value = scheme.activation.node, scheme.activation.node
        if scheme.normalized_for is not None and scheme.normalized_for.target is daf.batch_norm_backward.default:
            value = self._normalized_maps(scheme.normalized_for)
        place = value
        while place.next.target is operator.getitem and place.next.args[0] is place:
            place = place.next
        with self.edit.at(place.next):
            if is_log_softmax(saved):
                value = self.edit.call(daf.activation.default, saved, "exp", 0.0, 0.0)
            elif scheme.normalized_for is not None and value is saved:
                value = self._normalized_rows(saved, scheme.normalized_for)
            token = self.edit.call(daf.stash.default, value, entry)
        token.meta["daf_phase"] = value.meta["daf_phase"] = "forward"
        return token

    def _normalized_rows(self, x: Node, backward: Node) -> Node:
        """The rows of x with mean 0 and variance 1. Backward reads them as such, and scales what it makes of them."""
        grad, _, weight, _, rstd, n_axes = backward.args
        forward = layer_norm_of(backward)
        assert forward is not None
        assert isinstance(rstd, Node)
        made = self.edit.call(daf.layer_norm.default, x, None, None, n_axes, forward.args[4])
        value = self.edit.item(made, 0)
        made.meta["daf_phase"] = "forward"
        backward.args = (grad, x, weight, self._constant_like(rstd, 0.0), self._constant_like(rstd, 1.0), n_axes)
        rows = [*rstd.meta["val"].shape, *[1] * int(n_axes)]  # type: ignore[arg-type]
        for grad_x in [user for user in backward.users if user.target is operator.getitem and user.args[1] == 0]:
            readers = list(grad_x.users)
            with self.edit.at(grad_x.next):
                scaled = self.edit.call(aten.mul.Tensor, grad_x, self.edit.call(aten.view.default, rstd, rows))
            for reader in readers:
                reader.replace_input_with(grad_x, scaled)
        return value

    def _normalized_maps(self, backward: Node) -> Node:
        """The maps with mean 0 and variance 1, which forward scales and shifts in a step of its own.

        Backward reads them as such, and has the rest of 1 / deviation in the weight.
        """
        norm = batch_norm_of(backward)
        assert norm is not None
        x, weight, bias, *statistics, eps = norm.args
        norm.args = (x, None, None, *statistics, eps)
        y, var = self._output(norm, 0), self._output(norm, 2)
        zero, one = self._constant_like(var, 0.0), self._constant_like(var, 1.0)
        with self.edit.at(y):
            normalized = self.edit.item(norm, 0)
        y.target = daf.batch_norm_eval.default
        y.args = (normalized, weight, bias, zero, one, 0.0)
        self._scaled[norm] = y
        with self.edit.at(backward):
            factor = self.edit.call(aten.rsqrt.default, self.edit.call(aten.add.Tensor, var, eps))
            if weight is not None:
                factor = self.edit.call(aten.mul.Tensor, factor, weight)
        backward.args = (*backward.args[:2], factor, zero, one, True, 0.0)
        return normalized

    def _constant_like(self, like: Node, number: float) -> Node:
        shape = like.meta["val"].shape
        if (shape, number) not in self._constants:
            first = next(node for node in self.edit.graph.nodes if node.op == "call_function")
            with self.edit.at(first):
                node = self.edit.call(aten.full.default, list(shape), number)
            node.meta["daf_phase"] = "forward"
            self._constants[shape, number] = node
        return self._constants[shape, number]

    # ---- backward --------------------------------------------------------------------------------------------------

    def _read(self, reader: Node, saved: Node, recipe: Recipe) -> None:
        reader = self._fused.get(reader, reader)
        operands = [i for i, a in enumerate(reader.args) if isinstance(a, Node) and storage_root(a) is saved]
        with self.edit.at(reader):
            if len(operands) == 1 and reader.target in _FUSED:
                operand = reader.args[operands[0]]
                assert isinstance(operand, Node)
                shape = [int(size) for size in operand.meta["val"].shape]
                fused = _FUSED[reader.target](self.edit, reader, operands[0], (recipe.source(), recipe.text(), shape))
                if fused is not None:
                    are_terms = fused.target is daf.stored_gemm.default and len(shape) == 2
                    self._count_chunks(shape, recipe, are_terms)
                    self.edit.replace(reader, fused)
                    self._fused[reader] = fused
                    return
            self._fetch(reader, saved, recipe)

    def _fetch(self, reader: Node, saved: Node, recipe: Recipe) -> None:
        shape = [int(size) for size in saved.meta["val"].shape]
        self._count_chunks(shape, recipe)
        whole = self.edit.call(daf.fetch.default, recipe.source(), recipe.text(), shape)

        def replacement(argument: Node) -> Node:
            if storage_root(argument) is not saved:
                return argument
            if list(argument.meta["val"].shape) == shape:
                return whole
            return self.edit.call(torch.ops.aten.view.default, whole, [int(s) for s in argument.meta["val"].shape])

        reader.args = torch.fx.node.map_arg(reader.args, replacement)
        reader.kwargs = torch.fx.node.map_arg(reader.kwargs, replacement)

    def _count_chunks(self, shape: list[int], recipe: Recipe, are_terms: bool = False) -> None:
        sample_bytes = 4
        for size in shape[1:]:
            sample_bytes *= size
        samples = max(1, CHUNK_BYTES // sample_bytes, MIN_DEPTH if are_terms else 1)
        size_bytes = -(-min(samples, shape[0]) * sample_bytes // ALIGNMENT) * ALIGNMENT
        self.chunk_bytes = max(self.chunk_bytes, size_bytes * recipe.depth)


Stored = tuple[list[Node], str, list[int]]  # source, recipe, shape
_FusedForm = Callable[[GraphEditor, Node, int, Stored], Node | None]


def _gemm(edit: GraphEditor, node: Node, operand: int, stored: Stored) -> Node | None:
    a, b, bias, transpose_a, transpose_b = node.args
    if bias is not None or operand > 1:
        return None
    other = b if operand == 0 else a
    return edit.call(daf.stored_gemm.default, other, *stored, operand == 0, transpose_a, transpose_b)


def _batch_gemm(edit: GraphEditor, node: Node, operand: int, stored: Stored) -> Node | None:
    return edit.call(daf.stored_batch_gemm.default, node.args[1 - operand], *stored, operand == 0, *node.args[2:])


def _second_argument(target: Any) -> _FusedForm:
    """Of operators (grad, saved, ...) whose fused form is (grad, source, recipe, shape, ...)."""

    def fuse(edit: GraphEditor, node: Node, operand: int, stored: Stored) -> Node | None:
        return edit.call(target, node.args[0], *stored, *node.args[2:]) if operand == 1 else None

    return fuse


def _softmax(edit: GraphEditor, node: Node, operand: int, stored: Stored) -> Node | None:
    if node.args[2] == 0:  # its rows cross samples
        return None
    return _second_argument(daf.stored_softmax_backward.default)(edit, node, operand, stored)


_FUSED: dict[Any, _FusedForm] = {
    daf.gemm.default: _gemm,
    daf.batch_gemm.default: _batch_gemm,
    daf.convolution_weight_grad.default: _second_argument(daf.stored_convolution_weight_grad.default),
    daf.batch_norm_backward.default: _second_argument(daf.stored_batch_norm_backward.default),
    daf.layer_norm_backward.default: _second_argument(daf.stored_layer_norm_backward.default),
    daf.activation_backward.default: _second_argument(daf.stored_activation_backward.default),
    daf.softmax_backward.default: _softmax,
}
