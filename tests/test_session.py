"""The session as Python sees it. That training equals PyTorch's is tested in test_training.py."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from daf import native
from daf.errors import Exit
from daf.manifest import example_path, manifest_path, read_manifest

Arrays = list[np.ndarray[Any, Any]]


def open_session(program: Path, seed: int = 0) -> native.Session:
    return native.Session(str(program), str(manifest_path(program)), seed=seed)


@pytest.fixture
def session(cnn_program: Path) -> native.Session:
    return open_session(cnn_program)


@pytest.fixture
def batch(cnn_program: Path) -> Arrays:
    example = load_file(example_path(cnn_program))
    return [example[tensor.name] for tensor in read_manifest(manifest_path(cnn_program)).train_step.inputs]


def assert_same(a: Mapping[str, np.ndarray[Any, Any]], b: Mapping[str, np.ndarray[Any, Any]]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_importing_the_runtime_does_not_import_torch() -> None:
    code = "import sys; from daf import native; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_step_trains_and_counts(session: native.Session, batch: Arrays) -> None:
    before = session.state()
    losses = [session.step(batch) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert session.step_count == 5
    assert session.outputs()["loss"] == np.float32(losses[-1])
    assert all((before[name] != value).any() for name, value in session.state().items() if name.endswith("weight"))


def test_lr_of_zero_changes_no_parameter(session: native.Session, batch: Arrays, cnn_program: Path) -> None:
    before = session.state()
    session.step(batch, lr=0.0)
    manifest = read_manifest(manifest_path(cnn_program))
    parameters = [tensor.name for tensor in manifest.state if tensor.kind == "parameter"]
    assert_same({name: before[name] for name in parameters}, {name: session.state()[name] for name in parameters})


def test_predict_leaves_the_state_alone(session: native.Session, batch: Arrays) -> None:
    session.step(batch)
    before = session.state()
    (scores,) = session.predict(batch[:1])
    assert scores.shape == (32, 10)
    assert_same(session.state(), before)
    np.testing.assert_array_equal(session.predict(batch[:1])[0], scores)
    with pytest.raises(native.DafError, match="read them right after step"):
        session.outputs()


def test_state_can_be_moved_to_another_session(session: native.Session, batch: Arrays, cnn_program: Path) -> None:
    session.step(batch)
    other = open_session(cnn_program)
    other.set_state(session.state())
    assert_same(other.state(), session.state())
    np.testing.assert_array_equal(other.predict(batch[:1])[0], session.predict(batch[:1])[0])


def test_restore_continues_bit_for_bit(cnn_program: Path, batch: Arrays, tmp_path: Path) -> None:
    path = str(tmp_path / "w.safetensors")
    whole = open_session(cnn_program, seed=3)
    for step in range(5):
        if step == 2:
            whole.save(path)
        loss = whole.step(batch)
    resumed = open_session(cnn_program)
    resumed.restore(path)
    assert (resumed.step_count, resumed.seed) == (2, 3)
    assert [resumed.step(batch) for _ in range(3)][-1] == loss
    assert_same(resumed.state(), whole.state())


def test_memory_is_what_the_manifest_predicts(session: native.Session, batch: Arrays, cnn_program: Path) -> None:
    session.step(batch)
    held, predicted = session.memory(), read_manifest(manifest_path(cnn_program)).memory
    parts = {"weights", "constants", "optimizer", "arena", "activations", "gradients", "pool", "workspace", "batch"}
    assert held.keys() == parts
    for part in parts - {"constants", "workspace"}:  # of constants the manifest counts each method's
        assert held[part] == predicted[part], part
    assert 0 < held["workspace"] <= predicted["workspace"]  # a thread that found no work to claim holds none


def bad_batches(batch: Arrays) -> list[tuple[Arrays, str]]:
    x, target = batch
    return [
        ([x], "it takes 2 inputs, found 1"),
        ([x, target, target], "it takes 2 inputs, found 3"),
        ([x.astype(np.float64), target], "must be float32[32, 1, 8, 8], found float64[32, 1, 8, 8]"),
        ([x.astype(">f4"), target], "must be float32[32, 1, 8, 8], found >f4[32, 1, 8, 8]"),
        ([x[:31].copy(), target], "must be float32[32, 1, 8, 8], found float32[31, 1, 8, 8]"),
        ([x.swapaxes(2, 3), target], "that is not C-contiguous; use numpy.ascontiguousarray()"),
        ([x, target.astype(np.int32)], "must be int64[32], found int32[32]"),
        ([x, target.tolist()], "must be int64[32], found list"),
    ]


@pytest.mark.parametrize("case", range(8))
def test_inputs_that_do_not_fit(session: native.Session, batch: Arrays, case: int) -> None:
    inputs, message = bad_batches(batch)[case]
    with pytest.raises(native.DafError) as raised:
        session.step(inputs)
    assert message in str(raised.value)
    assert raised.value.exit_code == Exit.DATA
    assert session.step_count == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nothing", np.zeros(10, np.float32), "it has no 'nothing'"),
        ("head.bias", np.zeros(11, np.float32), "'head.bias' must be float32[10], found float32[11]"),
        ("head.bias", np.zeros(10, np.float64), "'head.bias' must be float32[10], found float64[10]"),
        ("head.bias", [0.0] * 10, "found list"),
    ],
)
def test_state_that_does_not_fit(session: native.Session, name: str, value: Any, message: str) -> None:
    before = session.state()
    with pytest.raises(native.DafError) as raised:
        session.set_state({name: value})
    assert message in str(raised.value)
    assert raised.value.exit_code == Exit.WEIGHTS
    assert_same(session.state(), before)


def test_a_failing_kernel_is_named_and_the_session_goes_on(session: native.Session, batch: Arrays) -> None:
    wrong = batch[1].copy()
    wrong[3] = 10
    with pytest.raises(native.DafError, match=r"daf::cross_entropy: target 10 is outside \[0, 10\)") as raised:
        session.step([batch[0], wrong])
    assert raised.value.exit_code == Exit.DEVICE
    assert session.step_count == 0
    assert np.isfinite(session.step(batch))


def test_a_loss_that_is_not_finite_is_not_an_error(session: native.Session, batch: Arrays) -> None:
    assert np.isnan(session.step([np.full_like(batch[0], np.nan), batch[1]]))


def test_a_missing_operator_is_named(cnn_program: Path, tmp_path: Path) -> None:
    data = cnn_program.read_bytes().replace(b"daf::convolution\0", b"daf::convolutiom\0")
    document = json.loads(manifest_path(cnn_program).read_text())
    document["program"]["sha256"] = hashlib.sha256(data).hexdigest()
    program = tmp_path / "p.pte"
    program.write_bytes(data)
    manifest_path(program).write_text(json.dumps(document))
    with pytest.raises(native.DafError, match=r"needs operator daf::convolutiom\.out, which this runtime") as raised:
        open_session(program)
    assert raised.value.exit_code == Exit.PROGRAM


def test_threads_take_turns(session: native.Session, batch: Arrays) -> None:
    def work() -> None:
        for _ in range(5):
            session.step(batch)
            session.state()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.step_count == 20


def request(program: Path, **options: object) -> str:
    paths = {"program": str(program), "manifest": str(manifest_path(program)), "data": str(example_path(program))}
    return json.dumps({"schema": 1, "steps": 3, **paths, **options})


def test_run_writes_the_lines_it_reports(cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    lines: list[str] = []
    footer = native.run(request(cnn_program, trace=str(trace)), lines.append, lambda: False)
    assert trace.read_text().splitlines() == lines
    assert lines[-1] == footer
    rows = [json.loads(line) for line in lines]
    of_steps = ["step", "counters", "step", "event", "counters", "step", "counters"]
    assert [row["type"] for row in rows] == ["header", *of_steps, "footer"]
    profile = next(row for row in rows if row["type"] == "event")
    assert (profile["event"], profile["step"]) == ("profile", 2)
    assert any(name == "daf::convolution.out" for name, _ in profile["ops"])
    assert all(time_ns >= 0 for _, time_ns in profile["ops"])
    assert [row["step"] for row in rows if row["type"] == "step"] == [1, 2, 3]
    assert rows[-1]["completed"]
    for row in (row for row in rows if row["type"] == "step"):
        assert row["forward_us"] + row["backward_us"] + row["update_us"] <= row["total_us"]


def test_run_stops_when_asked(cnn_program: Path, tmp_path: Path) -> None:
    answers = iter([False, True])
    footer = native.run(request(cnn_program, save=str(tmp_path / "w")), lambda _: None, lambda: next(answers))
    assert json.loads(footer)["reason"] == "stopped"
    assert json.loads(footer)["steps"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w", "w.optim-1.safetensors"]


def test_run_saves_when_a_callback_raises(cnn_program: Path, tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        if json.loads(line)["type"] == "step":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        native.run(request(cnn_program, save=str(tmp_path / "w")), interrupt, lambda: False)
    assert (tmp_path / "w").exists()


def test_run_puts_an_error_into_the_footer(cnn_program: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(native.DafError, match="no such file") as raised:
        native.run(request(cnn_program, data=str(tmp_path / "none")), lines.append, lambda: False)
    footer = json.loads(lines[-1])
    assert (footer["type"], footer["reason"], footer["error"]) == ("footer", "error", str(raised.value))


def test_epoch_order_is_a_permutation() -> None:
    order = native.epoch_order(1, 2, 1000)
    assert sorted(order) == list(range(1000))
    assert (order != native.epoch_order(1, 3, 1000)).any()
    with pytest.raises(native.DafError, match="cannot order -1 samples"):
        native.epoch_order(0, 0, -1)


def test_dropout_keeps_or_doubles() -> None:
    x = np.arange(1, 1001, dtype=np.float32)
    y = native.dropout(x, 0.5, 0, 0, 0)
    kept = y != 0
    assert 400 < kept.sum() < 600
    np.testing.assert_array_equal(y[kept], 2 * x[kept])
    with pytest.raises(native.DafError, match="p must be from 0 to 1"):
        native.dropout(x, 1.5, 0, 0, 0)


def test_operator_names_has_ours_and_executorchs() -> None:
    assert {"daf::gemm.out", "aten::add.out"} <= set(native.operator_names())
