"""Which forward values backward keeps alive, and how many bytes they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from exports import ConvNet, Mlp, canonical, conv_batch, mlp_batch, output_sum, resnet_graph
from torch import Tensor, nn
from training import load_model_file

from daf.exporter.find_saved import find_saved, mark_phases
from daf.exporter.graph import loss_node

daf = torch.ops.daf


def test_conv_bn_relu_linear() -> None:
    n = 5
    saved = find_saved(canonical(ConvNet(), conv_batch(n)))
    feature_map = n * 4 * 6 * 6 * 4  # bytes
    assert [(s.module, s.raw_bytes) for s in saved] == [
        ("conv", feature_map),  # read by the norm's backward
        ("bn", 4 * 4),  # mean
        ("bn", 4 * 4),  # variance
        ("", feature_map),  # the ReLU's output: its own backward, and the linear layer's weight gradient
        ("", n * 3 * 4),  # log-probabilities
        ("", 4),  # total weight of the samples
    ]
    assert all(s.node.meta["daf_role"] == "activation" for s in saved)
    assert [s.name for s in saved] == [s.node.name for s in saved]


def test_inputs_and_weights_are_not_activations() -> None:
    """The first layer's weight gradient reads the data, the hidden gradient reads the head's weight."""
    saved = find_saved(canonical(Mlp(), mlp_batch(), output_sum))
    assert [s.node.target for s in saved] == [daf.activation.default]


def test_a_value_and_its_views_are_saved_once() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(6, 8)
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.hidden(x))
            return self.head(hidden.view(10, 4)) + self.head(hidden.unsqueeze(0).view(10, 4).relu())

    saved = find_saved(canonical(Net(), mlp_batch(), output_sum))
    assert [s.raw_bytes for s in saved] == [5 * 8 * 4, 10 * 4 * 4], "tanh once, and the ReLU of its view"
    assert saved[0].node.args[1] == "tanh"


def test_a_frozen_front_keeps_nothing() -> None:
    model = Mlp()
    model.hidden.requires_grad_(False)
    saved = find_saved(canonical(model, mlp_batch(), output_sum))
    assert [s.raw_bytes for s in saved] == [5 * 8 * 4], "only what the head's weight gradient reads"


def test_phases_split_at_the_loss() -> None:
    program = canonical(Mlp(), mlp_batch())
    mark_phases(program)
    phases = [node.meta["daf_phase"] for node in program.graph.nodes if node.op == "call_function"]
    assert phases == sorted(phases, key=["forward", "backward"].index), "all of forward comes first"
    assert loss_node(program).meta["daf_phase"] == "forward"
    assert {"forward", "backward"} == set(phases)


def test_what_backward_computes_from_forward_alone_is_not_kept() -> None:
    """The derivative of a square root and of a cosine need no gradient, and yet belong to backward."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(6, 8)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.hidden(x)
            return hidden.cos() * torch.rsqrt(hidden.square() + 1)

    program = canonical(Net(), mlp_batch(), output_sum)
    saved = find_saved(program)
    assert [str(s.node.target) for s in saved] == ["daf.gemm.default", "aten.cos.default", "aten.rsqrt.default"]
    (sine,) = (node for node in program.graph.nodes if node.target is torch.ops.aten.sin.default)
    assert sine.meta["daf_phase"] == "backward"


def saved_by_eager(model: nn.Module, batch: tuple[Tensor, ...], loss: Callable[[Any, Tensor], Tensor]) -> int:
    """Bytes of the distinct storages that autograd keeps, without parameters, buffers and the batch."""
    known = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), *batch)}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = loss(model(*batch[:-1]), batch[-1])
    assert value.requires_grad  # holds the graph, and with it every saved storage, until they are counted
    return sum(t.untyped_storage().nbytes() for pointer, t in kept.items() if pointer not in known)


def test_resnet18_keeps_what_eager_keeps() -> None:
    file = load_model_file("resnet18", {"width": "16", "batch_size": "8"})
    batch = file.make_batch()
    found = sum(s.raw_bytes for s in find_saved(resnet_graph(8)))
    eager = saved_by_eager(file.make_model(), batch, file.loss)
    # Both keep every convolution's output, every ReLU's, the statistics and the log-probabilities. Average pooling
    # saves its input in eager only to know its shape, but that is a ReLU's output, which is kept anyway.
    assert found == eager
    assert 9.3e6 < found < 9.5e6


def test_max_pooling_keeps_less_than_eager() -> None:
    """Eager keeps the input and int64 indices of max pooling, the program one byte per output."""
    model, batch = nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2)), (torch.ones(3, 2, 10, 10), torch.ones(3))
    found = [s.raw_bytes for s in find_saved(canonical(model, batch, output_sum))]
    outputs = 3 * 4 * 4 * 4
    assert found == [outputs]
    assert saved_by_eager(model, batch, output_sum) == 8 * outputs + 4 * (3 * 4 * 8 * 8)


def test_bytes_follow_the_type() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 8)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.layer(x).double())

    (saved,) = find_saved(canonical(Net(), mlp_batch(), output_sum))
    assert saved.raw_bytes == 5 * 8 * 8
