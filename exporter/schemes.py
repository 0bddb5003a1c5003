"""Phase 5, assign schemes: how each saved activation is kept until backward reads it.

    keep     as it is: small, not float32, or not to be rounded (exporter/rounding.py)
    mask     1 bit per element: the backward of a ReLU needs no more
    planes   bit-planes in the activation store; normalised, where only the backward of a normalisation reads it and its
             rows or maps are shorter than a group of the store: small values would be rounded by the steps of large
             ones beside them
    division the averages of blocks, and bit-planes of what is left, in the activation store (exporter/division.py)
    derive   nothing of its own: a linear function of what is kept anyway (exporter/recipe.py), as the output of
             conv-bn-relu is of the planes of the convolution's output and the mask of the ReLU, and that of dropout is
             of its input

An activation may have a mask for one reader and planes (or a derivation) for the others. In division mode nothing is
derived, and activation functions have no derivatives of their own (exporter/passes/take_derivatives.py): the method as
published keeps every tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.fx import Node

from daf.exporter.division import AVERAGE_BITS, HEADER_BITS, Division, MapEncoding, encode_maps
from daf.exporter.find_saved import SavedActivation, is_view, storage_root
from daf.exporter.ops import ACTIVATION_SAVES_OUTPUT
from daf.exporter.rounding import may_be_rounded
from daf.exporter.store_ops import mask_words

aten = torch.ops.aten
daf = torch.ops.daf

ActivationMode = Literal["fp32", "daf", "division"]

STORE_SCHEMA = 5  # of the plan, the recipes and the encoding; as kStoreSchema in runtime_ops/session/manifest.h
DEFAULT_BITS = 2  # on average
# Where rounding does not average out (docs/benchmarks.md): a depthwise convolution sums over one channel, and what
# attention and its surroundings store are factors of the gradient that goes on to the layers before, so that errors
# multiply: a bit more for four times the layers.
CAREFUL_BITS = 3
MAX_CAREFUL_LAYERS = 16
GROUP_ELEMENTS = 256
GROUP_HEADER_BYTES = 4
MAX_BITS = 8
# Below this a tensor is kept as it is: the store's bookkeeping would cost as much as it saves.
MIN_ELEMENTS = 4 * GROUP_ELEMENTS
# A derived value may be the sum of this many stored ones: each adds its rounding error, and time to read.
MAX_TERMS = 3
# Deriving halves the memory and nearly doubles the error of the gradient (measured for ResNet-18 at 8 bits: 1.13 %
# instead of 0.63 %). Who asks for more bits than this asks for precision: then every value has planes of its own.
MAX_DERIVED_BITS = 4


@dataclass(frozen=True)
class Normalized:
    """The output of batch normalisation, from its saved input."""

    node: Node  # batch_norm_train
    x: Node


@dataclass(frozen=True)
class Saved:
    """Another saved activation."""

    node: Node


@dataclass(frozen=True)
class Sum:
    left: Derivation
    right: Derivation


@dataclass(frozen=True)
class Dropped:
    """The output of dropout, whose mask is made again, from its saved input."""

    node: Node  # dropout
    x: Node


Derivation = Normalized | Saved | Sum | Dropped


@dataclass(frozen=True)
class AssignedScheme:
    activation: SavedActivation
    value: Literal["keep", "planes", "division", "derive", "none"]
    mask: bool = False
    derivation: Derivation | None = None
    normalized_for: Node | None = None  # the backward of the normalisation whose normalised input is stored
    n_terms: int = 1  # whole tensors that are read to get the value back
    map: MapEncoding | None = None  # of division
    bits: int | None = None  # of planes, where the mode fixes them
    are_probabilities: bool = False

    @property
    def name(self) -> str:
        parts = (["mask"] if self.mask else []) + ([self.value] if self.value != "none" else [])
        return "+".join(parts)

    @property
    def is_stored(self) -> bool:
        """In the activation store."""
        return self.value in ("planes", "division")

    @property
    def n_elements(self) -> int:
        return self.activation.raw_bytes // 4

    @property
    def arena_bytes(self) -> int:
        """What it keeps outside of the store."""
        kept = self.activation.raw_bytes if self.value == "keep" else 0
        return kept + (4 * mask_words(self.n_elements) if self.mask else 0)

    def stored_bytes(self, bits: int) -> int:
        """With `bits` planes, where it has any."""
        return self.arena_bytes + (planes_bytes(self.n_elements, bits, self.map) if self.is_stored else 0)


def planes_bytes(n_elements: int, bits: int, map: MapEncoding | None = None) -> int:
    groups = -(-n_elements // GROUP_ELEMENTS)
    if map is None:
        beside = groups * GROUP_HEADER_BYTES
    else:
        beside = n_elements // map.n_elements * (HEADER_BITS + AVERAGE_BITS * map.n_averages) // 8
    return beside + groups * GROUP_ELEMENTS // 8 * bits


def assign_schemes(
    saved: list[SavedActivation], mode: ActivationMode, bits: int | None = None, exact_masks: bool = False
) -> list[AssignedScheme]:
    """fp32: every activation is kept as it is; with `exact_masks`, as a mask where backward needs no more.

    `bits`: of all that are stored, if that is decided already.
    """
    max_terms = MAX_TERMS if mode == "daf" and (bits is None or bits <= MAX_DERIVED_BITS) else 0
    if mode == "fp32":
        return [_mask_or_keep(activation, exact_masks) for activation in saved]
    assigned: dict[Node, AssignedScheme] = {}
    for activation in saved:  # in the order of forward: what a value derives from is assigned before it
        assigned[activation.node] = _compress(activation, assigned, max_terms, mode)
    return list(assigned.values())


def default_bits(saved: list[SavedActivation]) -> int:
    """On average, of what is stored."""
    n_attention = sum(_is_attention(activation.node) for activation in saved)
    readers = (reader for activation in saved for reader in backward_readers(activation.node))
    if n_attention > MAX_CAREFUL_LAYERS:
        return CAREFUL_BITS + 1
    return CAREFUL_BITS if n_attention or any(map(_is_depthwise_gradient, readers)) else DEFAULT_BITS


def _is_attention(saved: Node) -> bool:
    """Whether these are its probabilities: of every query for every key."""
    return saved.target is daf.softmax.default and not is_log_softmax(saved) and saved.meta["val"].dim() >= 3


def _is_depthwise_gradient(reader: Node) -> bool:
    if reader.target is not daf.convolution_weight_grad.default:
        return False
    x, groups = reader.args[1], reader.args[6]
    assert isinstance(x, Node)
    return bool(groups != 1 and groups == x.meta["val"].shape[1])


def divide(schemes: list[AssignedScheme], batch_size: int, division: Division) -> list[AssignedScheme]:
    """Averages beside the planes where there are maps to average, and the bits of all planes."""
    return [_divide(scheme, batch_size, division) if scheme.value == "planes" else scheme for scheme in schemes]


def _divide(scheme: AssignedScheme, batch_size: int, division: Division) -> AssignedScheme:
    map, bits = encode_maps(scheme.activation.node, batch_size, division)
    return replace(scheme, value="planes" if map is None else "division", map=map, bits=bits)


def _mask_or_keep(activation: SavedActivation, exact_masks: bool) -> AssignedScheme:
    node = activation.node
    if exact_masks and all(passes_by_mask(reader, node) for reader in backward_readers(node)):
        return AssignedScheme(activation, "none", mask=True)
    return AssignedScheme(activation, "keep")


def _compress(
    activation: SavedActivation, assigned: Mapping[Node, AssignedScheme], max_terms: int, mode: ActivationMode
) -> AssignedScheme:
    node = activation.node
    if node.meta["val"].dtype != torch.float32 or activation.raw_bytes < 4 * MIN_ELEMENTS:
        return AssignedScheme(activation, "keep")
    readers = list(backward_readers(node))
    mask = any(passes_by_mask(reader, node) for reader in readers)
    if all(passes_by_mask(reader, node) for reader in readers):
        return AssignedScheme(activation, "none", mask)
    if is_log_softmax(node) and not all(reader.target is daf.softmax_backward.default for reader in readers):
        return AssignedScheme(activation, "keep")
    if not may_be_rounded(node, lambda reader: _reads_no_value(reader, node, mode)):
        return AssignedScheme(activation, "keep")
    if mode == "daf" and not mask and (dropped := _dropped(node, assigned)) is not None:
        return AssignedScheme(activation, "derive", derivation=dropped, n_terms=assigned[dropped.x].n_terms)
    has_own_mask = any(passes_by_mask(reader, node) and forward_activation(reader) is node for reader in readers)
    derivation = _rectified(node, assigned) if has_own_mask else None
    if derivation is not None:
        n_terms = _n_terms(derivation, assigned)
        if n_terms <= max_terms:
            return AssignedScheme(activation, "derive", mask, derivation, n_terms=n_terms)
    if mode == "daf" and len(readers) == 1 and (_reads_rows(readers[0], node) or _reads_maps(readers[0], node)):
        return AssignedScheme(activation, "planes", normalized_for=readers[0])
    return AssignedScheme(activation, "planes", mask, are_probabilities=node.target is daf.softmax.default)


def backward_readers(node: Node) -> Iterator[Node]:
    """Nodes of backward that read the storage of `node`, through views or not."""
    for user in node.users:
        if user.op != "call_function":
            continue
        if is_view(user):
            yield from backward_readers(user)
        elif user.meta["daf_phase"] == "backward":
            yield user


def _reads_no_value(reader: Node, saved: Node, mode: ActivationMode) -> bool:
    """Whether it reads a mask instead. In division mode activation functions read a rounded value, as published."""
    if mode == "division" and reader.target is daf.activation_backward.default:
        return True
    return passes_by_mask(reader, saved)


def _reads_rows(reader: Node, saved: Node) -> bool:
    """Whether it is the backward of a layer normalisation of rows that are shorter than a group."""
    if reader.target is not daf.layer_norm_backward.default or reader.args[1] is not saved:
        return False
    shape, n_axes = saved.meta["val"].shape, int(reader.args[5])  # type: ignore[arg-type]
    return bool(shape[len(shape) - n_axes :].numel() < GROUP_ELEMENTS and layer_norm_of(reader) is not None)


def _reads_maps(reader: Node, saved: Node) -> bool:
    """Whether it is the backward of a batch normalisation of maps that are smaller than a group."""
    if reader.target is not daf.batch_norm_backward.default or reader.args[1] is not saved:
        return False
    norms = [user for user in saved.users if user.target is daf.batch_norm_train.default]
    return bool(saved.meta["val"].shape[2:].numel() < GROUP_ELEMENTS and norms == [batch_norm_of(reader)])


def layer_norm_of(backward: Node) -> Node | None:
    return _forward_of(backward, daf.layer_norm.default)


def batch_norm_of(backward: Node) -> Node | None:
    return _forward_of(backward, daf.batch_norm_train.default)


def _forward_of(backward: Node, target: Any) -> Node | None:
    """The forward node of a normalisation's backward, by the mean that it made."""
    mean = backward.args[3]
    made = mean.args[0] if isinstance(mean, Node) and mean.target is operator.getitem else None
    return made if isinstance(made, Node) and made.target is target else None


# Activations whose backward is grad where a bit is set, and `slope` times grad elsewhere.
_MASKED = {"relu", "hardtanh", "leaky_relu"}


def passes_by_mask(reader: Node, saved: Node) -> bool:
    """Whether `reader` is the backward of an activation that needs 1 bit per element of what `saved` holds."""
    if reader.target is not daf.activation_backward.default or reader.args[2] not in _MASKED:
        return False
    kept = reader.args[1]
    return isinstance(kept, Node) and storage_root(kept) is saved and forward_activation(reader) is not None


def forward_activation(backward: Node) -> Node | None:
    """The forward node of an activation's backward; None when it cannot be told."""
    kept = backward.args[1]
    assert isinstance(kept, Node)
    for node in (kept,) if ACTIVATION_SAVES_OUTPUT[str(backward.args[2])] else kept.users:
        if node.target is daf.activation.default and node.args[1:] == backward.args[2:]:
            return node
    return None


def is_log_softmax(node: Node) -> bool:
    """Its backward is linear in the probabilities, not in their logarithms: the store gets those."""
    return node.target is daf.softmax.default and node.args[2] is True


@dataclass(frozen=True)
class Attention:
    """Stored attention probabilities, and what they would be recomputed from."""

    probabilities: AssignedScheme
    n_tokens: int  # that each one attends to
    head_size: int  # of its query and its key

    def recomputing_pays_from(self, bits: int) -> int:
        """From so many tokens on, exact queries and keys would take less memory than the stored probabilities.

        Exact they must be: a softmax of rounded values is biased, and so would be every gradient behind it.
        """
        return -(-2 * self.head_size * (32 - bits) // bits)


def find_attention(schemes: list[AssignedScheme]) -> list[Attention]:
    found = []
    for scheme in schemes:
        node = scheme.activation.node
        if scheme.value != "planes" or node.target is not daf.softmax.default or is_log_softmax(node):
            continue
        scores = node.args[0]
        while isinstance(scores, Node) and scores.target in (aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor):
            scores = scores.args[0]
        if isinstance(scores, Node) and scores.target is daf.batch_gemm.default:
            queries = scores.args[0]
            assert isinstance(queries, Node)
            found.append(Attention(scheme, int(node.meta["val"].shape[-1]), int(queries.meta["val"].shape[-1])))
    return found


def _dropped(node: Node, assigned: Mapping[Node, AssignedScheme]) -> Dropped | None:
    """It adds no error of its own, so at any number of bits."""
    if node.target is not daf.dropout.default:
        return None
    x = storage_root(node.args[0])  # type: ignore[arg-type]
    return Dropped(node, x) if _holds_value(x, assigned) else None


def _holds_value(node: Node, assigned: Mapping[Node, AssignedScheme]) -> bool:
    known = assigned.get(node)
    if known is None or known.value == "none" or is_log_softmax(node):
        return False
    return known.normalized_for is None


def _rectified(node: Node, assigned: Mapping[Node, AssignedScheme]) -> Derivation | None:
    """How the input of the (leaky) ReLU `node` derives from what is saved; the mask does the rest."""
    if node.target is not daf.activation.default or node.args[1] not in ("relu", "leaky_relu"):
        return None
    assert isinstance(node.args[0], Node)
    return _linear(node.args[0], assigned)


def _linear(node: Node, assigned: Mapping[Node, AssignedScheme]) -> Derivation | None:
    if _holds_value(node, assigned):
        return Saved(node)
    if node.target is operator.getitem and node.args[1] == 0:
        made = node.args[0]
        assert isinstance(made, Node)
        x = made.args[0]
        if made.target is daf.batch_norm_train.default and x in assigned and assigned[x].value in ("planes", "keep"):  # type: ignore[index]
            return Normalized(made, x)  # type: ignore[arg-type]
    if node.target is aten.add.Tensor and not node.kwargs and _same_shape(node):
        left, right = (_linear(term, assigned) for term in node.args)  # type: ignore[arg-type]
        if left is not None and right is not None:
            return Sum(left, right)
    return None


def _same_shape(add: Node) -> bool:
    shape = add.meta["val"].shape
    return all(isinstance(term, Node) and term.meta["val"].shape == shape for term in add.args)


def _n_terms(derivation: Derivation, assigned: Mapping[Node, AssignedScheme]) -> int:
    if isinstance(derivation, Sum):
        return _n_terms(derivation.left, assigned) + _n_terms(derivation.right, assigned)
    node = derivation.node if isinstance(derivation, Saved) else derivation.x
    return assigned[node].n_terms
