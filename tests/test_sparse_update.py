"""`--update sparse`: the chosen channels train as in dense training, and nothing else changes by one bit."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from sparse_model import CHANNELS, LAYERS, export_sparse
from torch import Tensor
from training import AdamW, Export, Sgd, native, open_session, program_gradients

from daf.errors import UserError
from daf.exporter.check import check, of_chosen, relative_errors
from daf.exporter.division import Division
from daf.exporter.eager import loss_and_gradients
from daf.exporter.plan_update import Update

ALL = len(LAYERS)
SOME = Update("sparse", ratio=0.4, layers=ALL, rotate_every=3)


def steps(session: native.Session, export: Export, n: int) -> list[float]:
    return [session.step([tensor.numpy() for tensor in export.batch]) for _ in range(n)]


def chosen(session: native.Session, layer: str) -> list[int]:
    channels: list[int] = session.state()[f"{layer}.weight.index"][0].tolist()
    return channels


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_sparse(tmp_path_factory.mktemp("sparse"), SOME, Sgd(lr=0.05, momentum=0.9, weight_decay=0.01))


@pytest.fixture(scope="module")
def adamw_export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_sparse(tmp_path_factory.mktemp("sparse_adamw"), SOME, AdamW(lr=0.01, weight_decay=0.1))


@pytest.mark.parametrize("optimizer", ["export", "adamw_export"])
def test_gradients_of_chosen_channels_are_the_dense_ones(optimizer: str, request: pytest.FixtureRequest) -> None:
    """Strided, padded, grouped and dilated convolution, depthwise with two outputs per channel, 1x1, linear."""
    export: Export = request.getfixturevalue(optimizer)
    session = open_session(export)
    steps(session, export, 1)
    found = program_gradients(export, session)
    dense = copy.deepcopy(export.model).double().requires_grad_(True)
    batch = (export.batch[0].double(), export.batch[1])
    _, expected = loss_and_gradients(dense, batch, export.options.file.loss)
    expected = {name: of_chosen(export, session, name, expected[name]) for name in found}
    assert {f"{layer}.weight" for layer in LAYERS} < found.keys()
    for layer in LAYERS[2:]:
        assert 1 <= len(chosen(session, layer)) < CHANNELS[layer]
    errors = relative_errors(found, {name: grad.float() for name, grad in expected.items()})
    assert max(errors.values()) < 1e-5, errors
    assert check(export).passed


def test_what_is_not_chosen_does_not_change_by_one_bit(tmp_path: Path) -> None:
    """Weight decay included, and with rotation: what was never chosen is what it was."""
    export = export_sparse(tmp_path, SOME, AdamW(lr=0.01, weight_decay=0.1))
    session = open_session(export)
    initial = {name: p.detach().numpy() for name, p in export.model.named_parameters()}
    state = session.state()
    for _ in range(4):
        steps(session, export, 1)
        state = session.state()
        for layer in LAYERS:
            weight = f"{layer}.weight"
            visited = state[f"{weight}.n_visits"] > 0
            before, after = (by_channel(export, weight, values[weight]) for values in (initial, state))
            assert before[~visited].tobytes() == after[~visited].tobytes()
            trained = np.isin(np.arange(len(visited)), state[f"{weight}.index"][0])
            assert all((a != b).any() for a, b in zip(before[trained], after[trained], strict=True))
    assert (state["hidden.weight.n_visits"] == 0).any(), "otherwise this test says nothing"


def by_channel(export: Export, parameter: str, values: np.ndarray) -> np.ndarray:
    channels = export.update.sparse[parameter].channels
    outer = int(np.prod(values.shape[: channels.axis]))
    return values.reshape(outer, channels.n, -1).swapaxes(0, 1)


@pytest.mark.parametrize(
    "optimizer",
    [Sgd(lr=0.05, momentum=0.0), Sgd(lr=0.05, weight_decay=0.1), AdamW(lr=0.01)],
    ids=lambda o: repr(o)[:25],
)
def test_all_channels_of_all_layers_are_dense_training(optimizer: Sgd | AdamW, tmp_path: Path) -> None:
    folders = [tmp_path / "dense", tmp_path / "sparse"]
    for folder in folders:
        folder.mkdir()
    dense = export_sparse(folders[0], Update(), optimizer)
    sparse = export_sparse(folders[1], Update("sparse", ratio=1.0, layers=ALL, rotate_every=2), optimizer)
    assert sparse.trained.keys() == dense.trained.keys()
    sessions = [open_session(dense), open_session(sparse)]
    losses = [steps(session, dense, 5) for session in sessions]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    states = [session.state() for session in sessions]
    for name in dense.trained:
        np.testing.assert_allclose(states[1][name], states[0][name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_frozen_norm_is_that_of_a_model_in_evaluation_mode(tmp_path: Path) -> None:
    """Its running statistics are used and stay, its bias trains, its scale does not."""
    export = export_sparse(tmp_path, Update("sparse", ratio=1.0, layers=ALL), norm=True)
    assert "norm.bias" in export.trained
    assert "norm.weight" not in export.trained
    state = open_session(export).state()
    assert "norm.running_mean" not in state, "it is a constant"
    result = check(export)  # whose reference is the module that the plan has frozen
    assert not export.model.norm.training
    assert max(result.errors.values()) < 1e-5
    assert "norm.bias" in result.errors


def test_indices_are_state_of_the_program(export: Export) -> None:
    manifest = export.written.manifest
    kinds = {tensor["name"]: tensor for tensor in manifest["state"]["tensors"]}
    layers = {layer["name"]: layer for layer in manifest["update"]["layers"]}
    assert list(layers) == LAYERS
    for name, layer in layers.items():
        index = kinds[f"{name}.weight.index"]
        assert (index["kind"], index["dtype"], index["shape"]) == ("index", "int64", [2, layer["chosen"]])
        assert layer["channels"] == CHANNELS[name]
        momentum = kinds[f"{name}.weight.momentum_buffer"]
        n_weights = export.model.get_parameter(f"{name}.weight").numel()
        assert np.prod(momentum["shape"]) == n_weights // layer["channels"] * layer["chosen"]
    memory = open_session(export).memory()
    planned = manifest["memory"]
    assert (memory["weights"], memory["optimizer"]) == (planned["weights"], planned["optimizer"])


# ---- rotation ---------------------------------------------------------------------------------------------------


def test_channels_change_every_so_many_steps(export: Export) -> None:
    session = open_session(export)
    seen = []
    for _ in range(10):
        steps(session, export, 1)
        seen.append([chosen(session, layer) for layer in LAYERS])
    assert seen[0] == seen[1] == seen[2]
    assert seen[2] != seen[3], "step 4 begins after 3 steps"
    assert seen[3] == seen[4] == seen[5] != seen[6]
    for layer_channels in seen[0]:
        assert layer_channels == sorted(set(layer_channels))


def test_other_seeds_choose_others(export: Export) -> None:
    first, second, other = (open_session(export, seed) for seed in (1, 1, 2))
    assert [chosen(first, layer) for layer in LAYERS] == [chosen(second, layer) for layer in LAYERS]
    assert [chosen(first, layer) for layer in LAYERS] != [chosen(other, layer) for layer in LAYERS]


def test_in_time_everything_is_visited(export: Export) -> None:
    session = open_session(export)
    steps(session, export, 400)
    state = session.state()
    for layer in LAYERS:
        assert (state[f"{layer}.weight.n_visits"] > 0).all(), layer


@pytest.mark.parametrize("select", ["norm", "gradient", "random"])
def test_resuming_is_not_interrupting(select: str, tmp_path: Path) -> None:
    """Saved before, at and after a rotation."""
    update = Update("sparse", ratio=0.4, layers=ALL, rotate_every=3, select=select)
    export = export_sparse(tmp_path, update, AdamW(lr=0.01))
    whole = open_session(export, seed=5)
    expected = steps(whole, export, 10)
    for n_first in (2, 3, 4):
        first, second = open_session(export, seed=5), open_session(export)
        losses = steps(first, export, n_first)
        first.save(str(tmp_path / "w.safetensors"))
        second.restore(str(tmp_path / "w.safetensors"))
        losses += steps(second, export, 10 - n_first)
        assert losses == expected
        a, b = whole.state(), second.state()
        assert a.keys() == b.keys()
        assert all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_a_fresh_channel_takes_the_steps_of_a_fresh_optimizer(tmp_path: Path) -> None:
    """AdamW corrects its averages by the steps that a channel has trained, not by those of the run."""
    lr = 0.01
    update = Update("sparse", ratio=0.08, layers=("hidden",), rotate_every=5, select="random")
    export = export_sparse(tmp_path, update, AdamW(lr=lr, weight_decay=0.0))
    session = open_session(export)
    steps(session, export, 5)
    before = session.state()
    steps(session, export, 1)
    after = session.state()
    since = after["hidden.weight.index"][1]
    fresh = after["hidden.weight.index"][0][since == 5]
    assert len(fresh) > 0
    change = np.abs(after["hidden.weight"] - before["hidden.weight"])[:, fresh]
    # The first step of AdamW is the learning rate in the direction of the gradient.
    assert np.all((change < 1e-8) | (np.abs(change - lr) < 0.05 * lr))
    assert (change > 0.9 * lr).any()


# ---- the usual baselines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("update", [Update("bias"), Update("last", 4)], ids=lambda update: update.name)
def test_baselines_train_as_eager_does(update: Update, tmp_path: Path) -> None:
    """Against the module that the plan has frozen; what is frozen is no state of the program."""
    export = export_sparse(tmp_path, update, norm=True)
    result = check(export)
    assert result.errors.keys() == export.trained.keys()
    assert max(result.errors.values()) < 1e-5
    session = open_session(export)
    names = {name for name in session.state() if not name.endswith("momentum_buffer")}
    assert names == export.trained.keys()
    constants = sum(p.numel() * 4 for name, p in export.model.named_parameters() if name not in export.trained)
    assert export.written.manifest["memory"]["constants"] >= constants


# ---- with everything else ---------------------------------------------------------------------------------------


HALF, LAST = Update("sparse", ratio=0.5, layers=ALL, rotate_every=4), Update("last", 4)
SGD, ADAMW = Sgd(lr=0.05, momentum=0.9), AdamW(lr=0.01)


@pytest.mark.parametrize(
    ("activations", "update", "optimizer"),
    [
        ("daf", HALF, SGD),
        ("daf", LAST, ADAMW),
        ("daf", Update("bias"), SGD),
        ("division", HALF, ADAMW),
        ("division", LAST, SGD),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", ""),
)
def test_stored_activations_and_a_budget_go_with_it(
    activations: str, update: Update, optimizer: Sgd | AdamW, tmp_path: Path
) -> None:
    settings = {"bits": 8} if activations == "daf" else {"division": Division(hfc_bits=8)}
    export = export_sparse(tmp_path, update, optimizer, activations=activations, norm=True, **settings)
    session = open_session(export)
    steps(session, export, 1)
    found = program_gradients(export, session)
    _, expected = loss_and_gradients(export.model, export.batch, export.options.file.loss)
    expected = {name: of_chosen(export, session, name, expected[name]) for name in found}
    errors = relative_errors(found, expected)
    entries = export.written.manifest["store"]["entries"]
    assert max(errors.values()) < 0.05, errors
    assert max(errors.values()) > 1e-6 or not entries, "nothing was rounded"
    if update.name == "sparse":
        assert {entry["name"].split("_")[0] for entry in entries} == {"gather"}
        assert any("map" in entry for entry in entries) == (activations == "division")

    paths = str(export.written.program), str(export.written.manifest_path)
    with pytest.raises(native.DafError) as refused:
        native.Session(*paths, budget=1)
    words = str(refused.value).split()
    smallest = int(words[words.index("is", words.index("smallest")) + 1])
    tight = native.Session(*paths, budget=smallest)
    losses = steps(tight, export, 9)
    assert losses[-1] < losses[0]
    memory, store = tight.memory(), tight.store()
    assert memory["arena"] + memory["workspace"] + store.get("committed", 0) <= smallest


def test_a_budget_is_met_with_fewer_layers(tmp_path: Path) -> None:
    """Exported as often as it takes; what is written fits and trains, and one layer more would not fit."""

    def export(name: str, layers: int | None, budget: int | None) -> Export:
        folder = tmp_path / name
        folder.mkdir()
        return export_sparse(folder, Update("sparse", ratio=0.9, layers=layers), batch_size=64, budget_bytes=budget)

    def needed(export: Export) -> int:
        memory = export.written.manifest["memory"]
        return int(memory["arena"] + memory["workspace"])

    budget = needed(export("all", ALL, None)) - 1
    fitted = export("fitted", None, budget)
    n_layers = len(fitted.update.layers)
    assert 1 <= n_layers < ALL
    assert needed(fitted) <= budget
    assert needed(export("more", n_layers + 1, None)) > budget
    losses = steps(open_session(fitted), fitted, 5)
    assert losses[-1] < losses[0]
    with pytest.raises(UserError, match="raise --budget to at least"):
        export("none", 1, needed(fitted) // 2)


def test_smaller_batches_go_with_it(tmp_path: Path) -> None:
    export = export_sparse(tmp_path, SOME, dynamic_batch=True)
    session = open_session(export)
    x, target = (tensor.numpy() for tensor in export.batch)
    loss = session.step([x[:4], target[:4]])
    model = export.model.double()
    batch: tuple[Tensor, ...] = (export.batch[0][:4].double(), export.batch[1][:4])
    expected, grads = loss_and_gradients(model, batch, export.options.file.loss)
    assert loss == pytest.approx(expected, rel=1e-5)
    found = program_gradients(export, session)
    grads = {name: of_chosen(export, session, name, grad).float() for name, grad in grads.items()}
    assert max(relative_errors(found, grads).values()) < 1e-5


def test_masks_are_exact_in_float32(export: Export) -> None:
    """A ReLU whose output is not kept for a layer keeps one bit per element."""
    kept = {scheme.activation.name: scheme for scheme in export.schemes}
    assert {scheme.name for scheme in kept.values()} == {"keep", "mask"}
    masks = [scheme for scheme in kept.values() if scheme.name == "mask"]
    assert len(masks) >= 3
    torch.testing.assert_close(check(export).loss, check(export).eager_loss, rtol=1e-6, atol=0)
