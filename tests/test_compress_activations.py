"""What the store changes in a graph, seen on small models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from training import Export, NoOptimizer, Options, Sgd, export_program, load_model_file, open_session

from daf.exporter.passes.take_derivatives import reads_derivative
from daf.exporter.schemes import ActivationMode

MODEL = """
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}

    def forward(self, x):
        {forward}

def model():
    torch.manual_seed(0)
    return Net()

def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, 8, 16, 16, generator=generator), torch.arange(4) % 3

def loss(output, target):
    return F.cross_entropy(output.mean((2, 3)) if output.dim() == 4 else output, target)
"""

BLOCK = "self.conv = nn.Conv2d(8, 8, 3, padding=1); self.bn = nn.BatchNorm2d(8); self.head = nn.Conv2d(8, 3, 3)"


def export_compressed(folder: Path, layers: str, forward: str, bits: int | None = None) -> Export:
    path = folder / "net.py"
    path.write_text(MODEL.format(layers=layers, forward=forward))
    options = Options(load_model_file(str(path), {}), folder / "net.pte", Sgd(), activations="daf", bits=bits)
    return export_program(options)


def schemes(export: Export) -> dict[str, str]:
    return {scheme.activation.name: scheme.name for scheme in export.schemes if scheme.name != "keep"}


def calls(export: Export, operator: str) -> list[torch.fx.Node]:
    nodes = export.programs["train_step"].graph.nodes
    return [node for node in nodes if node.op == "call_function" and f"daf.{operator}." in str(node.target)]


def recipes(export: Export, operator: str) -> list[str]:
    return [str(node.args[2]) for node in calls(export, operator)]


def test_conv_bn_relu_is_one_set_of_planes_and_a_mask(tmp_path: Path) -> None:
    export = export_compressed(tmp_path, BLOCK, "return self.head(F.relu(self.bn(self.conv(x))))")
    assert sorted(schemes(export).values()) == ["mask+derive", "planes"]
    assert len(calls(export, "stash")) == 1
    # The head's weight gradient reads relu(bn(conv)) as mask x normalised planes; the norm's backward frees them.
    assert recipes(export, "stored_convolution_weight_grad") == ["planes:0 normalize:1e-05:1:1 mask:0.0"]
    assert recipes(export, "stored_batch_norm_backward") == ["planes:0:last"]
    assert not calls(export, "fetch")


def test_maps_that_share_groups_are_stored_normalised(tmp_path: Path) -> None:
    """And scaled behind it, in place: by forward, and by the recipe of what is derived of them."""
    layers, forward = (
        BLOCK.replace("padding=1", "padding=1, stride=2"),
        "return self.head(F.relu(self.bn(self.conv(x))))",
    )
    export = export_compressed(tmp_path, layers, forward)
    assert recipes(export, "stored_convolution_weight_grad") == ["planes:0 normalize:0.0:1:1 mask:0.0"]
    (norm,) = calls(export, "batch_norm_train")
    (scaling,) = calls(export, "batch_norm_eval")
    (stash,) = calls(export, "stash")
    assert norm.args[1:3] == (None, None)
    assert scaling.args[0] is stash.args[0]
    assert stash.args[0].args[0] is norm
    plain, stored = (gradients_of(tmp_path, forward, mode, 8, layers) for mode in ("fp32", "daf"))
    for name in plain.keys() - {"grad:conv.bias"}:  # whose gradient is 0 in theory
        assert np.linalg.norm(stored[name] - plain[name]) <= 0.02 * np.linalg.norm(plain[name]), name


def test_a_residual_sum_derives_from_both_branches(tmp_path: Path) -> None:
    layers = BLOCK + "; self.other = nn.Conv2d(8, 8, 1); self.bn2 = nn.BatchNorm2d(8)"
    export = export_compressed(
        tmp_path, layers, "return self.head(F.relu(self.bn(self.conv(x)) + self.bn2(self.other(x))))"
    )
    assert recipes(export, "stored_convolution_weight_grad") == [
        "planes:0 normalize:1e-05:1:1 planes:1 normalize:1e-05:1:1 add mask:0.0"
    ]


def test_a_chain_that_would_get_long_keeps_planes_of_its_own(tmp_path: Path) -> None:
    layers = (
        "self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(5)); self.head = nn.Conv2d(8, 3, 3)"
    )
    layers += "; self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(5))"
    forward = "\n        ".join(
        ["for conv, bn in zip(self.convs, self.norms):", "    x = F.relu(bn(conv(x)) + x)", "return self.head(x)"]
    )
    export = export_compressed(tmp_path, layers, forward)
    found = list(schemes(export).values())
    assert "mask+planes" in found
    assert max(scheme.n_terms for scheme in export.schemes) <= 3


def test_a_lone_relu_keeps_one_bit_per_element(tmp_path: Path) -> None:
    layers = "self.conv = nn.Conv2d(8, 16, 3)"
    export = export_compressed(tmp_path, layers, "return F.relu(self.conv(x)).sum((2, 3))[:, :3]")
    assert list(schemes(export).values()) == ["mask"]
    assert len(calls(export, "activation_with_mask")) == len(calls(export, "masked_gradient")) == 1


def test_relu6_has_a_mask_and_its_output_planes(tmp_path: Path) -> None:
    """The output is not a linear function of the input: it cannot be derived without a bias."""
    export = export_compressed(tmp_path, BLOCK, "return self.head(F.relu6(self.bn(self.conv(x))))")
    assert sorted(schemes(export).values()) == ["mask+planes", "planes"]


def test_gelu_stores_its_derivative_and_backward_multiplies(tmp_path: Path) -> None:
    forward = "return self.head(F.gelu(self.conv(x)))"
    export = export_compressed(tmp_path, BLOCK, forward)
    assert sorted(schemes(export).values()) == ["planes", "planes"]  # the derivative, and the input of the head
    (derivative,) = calls(export, "activation_derivative")
    assert derivative.args[1] == "gelu"
    (stash,) = (user for user in derivative.users)
    (gelu,) = calls(export, "activation")
    order = list(export.programs["train_step"].graph.nodes)
    assert order.index(stash) < order.index(gelu), "the derivative and the output would be in memory together"
    (product,) = calls(export, "stored_activation_backward")
    assert product.args[4] == "exp"
    # The mean over many roundings is the gradient: that of gelu'(rounded x) would be another.
    exact = gradients_of(tmp_path, forward, "fp32", 8)["grad:conv.weight"]
    path = tmp_path / "unbiased.py"
    path.write_text(MODEL.format(layers=BLOCK, forward=forward))
    file = load_model_file(str(path), {})
    stored = export_program(Options(file, tmp_path / "u.pte", NoOptimizer(), activations="daf", bits=1))
    session, errors = open_session(stored), []
    for seed in range(200):
        session.set_rounding_seed(seed)
        session.step([tensor.numpy() for tensor in stored.batch])
        errors.append(session.outputs()["grad:conv.weight"] - exact)
    error_of_mean, expected = np.square(np.mean(errors, 0)).sum(), np.var(errors, 0).sum() / len(errors)
    assert error_of_mean < 1.5 * expected


def test_the_gradient_of_an_activation_is_not_its_input() -> None:
    """A value of forward may be both: only for the second can the derivative stand."""
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    backward = torch.ops.daf.activation_backward.default
    of_x = graph.call_function(backward, (y, x, "gelu", 0.0, 0.0))
    of_itself = graph.call_function(backward, (x, x, "gelu", 0.0, 0.0))
    of_exp = graph.call_function(backward, (y, x, "exp", 0.0, 0.0))
    assert reads_derivative(of_x)
    assert not reads_derivative(of_itself)
    assert not reads_derivative(of_exp)


def test_who_reads_more_than_the_derivative_gets_planes_of_its_own(tmp_path: Path) -> None:
    """The product's backward reads the input of GELU as well, and the sum is derived from values, not derivatives."""
    forward = "y = self.conv(x); return self.head(F.gelu(y) * y)"
    export = export_compressed(tmp_path, BLOCK, forward)
    (derivative,) = calls(export, "activation_derivative")
    stashed = [node.args[0] for node in calls(export, "stash")]
    assert derivative in stashed
    assert derivative.args[0] in stashed
    forward = "y = self.conv(x); return self.head(F.relu(y + self.bn(F.gelu(y))))"
    plain, stored = (gradients_of(tmp_path, forward, mode, 4) for mode in ("fp32", "daf"))
    for name in ("grad:conv.weight", "grad:head.weight"):
        assert np.linalg.norm(stored[name] - plain[name]) < 0.3 * np.linalg.norm(plain[name]), name


def test_the_output_of_dropout_is_derived_from_its_input(tmp_path: Path) -> None:
    """Exactly: at any number of bits, and the same elements are dropped again."""
    forward = "y = F.gelu(self.conv(x)); return self.head(F.dropout(y, 0.3)) + self.head(y)"
    for bits in (2, 8):
        export = export_compressed(tmp_path, BLOCK, forward, bits)
        assert sorted(schemes(export).values()) == ["derive", "planes", "planes"]
        read = recipes(export, "stored_convolution_weight_grad")
        assert read == ["planes:1", "planes:1:last dropout:0.3:0"]
    plain, stored = (gradients_of(tmp_path, forward, mode, 8) for mode in ("fp32", "daf"))
    for name, expected in plain.items():
        assert np.linalg.norm(stored[name] - expected) <= 0.01 * np.linalg.norm(expected), name


def test_dropout_of_what_is_not_kept_is_stored_itself(tmp_path: Path) -> None:
    export = export_compressed(tmp_path, BLOCK, "return self.head(F.dropout(self.conv(x), 0.3))")
    assert list(schemes(export).values()) == ["planes"]


def test_activations_of_the_same_value_have_masks_of_their_own(tmp_path: Path) -> None:
    """The output of ReLU6 passes its own gradient below 6, and that of the leaky ReLU behind it above 0."""
    forward = (
        "y = F.relu6(self.bn(self.conv(x)) * 4); return self.head(F.leaky_relu(y - 3, 0.1) + F.leaky_relu(y, 0.1))"
    )
    plain, stored = (gradients_of(tmp_path, forward, mode, 8) for mode in ("fp32", "daf"))
    largest = max(float(np.linalg.norm(gradient)) for gradient in plain.values())
    for name, expected in plain.items():  # the bias before the BatchNorm has a gradient of 0
        assert np.linalg.norm(stored[name] - expected) <= 0.02 * np.linalg.norm(expected) + 1e-3 * largest, name


def gradients_of(
    folder: Path, forward: str, mode: ActivationMode, bits: int, layers: str = BLOCK
) -> dict[str, np.ndarray[Any, Any]]:
    path = folder / f"{mode}.py"
    path.write_text(MODEL.format(layers=layers, forward=forward))
    chosen = bits if mode == "daf" else None
    file = load_model_file(str(path), {})
    export = export_program(Options(file, folder / f"{mode}.pte", NoOptimizer(), activations=mode, bits=chosen))
    session = open_session(export)
    session.step([tensor.numpy() for tensor in export.batch])
    return {name: value for name, value in session.outputs().items() if name.startswith("grad:")}


def test_every_entry_is_read_after_it_is_stored_and_freed_once_within_the_workspace(tmp_path: Path) -> None:
    from zoo_settings import DEEP, SMALL

    for model in SMALL.keys() - DEEP:
        file = load_model_file(model, {k: str(v) for k, v in SMALL[model].items()})
        export = export_program(Options(file, tmp_path / "p.pte", Sgd(), activations="daf"))
        stored: set[int] = set()
        for node in export.programs["train_step"].graph.nodes:
            if "daf.stash." in str(node.target):
                stored.add(int(node.args[1]))
                continue
            for argument in node.args:
                for word in argument.split() if isinstance(argument, str) and "planes:" in argument else ():
                    if word.startswith("planes:"):
                        entry = int(word.split(":")[1])
                        assert entry in stored, f"{model}: {node.name} reads entry {entry} before or after its time"
                        if word.endswith(":last"):
                            stored.remove(entry)
        assert not stored, f"{model} never frees {stored}"
        # What a budget counts with is what it takes.
        assert export.written is not None
        session = open_session(export)
        session.step([tensor.numpy() for tensor in export.batch])
        assert session.memory()["workspace"] <= export.written.manifest["memory"]["workspace"], model


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_bits_say_what_is_stored(bits: int, tmp_path: Path) -> None:
    export = export_compressed(tmp_path, BLOCK, "return self.head(F.relu(self.bn(self.conv(x))))", bits)
    assert export.written is not None
    entries = export.written.manifest["store"]["entries"]
    assert [entry["bits"] for entry in entries] == [bits] * (1 if bits <= 4 else 2)  # derived, or planes of its own
    n = entries[0]["n_elements"]
    kept = {k["name"]: k for k in export.written.manifest["activations"]["kept"]}[entries[0]["name"]]
    assert kept["stored_bytes"] == n // 256 * (4 + 32 * bits)


def test_weights_are_not_activations(tmp_path: Path) -> None:
    export = export_compressed(tmp_path, BLOCK, "return self.head(F.relu(self.bn(self.conv(x))))")
    names = {name for name, _ in nn.Module.named_parameters(export.model)}
    assert not names & set(schemes(export))


def test_attention_says_why_its_probabilities_are_stored(tmp_path: Path) -> None:
    from zoo_settings import SMALL

    file = load_model_file("vit_tiny", {name: str(value) for name, value in SMALL["vit_tiny"].items()})
    export = export_program(Options(file, tmp_path / "p.pte", Sgd(), activations="daf"))
    assert export.attention
    one = export.attention[0]
    stored_bits, exact_bits = 2, 32
    least = one.recomputing_pays_from(stored_bits)
    # Of one query: its probabilities, against a query and a key of their own that are exact instead of stored.
    for n_tokens, pays in ((least, True), (least - 1, False)):
        assert (n_tokens * stored_bits >= 2 * one.head_size * (exact_bits - stored_bits)) == pays
