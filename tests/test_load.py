"""Model files: what is accepted, and the message for everything that is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daf.errors import Exit, UserError
from daf.exporter import zoo
from daf.exporter.load import load_model_file

Write = Callable[..., str]  # (text, name of the file) -> its path

GOOD = """\
import torch
from torch import nn

def model(width: int = 8, scale: float = 0.5, bias: bool = True, name: str = "a"):
    return nn.Linear(width, 2, bias=bias)

def batch(batch_size: int = 4, width: int = 8):
    return torch.ones(batch_size, width), torch.zeros(batch_size, 2)

def loss(output, target):
    return (output - target).square().mean()
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "mine.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def replaced(function: str, body: str) -> str:
    """GOOD with another body of one function."""
    head, rest = GOOD.split(f"def {function}(", 1)
    signature, _, tail = rest.partition("\n")
    remaining = tail.split("\ndef ", 1)
    return f"{head}def {function}({signature}\n    {body}\n" + (f"\ndef {remaining[1]}" if remaining[1:] else "")


def refused(exit_code: Exit, action: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        action()
    assert caught.value.exit_code == exit_code
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- what works -------------------------------------------------------------------------------------------------


def test_a_file_gives_model_batch_and_loss(write: Write) -> None:
    file = load_model_file(write(GOOD))
    assert file.name == "mine"
    model, (x, target) = file.make_model(), file.make_batch()
    assert (x.shape, target.shape) == ((4, 8), (4, 2))
    assert file.loss(model(x), target).shape == ()


def test_a_zoo_model_goes_by_its_bare_name() -> None:
    file = load_model_file("mlp_digits")
    assert file.path == zoo.path("mlp_digits")
    assert file.make_batch()[0].shape == (32, 64)


def test_settings_take_the_type_of_their_default(write: Write) -> None:
    given = {"width": "6", "scale": "2", "bias": "no", "name": "7", "batch_size": "3"}
    file = load_model_file(write(GOOD), given)
    assert file.settings == {"width": 6, "scale": 2.0, "bias": False, "name": "7", "batch_size": 3}
    assert [type(value) for value in file.settings.values()] == [int, float, bool, str, int]
    model = file.make_model()
    assert (model.in_features, model.bias) == (6, None)
    assert file.make_batch()[0].shape == (3, 6), "a setting goes to every function that has it"


def test_a_neighbour_can_be_imported(write: Write) -> None:
    write("from torch import nn\ndef layer(): return nn.Linear(8, 2)\n", "my_layers_of_test_load.py")
    path = write("from my_layers_of_test_load import layer\n" + replaced("model", "return layer()"))
    assert load_model_file(path).make_model().in_features == 8


def test_the_batch_is_contiguous_and_detached(write: Write) -> None:
    path = write(replaced("batch", "return torch.ones(3, 4, requires_grad=True).t(), torch.zeros(4, 2)"))
    x, _ = load_model_file(path).make_batch()
    assert x.is_contiguous()
    assert not x.requires_grad


def test_dataset(write: Write) -> None:
    body = "return {'x': torch.ones(2, size).t(), 'split': torch.tensor(len(split))}"
    text = f"{GOOD}def dataset(split, size: int = 6):\n    {body}\n"
    made = load_model_file(write(text), {"size": "5"}).dataset("train")
    assert made["x"].shape == (5, 2)
    assert made["x"].is_contiguous()
    assert made["split"] == len("train")


# ---- what does not ----------------------------------------------------------------------------------------------


def test_no_such_file() -> None:
    assert refused(Exit.MODEL, lambda: load_model_file("nowhere/model.py")) == (
        "cannot load nowhere/model.py: no such file"
    )


def test_unknown_zoo_name_offers_the_nearest() -> None:
    message = refused(Exit.MODEL, lambda: load_model_file("resnet81"))
    assert message.startswith("cannot load resnet81: it is neither a file nor a zoo model; did you mean resnet18? ")
    assert all(name in message for name in zoo.names())


def test_unknown_zoo_name_like_no_other() -> None:
    assert "did you mean" not in refused(Exit.MODEL, lambda: load_model_file("qqq"))


def test_not_a_python_file(write: Write) -> None:
    message = refused(Exit.MODEL, lambda: load_model_file(write("", "weights.bin")))
    assert "it is not a Python file" in message


@pytest.mark.parametrize("function", ["model", "batch", "loss"])
def test_missing_function(write: Write, function: str) -> None:
    path = write(GOOD.replace(f"def {function}(", f"def other_{function}("))
    assert refused(Exit.MODEL, lambda: load_model_file(path)) == (
        f"cannot use {path}: it does not define {function}(); "
        "a model file defines model(**settings), batch(**settings) and loss(output, target)"
    )


def test_an_empty_file_misses_all_three(write: Write) -> None:
    message = refused(Exit.MODEL, lambda: load_model_file(write("")))
    assert "it does not define model() or batch() or loss()" in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nx.nothing\n", "importing it raised AttributeError at line 2: 'int' object has no attribute 'nothing'"),
        ("x = 1\nassert x == 2\n", "importing it raised AssertionError at line 2: no message"),
        ("def model(:\n", "importing it raised SyntaxError at line 1: "),
        ("import sys\nsys.exit(2)\n", "importing it raised SystemExit at line 2: 2"),
        ("raise ValueError('one\\ntwo')\n", "importing it raised ValueError at line 1: one"),
    ],
)
def test_raises_when_imported(write: Write, text: str, told: str) -> None:
    path = write(text)
    assert refused(Exit.MODEL, lambda: load_model_file(path)).startswith(f"cannot use {path}: {told}")


def test_a_syntax_error_in_a_neighbour_is_told_as_the_neighbours(write: Write) -> None:
    neighbour = write("def layer(:\n", "broken_layers_of_test_load.py")
    message = refused(Exit.MODEL, lambda: load_model_file(write("\n\nimport broken_layers_of_test_load\n")))
    assert f"SyntaxError at line 1 of {neighbour}: " in message


@pytest.mark.parametrize("function", ["model", "batch"])
def test_raises_when_called(write: Write, function: str) -> None:
    text = replaced(function, "raise KeyError('weights')")
    path, line = write(text), text.splitlines().index("    raise KeyError('weights')") + 1
    file = load_model_file(path)
    message = refused(Exit.MODEL, file.make_model if function == "model" else file.make_batch)
    assert message == f"cannot use {path}: {function}() raised KeyError at line {line}: 'weights'"


def test_the_line_is_told_for_a_relative_path_too(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(write("x = 1\nx.nothing\n"))
    monkeypatch.chdir(path.parent)
    assert "AttributeError at line 2" in refused(Exit.MODEL, lambda: load_model_file("mine.py"))


def test_the_line_is_that_of_the_model_file_when_torch_raises(write: Write) -> None:
    text = replaced("batch", "return torch.ones(2, 3) @ torch.ones(2, 3), torch.ones(2)")
    line = next(i for i, code in enumerate(text.splitlines(), start=1) if "@" in code)
    message = refused(Exit.MODEL, load_model_file(write(text)).make_batch)
    assert f"batch() raised RuntimeError at line {line}: mat1 and mat2" in message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return torch.ones(2)", "model() returned Tensor, not a torch.nn.Module"),
        ("return nn.Linear(8, 2).requires_grad_(False)", "no parameter is trainable"),
        ("return nn.ReLU()", "no parameter is trainable"),
        ("return nn.Linear(8, 2).double()", "parameter weight is float64, and training is in float32"),
    ],
)
def test_unusable_model(write: Write, body: str, told: str) -> None:
    assert told in refused(Exit.MODEL, load_model_file(write(replaced("model", body))).make_model)


def test_frozen_parameters_may_be_of_any_type(write: Write) -> None:
    body = "return nn.Sequential(nn.Linear(8, 2).double().requires_grad_(False), nn.Linear(2, 2))"
    assert len(load_model_file(write(replaced("model", body))).make_model()) == 2


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return torch.ones(2, 8)", "batch() must return a tuple of tensors"),
        ("return [torch.ones(2, 8), torch.ones(2)]", "batch() must return a tuple of tensors"),
        ("return (torch.ones(2, 8),)", "batch() must return a tuple of tensors: the model's inputs, then the target"),
        ("return torch.ones(2, 8), 3", "batch() must return a tuple of tensors"),
        ("return torch.ones(2, 8), torch.ones(3)", "must be the samples; their shapes are [2, 8], [3]"),
        ("return torch.ones(2, 8), torch.tensor(1)", "must be the samples; their shapes are [2, 8], []"),
        ("return torch.ones(0, 8), torch.ones(0)", "must be the samples; their shapes are [0, 8], [0]"),
    ],
)
def test_unusable_batch(write: Write, body: str, told: str) -> None:
    assert told in refused(Exit.MODEL, load_model_file(write(replaced("batch", body))).make_batch)


def test_unknown_setting_offers_the_nearest(write: Write) -> None:
    path = write(GOOD)
    assert refused(Exit.USAGE, lambda: load_model_file(path, {"widht": "3"})) == (
        "cannot set widht of mine.py: it has no such setting; did you mean width? "
        "it has batch_size, bias, name, scale, width"
    )


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("width", "wide", "cannot set width of mine.py to 'wide': it takes a int (default 8)"),
        ("width", "1.5", "it takes a int"),
        ("scale", "big", "cannot set scale of mine.py to 'big': it takes a float (default 0.5)"),
        ("bias", "maybe", "cannot set bias of mine.py to 'maybe': it takes a bool (default True)"),
    ],
)
def test_bad_setting_value(write: Write, setting: str, value: str, told: str) -> None:
    path = write(GOOD)
    assert told in refused(Exit.USAGE, lambda: load_model_file(path, {setting: value}))


def test_missing_package(write: Write) -> None:
    path = write("import no_such_package\n")
    assert refused(Exit.MODEL, lambda: load_model_file(path)) == (
        f"cannot use {path}: it needs the package no_such_package; install it with pip install 'no_such_package'"
    )


def test_missing_package_of_a_zoo_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert "pip install 'daf-mobile[zoo]'" in refused(Exit.MODEL, lambda: load_model_file("mlp_digits"))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("", "cannot make data from mine.py: it has no dataset(split, **settings)"),
        ("def dataset(split):\n    return [1]\n", "dataset() returned list, not a dict of tensors"),
        ("def dataset(split):\n    return {'x': [1]}\n", "dataset() returned list for x, not a tensor"),
        ("def dataset(split):\n    return 1 / 0\n", "dataset() raised ZeroDivisionError at line 13: division by zero"),
    ],
)
def test_unusable_dataset(write: Write, function: str, told: str) -> None:
    file = load_model_file(write(GOOD + function))
    assert told in refused(Exit.MODEL, lambda: file.dataset("train"))


def test_errors_of_the_model_file_in_our_own_words_pass_through(write: Write) -> None:
    body = "from daf.errors import Exit, UserError; raise UserError('no data here', Exit.DATA)"
    assert refused(Exit.DATA, load_model_file(write(replaced("batch", body))).make_batch) == "no data here"


def test_loading_changes_no_path() -> None:
    before = list(sys.path)
    load_model_file("mlp_digits")
    assert sys.path == before
