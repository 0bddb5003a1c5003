"""What the project promises first: a program learns exactly what PyTorch learns.

Float32 arithmetic in another order gives other roundings, and training amplifies them: a fixed tolerance would lie.
So both the program and eager float32 are measured against eager float64.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from training import export_model, gradient_errors, train_eager, train_program, weight_errors
from zoo_settings import SMALL

from daf.exporter.fuse_optimizer import AdamW, Sgd

MODELS = sorted(str(path) for path in (Path(__file__).parent / "models").glob("*.py"))
N_STEPS = 20
# Two float32 runs are equally far from float64, up to luck.
LUCK = 8.0
ROUNDING = 2e-6

OPTIMIZERS = {
    "sgd": Sgd(lr=0.02, momentum=0.9, weight_decay=1e-3),
    "adamw": AdamW(lr=1e-3, weight_decay=0.05),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("model", [*MODELS, *SMALL], ids=lambda model: Path(model).stem)
def test_learns_what_pytorch_learns(model: str, optimizer: Sgd | AdamW, tmp_path: Path) -> None:
    export = export_model(model, tmp_path, optimizer, SMALL.get(model))
    program = train_program(export, N_STEPS)
    exact = train_eager(export, optimizer, N_STEPS, double=True)
    eager = train_eager(export, optimizer, N_STEPS, double=False)

    # An activation function at its kink may go the way it goes in float64 or the way it goes in float32.
    errors, float32_errors = (gradient_errors(program.gradients, reference) for reference in (exact, eager))
    errors = {name: min(error, float32_errors[name]) for name, error in errors.items()}
    assert max(errors.values()) < 1e-4, errors
    assert set(errors) == {name for name, p in export.model.named_parameters() if p.requires_grad}

    scale = max(abs(loss) for loss in exact.losses)
    eager_error = max(abs(a - b) for a, b in zip(eager.losses, exact.losses, strict=True)) / scale
    program_error = max(abs(a - b) for a, b in zip(program.losses, exact.losses, strict=True)) / scale
    assert program_error <= LUCK * eager_error + ROUNDING

    eager_weights = weight_errors({name: eager.weights[name] for name in program.weights}, exact.weights)
    program_weights = weight_errors(program.weights, exact.weights)
    worst = max(eager_weights.values())
    too_far = {name: e for name, e in program_weights.items() if e > LUCK * max(worst, ROUNDING)}
    assert not too_far, (too_far, worst)
