"""Phase 5, assign schemes: how each saved activation is kept until backward reads it."""

from __future__ import annotations

from dataclasses import dataclass

from daf.exporter.find_saved import SavedActivation

ACTIVATION_MODES = ("fp32",)


@dataclass(frozen=True)
class AssignedScheme:
    activation: SavedActivation
    scheme: str
    stored_bytes: int


def assign_schemes(saved: list[SavedActivation], mode: str) -> list[AssignedScheme]:
    """fp32: every activation is kept as it is."""
    assert mode in ACTIVATION_MODES
    return [AssignedScheme(activation, "keep", activation.raw_bytes) for activation in saved]
