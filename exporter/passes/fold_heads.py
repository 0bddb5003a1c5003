"""Lets a batched product read and write the heads of an attention where they lie.

    permute [batch, rows, heads, columns] -> view as one batch -> daf::gemm -> view as heads -> permute back

becomes one `daf::batch_gemm` without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.passes.fold_transposes import axes_of

aten = torch.ops.aten
daf = torch.ops.daf

# Axes of a permute that makes [batch, heads, rows, columns] -> (its source has rows before heads, it is transposed).
_OPERAND: dict[tuple[int, ...], tuple[bool, bool]] = {
    (0, 2, 1, 3): (True, False),
    (0, 2, 3, 1): (True, True),
    (0, 1, 3, 2): (False, True),
}
# Axes of a permute of the product -> (result has rows before heads, it is that of the transposed product).
_RESULT: dict[tuple[int, ...], tuple[bool, bool]] = {
    (0, 2, 1, 3): (True, False),
    (0, 3, 1, 2): (True, True),
    (0, 1, 3, 2): (False, True),
}


@dataclass(frozen=True)
class _Operand:
    source: Node
    transposed: bool
    rows_first: bool

    def turned(self) -> _Operand:
        return _Operand(self.source, not self.transposed, self.rows_first)


def fold_heads(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is daf.gemm.default and node.meta["val"].dim() == 3:
            _fold(edit, node)
    edit.finish()


def _fold(edit: GraphEditor, gemm: Node) -> None:
    a, b, bias, transpose_a, transpose_b = gemm.args
    heads_a, heads_b = _heads(a), _heads(b)
    results = list(gemm.users)
    if bias is not None or heads_a is None or heads_b is None or not _same_heads(heads_a, heads_b):
        return
    if not all(_splits_batch(view, heads_a) for view in results):
        return
    left, right = _operand(heads_a, bool(transpose_a)), _operand(heads_b, bool(transpose_b))
    out_rows_first = False
    permute = _only_permute(results)
    if permute is not None:
        out_rows_first, is_transposed = _RESULT[tuple(axes_of(permute))]
        if is_transposed:  # (a b)^T = b^T a^T
            left, right = right.turned(), left.turned()
        results = [permute]
    with edit.at(gemm):
        product = edit.call(
            daf.batch_gemm.default,
            left.source,
            right.source,
            left.transposed,
            right.transposed,
            left.rows_first,
            right.rows_first,
            out_rows_first,
            1.0,
        )
    for result in results:
        edit.replace(result, product)


def _heads(operand: object) -> Node | None:
    """[batch, heads, rows, columns], when the operand is a view of it as one batch."""
    if not isinstance(operand, Node) or operand.target is not aten.view.default:
        return None
    source = operand.args[0]
    assert isinstance(source, Node)
    before, after = source.meta["val"].shape, operand.meta["val"].shape
    return source if len(before) == 4 and before[2:] == after[1:] else None


def _same_heads(a: Node, b: Node) -> bool:
    return bool(a.meta["val"].shape[:2] == b.meta["val"].shape[:2])


def _splits_batch(view: Node, heads: Node) -> bool:
    """Whether `view` gives the product of a batch its heads back."""
    if view.target is not aten.view.default:
        return False
    shape = view.meta["val"].shape
    return len(shape) == 4 and bool(shape[:2] == heads.meta["val"].shape[:2])


def _operand(heads: Node, transposed: bool) -> _Operand:
    if heads.target is aten.permute.default and (found := _OPERAND.get(tuple(axes_of(heads)))) is not None:
        rows_first, turned = found
        source = heads.args[0]
        assert isinstance(source, Node)
        return _Operand(source, transposed != turned, rows_first)
    return _Operand(heads, transposed, rows_first=False)


def _only_permute(results: list[Node]) -> Node | None:
    """The permute that alone reads the product, if a product can be written in its order."""
    if len(results) != 1 or len(results[0].users) != 1:
        return None
    (user,) = results[0].users
    return user if user.target is aten.permute.default and tuple(axes_of(user)) in _RESULT else None
