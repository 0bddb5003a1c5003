"""The model zoo: each file is a model by the same contract as a user's own, and can be exported by its bare name."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """All model names, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.py") if not file.stem.startswith("_"))


def path(name: str) -> Path:
    """Where the file of model `name` lies; it exists only if `name` is one of names()."""
    return _FOLDER / f"{name}.py"
