"""`--dynamic-batch`: every batch up to the exported one trains and predicts as in PyTorch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training import Export, Sgd, export_model, open_session
from zoo_settings import SMALL

from daf import native
from daf.errors import Exit, UserError
from daf.exporter.capture import capture_training

BATCH_SIZE = 8
LR, MOMENTUM = 0.05, 0.9


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder, optimizer = tmp_path_factory.mktemp("dynamic"), Sgd(lr=LR, momentum=MOMENTUM)
    return export_model("cnn_digits", folder, optimizer, SMALL["cnn_digits"], dynamic_batch=True)


@pytest.fixture(scope="module")
def data(export: Export) -> tuple[Tensor, Tensor]:
    samples = export.options.file.dataset("train")
    return samples["x"][:40], samples["target"][:40]


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [tensor.numpy() for tensor in tensors]


def test_the_manifest_says_so(export: Export) -> None:
    manifest = export.written.manifest
    assert manifest["dynamic_batch"] is True
    assert manifest["batch_size"] == BATCH_SIZE
    assert manifest["methods"]["train_step"]["inputs"][0]["shape"] == [BATCH_SIZE, 1, 8, 8], "the largest"


def test_memory_is_planned_for_the_largest_batch(export: Export, cnn_export: Export) -> None:
    dynamic, fixed = export.written.manifest["memory"], cnn_export.written.manifest["memory"]
    assert dynamic["activations"] == fixed["activations"]
    assert dynamic["arena"] == pytest.approx(fixed["arena"], rel=0.01)


# Even one sample has 16 values per channel in the last BatchNorm, which is enough for statistics.
@pytest.mark.parametrize("sizes", [[8], [7], [1], [8, 3, 8, 1, 5]], ids=str)
def test_steps_are_those_of_eager(export: Export, data: tuple[Tensor, Tensor], sizes: list[int]) -> None:
    session, model, loss = open_session(export), copy.deepcopy(export.model).double(), export.options.file.loss
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    begin = 0
    for n in sizes:
        x, target = (tensor[begin : begin + n] for tensor in data)
        begin += n
        found = session.step(arrays(x, target))
        optimizer.zero_grad()
        expected = loss(model(x.double()), target)
        expected.backward()
        optimizer.step()
        assert found == pytest.approx(expected.item(), rel=1e-5)
    state = session.state()
    for name, value in model.state_dict().items():
        error = np.abs(state[name] - value.numpy()).max() / max(1.0, float(value.abs().max()))
        assert error < 1e-5, name


@pytest.mark.parametrize("n", [8, 5, 1])
def test_predicts_smaller_batches(export: Export, data: tuple[Tensor, Tensor], n: int) -> None:
    session = open_session(export)
    (found,) = session.predict(arrays(data[0][:n]))
    with torch.no_grad():
        expected = copy.deepcopy(export.model).eval()(data[0][:n])
    assert found.shape == (n, 10)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_larger_batch_is_refused(export: Export, data: tuple[Tensor, Tensor]) -> None:
    session = open_session(export)
    x, target = data
    for call in (lambda: session.step(arrays(x[:9], target[:9])), lambda: session.predict(arrays(x[:9]))):
        with pytest.raises(native.DafError, match="9") as caught:
            call()
        assert caught.value.exit_code == Exit.DATA
    assert session.step_count == 0
    session.step(arrays(x[:8], target[:8]))  # and the session still works


def test_an_empty_batch_is_refused(export: Export, data: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(native.DafError) as caught:
        open_session(export).step(arrays(data[0][:0], data[1][:0]))
    assert caught.value.exit_code == Exit.DATA


def test_tensors_of_one_batch_have_as_many_samples(export: Export, data: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(native.DafError) as caught:
        open_session(export).step(arrays(data[0][:5], data[1][:4]))
    assert caught.value.exit_code == Exit.DATA


@pytest.mark.parametrize("n", [7, 9])
def test_a_fixed_program_takes_its_batch_only(cnn_export: Export, data: tuple[Tensor, Tensor], n: int) -> None:
    session = open_session(cnn_export)
    with pytest.raises(native.DafError, match=str(n)) as caught:
        session.step(arrays(data[0][:n], data[1][:n]))
    assert caught.value.exit_code == Exit.DATA


class FixesItsBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.view(2, 3, 4)).view(6, 2)


def test_a_model_that_fixes_its_batch_is_told_where(capfd: pytest.CaptureFixture[str]) -> None:
    batch = torch.ones(6, 4), torch.zeros(6, 2)
    with pytest.raises(UserError, match="with a dynamic batch: it fixes the number of samples") as caught:
        capture_training(FixesItsBatch(), batch, F.mse_loss, dynamic_batch=True)
    assert caught.value.exit_code == Exit.UNSUPPORTED
    assert ": return self.layer(x.view(2, 3, 4)).view(6, 2)); take it from the input's shape" in str(caught.value)
    assert capfd.readouterr() == ("", ""), "torch prints nothing of its own"
