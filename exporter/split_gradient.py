"""Makes the gradient of a large weight in blocks of rows, so that it never exists whole.

Each block is applied before the next one is made. The price is a copy of the matching channels of the layer's output
gradient, and packing the layer's input once per block: worth it only where the gradient would add noticeably to the
activations, which are all alive when backward begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from executorch.exir.dialects._ops import ops as exir_ops
from torch.fx import Node

from daf.exporter.graph import GraphEditor, size_bytes

_MAX_BLOCKS = 8
# A gradient may be this part of the kept activations and stay whole.
_UNNOTICED = 1 / 16


def n_blocks(grad: Node, activation_bytes: int) -> int:
    """In how many blocks to make a gradient; 1 where it cannot be split or need not."""
    source = _output_gradient(grad)
    if source is None:
        return 1
    grad_bytes = size_bytes(grad.meta["val"])
    if size_bytes(source.meta["val"]) > grad_bytes:  # the copies would cost more than they save
        return 1
    wanted = math.ceil(grad_bytes / max(1.0, _UNNOTICED * activation_bytes))
    return min(wanted, _MAX_BLOCKS, int(grad.meta["val"].shape[0]))


def split_gradient(edit: GraphEditor, grad: Node, blocks: int) -> Iterator[tuple[int, Node]]:
    """(first row, gradient of the block) one by one; new nodes go where the editor inserts."""
    source = _output_gradient(grad)
    assert source is not None
    n_rows = int(grad.meta["val"].shape[0])
    for i in range(blocks):
        first, last = n_rows * i // blocks, n_rows * (i + 1) // blocks
        # The rows of the gradient are the channels of the output: axis 1 of its gradient.
        part = edit.call(exir_ops.edge.aten.slice_copy.Tensor, source, 1, first, last)
        yield first, edit.call(grad.target, part, *grad.args[1:])


def _output_gradient(grad: Node) -> Node | None:
    """The gradient of the layer's output that a weight gradient is computed from, if it can be sliced."""
    daf = exir_ops.edge.daf
    splittable = (grad.target is daf.convolution_weight_grad.default and grad.args[-1] == 1) or (
        grad.target is daf.gemm.default and grad.args[2:4] == (None, True) and grad.meta["val"].dim() == 2
    )
    # A stored input would be decoded anew for every block, and freed by the first one.
    source = grad.args[0]
    return source if splittable and isinstance(source, Node) else None
