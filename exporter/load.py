"""Phase 1, load: a model file becomes a module, an example batch and a loss."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from daf.errors import Exit, UserError
from daf.exporter import zoo
from daf.exporter.silence import silenced

if TYPE_CHECKING:
    import torch

_REQUIRED = ("model", "batch", "loss")
_CONTRACT = "a model file defines model(**settings), batch(**settings) and loss(output, target)"


@dataclass(frozen=True)
class ModelFile:
    """A checked model file with the settings the user gave."""

    name: str
    path: Path
    module: ModuleType
    settings: dict[str, Any]

    def make_model(self) -> torch.nn.Module:
        import torch

        model = self._call("model")
        if not isinstance(model, torch.nn.Module):
            raise self._error(f"model() returned {type(model).__name__}, not a torch.nn.Module")
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not trainable:
            raise self._error(
                "no parameter is trainable: set requires_grad = True on at least one parameter in model()"
            )
        for name, parameter in trainable.items():
            if parameter.dtype != torch.float32:
                dtype = str(parameter.dtype).removeprefix("torch.")
                raise self._error(f"parameter {name} is {dtype}, and training is in float32: convert it with .float()")
        return model

    def make_batch(self) -> tuple[torch.Tensor, ...]:
        import torch

        batch = self._call("batch")
        if not isinstance(batch, tuple) or len(batch) < 2 or not all(isinstance(t, torch.Tensor) for t in batch):
            raise self._error("batch() must return a tuple of tensors: the model's inputs, then the target")
        if not all(t.dim() > 0 and t.shape[0] == batch[0].shape[0] > 0 for t in batch):
            shapes = ", ".join(str(list(t.shape)) for t in batch)
            raise self._error(f"axis 0 of every tensor of batch() must be the samples; their shapes are {shapes}")
        return tuple(t.detach().contiguous() for t in batch)

    @property
    def loss(self) -> Callable[[Any, torch.Tensor], torch.Tensor]:
        loss: Callable[[Any, torch.Tensor], torch.Tensor] = self.module.loss
        return loss

    def dataset(self, split: str) -> dict[str, torch.Tensor]:
        import torch

        if not callable(getattr(self.module, "dataset", None)):
            raise UserError(
                f"cannot make data from {self.path.name}: it has no dataset(split, **settings); "
                "write the data with safetensors.torch.save_file instead",
                Exit.MODEL,
            )
        result = self._call("dataset", split)
        if not isinstance(result, dict):
            raise self._error(f"dataset() returned {type(result).__name__}, not a dict of tensors")
        for name, value in result.items():
            if not isinstance(value, torch.Tensor):
                raise self._error(f"dataset() returned {type(value).__name__} for {name}, not a tensor")
        return {name: tensor.contiguous() for name, tensor in result.items()}

    def _call(self, function: str, *args: Any) -> Any:
        call = getattr(self.module, function)
        accepted = inspect.signature(call).parameters
        settings = {k: v for k, v in self.settings.items() if k in accepted}
        try:
            return call(*args, **settings)
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            raise _raised(self.path, f"{function}()", error) from error

    def _error(self, problem: str) -> UserError:
        return UserError(f"cannot use {self.path}: {problem}", Exit.MODEL)


def load_model_file(name_or_path: str, settings: Mapping[str, str] | None = None) -> ModelFile:
    """Finds a model file by path or zoo name, imports it and converts the settings by its annotations."""
    path = _find(name_or_path)
    module = _import(path)
    missing = [f"{name}()" for name in _REQUIRED if not callable(getattr(module, name, None))]
    if missing:
        raise UserError(f"cannot use {path}: it does not define {' or '.join(missing)}; {_CONTRACT}", Exit.MODEL)
    return ModelFile(path.stem, path, module, _convert_settings(path, module, dict(settings or {})))


def _find(name_or_path: str) -> Path:
    if name_or_path in zoo.names():
        return zoo.path(name_or_path)
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.suffix == ".py" or "/" in name_or_path:
        raise UserError(f"cannot load {path}: no such file", Exit.MODEL)
    near = difflib.get_close_matches(name_or_path, zoo.names(), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(
        f"cannot load {name_or_path}: it is neither a file nor a zoo model; {hint}the zoo has {', '.join(zoo.names())}",
        Exit.MODEL,
    )


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"daf_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"cannot load {path}: it is not a Python file; {_CONTRACT}", Exit.MODEL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look the module up by name
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)  # a model file may import its neighbours
    try:
        with silenced():
            spec.loader.exec_module(module)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        install = "daf-mobile[zoo]" if zoo.path(path.stem) == path else str(error.name)
        raise UserError(
            f"cannot use {path}: it needs the package {error.name}; install it with pip install '{install}'", Exit.MODEL
        ) from error
    except (Exception, SystemExit) as error:  # a script that parses arguments exits
        raise _raised(path, "importing it", error) from error
    finally:
        sys.path.remove(folder)
    return module


def _raised(path: Path, action: str, error: BaseException) -> UserError:
    place, own = "", str(path.absolute())
    if isinstance(error, SyntaxError) and error.lineno:
        place = f" at line {error.lineno}" + (f" of {error.filename}" if error.filename != own else "")
    else:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == own]
        if lines:
            place = f" at line {lines[-1]}"
    text = str(error).strip().splitlines()
    return UserError(
        f"cannot use {path}: {action} raised {type(error).__name__}{place}: {text[0] if text else 'no message'}",
        Exit.MODEL,
    )


def _convert_settings(path: Path, module: ModuleType, settings: dict[str, str]) -> dict[str, Any]:
    known: dict[str, inspect.Parameter] = {}
    for name in ("model", "batch", "dataset"):
        function = getattr(module, name, None)
        if callable(function):
            for parameter in inspect.signature(function).parameters.values():
                if parameter.default is not inspect.Parameter.empty:
                    known.setdefault(parameter.name, parameter)
    converted: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UserError(
                f"cannot set {name} of {path.name}: it has no such setting; {hint}"
                f"it has {', '.join(sorted(known)) or 'none'}",
                Exit.USAGE,
            )
        converted[name] = _convert(path, name, text, known[name].default)
    return converted


def _convert(path: Path, name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() in values:
            return values[text.lower()]
    else:
        kind = type(default) if isinstance(default, int | float) else str
        try:
            return kind(text)
        except ValueError:
            pass
    raise UserError(
        f"cannot set {name} of {path.name} to {text!r}: it takes a {type(default).__name__} (default {default})",
        Exit.USAGE,
    )
