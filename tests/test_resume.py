"""Training that is saved and resumed is the training that was never interrupted, bit for bit."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from training import Export, open_session

from daf import native
from daf.errors import Exit

Batches = list[list[np.ndarray]]


@pytest.fixture(params=["cnn_export", "dropout_export"])
def export(request: pytest.FixtureRequest) -> Export:
    """SGD with momentum and BatchNorm; AdamW and dropout."""
    export: Export = request.getfixturevalue(request.param)
    return export


def batches(export: Export, n: int) -> Batches:
    """Other samples in every step: the example batch, its values moved around."""
    return [[np.roll(tensor.numpy(), (k, k), axis=(0, -1)) for tensor in export.batch] for k in range(n)]


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_ten_and_ten_steps_are_twenty(export: Export, tmp_path: Path) -> None:
    data = batches(export, 20)
    whole = open_session(export, seed=11)
    expected = [whole.step(batch) for batch in data]

    first = open_session(export, seed=11)
    losses = [first.step(batch) for batch in data[:10]]
    first.save(str(tmp_path / "w.safetensors"))
    second = open_session(export)
    second.restore(str(tmp_path / "w.safetensors"))
    assert (second.step_count, second.seed) == (10, 11)
    losses += [second.step(batch) for batch in data[10:]]

    assert losses == expected
    assert same(second.state(), whole.state())


def test_saving_and_predicting_change_nothing(export: Export, tmp_path: Path) -> None:
    data = batches(export, 4)
    plain, saving = open_session(export), open_session(export)
    for step, batch in enumerate(data):
        assert plain.step(batch) == saving.step(batch)
        saving.save(str(tmp_path / f"w{step % 2}.safetensors"))
        saving.predict(batch[:1])
    assert same(plain.state(), saving.state())


def test_the_weights_load_into_the_model(export: Export, tmp_path: Path) -> None:
    session = open_session(export)
    for batch in batches(export, 3):
        session.step(batch)
    session.save(str(tmp_path / "w.safetensors"))
    model = copy.deepcopy(export.model)
    model.load_state_dict(load_file(tmp_path / "w.safetensors"), strict=True)
    for name, value in model.state_dict().items():
        assert np.array_equal(value.numpy(), session.state()[name]), name
    assert not torch.equal(next(model.parameters()), next(export.model.parameters())), "they are the trained ones"


def test_predict_is_eager_in_evaluation_mode_with_the_trained_weights(export: Export, tmp_path: Path) -> None:
    session = open_session(export)
    for batch in batches(export, 5):
        session.step(batch)
    session.save(str(tmp_path / "w.safetensors"))
    model = copy.deepcopy(export.model).eval()
    model.load_state_dict(load_file(tmp_path / "w.safetensors"))
    with torch.no_grad():
        expected = model(*export.batch[:-1])
    (found,) = session.predict([tensor.numpy() for tensor in export.batch[:-1]])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(session.predict([t.numpy() for t in export.batch[:-1]])[0], found), "nothing is dropped"


def test_a_seed_is_all_that_dropout_depends_on(dropout_export: Export) -> None:
    data = batches(dropout_export, 5)
    runs = {}
    for run, seed in enumerate((3, 3, 4)):
        session = open_session(dropout_export, seed=seed)
        runs[run] = [session.step(batch) for batch in data]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_without_dropout_the_seed_does_not_matter(cnn_export: Export) -> None:
    data = batches(cnn_export, 3)
    first, second = (open_session(cnn_export, seed=seed) for seed in (0, 9))
    assert [first.step(batch) for batch in data] == [second.step(batch) for batch in data]


def test_weights_of_another_program_are_refused(cnn_export: Export, dropout_export: Export, tmp_path: Path) -> None:
    open_session(cnn_export).save(str(tmp_path / "w.safetensors"))
    session = open_session(dropout_export)
    before = session.state()
    with pytest.raises(native.DafError) as caught:
        session.restore(str(tmp_path / "w.safetensors"))
    assert caught.value.exit_code == Exit.WEIGHTS
    assert same(session.state(), before), "nothing was half restored"
