"""What trains under each `--update`, on the graphs; nothing is lowered here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sparse_model import LAYERS, SOURCE
from training import Export, Options, Sgd, load_model_file

from daf.errors import Exit, UserError
from daf.exporter import pipeline
from daf.exporter.capture import capture_training
from daf.exporter.graph import gradients
from daf.exporter.lower import TRAIN
from daf.exporter.pipeline import PHASES
from daf.exporter.plan_update import MIN_CHANNELS, Update
from daf.exporter.verify import verify
from daf.exporter.write import BudgetTooSmallError


def planned(model: str | Path, update: Update, last_phase: str = "assign schemes", **settings: object) -> Export:
    file = load_model_file(str(model), {name: str(value) for name, value in settings.items()})
    export = pipeline.load(Options(file, Path("unused.pte"), Sgd(), update=update))
    export.programs[TRAIN] = capture_training(export.model, export.batch, file.loss, dynamic_batch=False)
    for phase in PHASES[1:]:
        phase.run(export)
        verify(export.programs[TRAIN], phase.name)
        if phase.name == last_phase:
            return export
    raise AssertionError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return path


def kept_bytes(export: Export) -> int:
    return sum(scheme.stored_bytes(2) for scheme in export.schemes)


def test_dense_trains_everything(model: Path) -> None:
    export = planned(model, Update(), "plan update", norm=True)
    assert export.trained.keys() == dict(export.model.named_parameters()).keys()
    assert export.update.dense is None


def test_bias_trains_biases_and_the_last_layer(model: Path) -> None:
    export = planned(model, Update("bias"), norm=True)
    names = {name for name, _ in export.model.named_parameters()}
    assert export.trained.keys() == {name for name in names if name.endswith(".bias")} | {"head.weight"}
    assert gradients(export.programs[TRAIN]).keys() == export.trained.keys()
    # Of the whole front, the signs of ReLUs are kept, and the input of the last layer.
    size_of_hidden = 4 * 6 * 20
    assert all(scheme.activation.raw_bytes <= size_of_hidden for scheme in export.schemes if scheme.name == "keep")
    assert {name for name, p in export.model.named_parameters() if p.requires_grad} == set(export.trained)


def test_last_trains_what_is_behind(model: Path) -> None:
    export = planned(model, Update("last", 2), norm=True)
    assert export.trained.keys() == {"hidden.weight", "hidden.bias", "head.weight", "head.bias"}
    assert not export.model.norm.training, "a frozen front does not change"
    further = planned(model, Update("last", 5), norm=True)
    assert further.trained.keys() == {name for name, _ in further.model.named_parameters() if "stem" not in name}
    assert further.model.norm.training, "it is behind the first layer that trains"


def test_the_front_has_no_backward(model: Path) -> None:
    first, last = (planned(model, Update("sparse", ratio=0.5, layers=n)) for n in (5, 1))
    assert [layer.name for layer in last.update.layers] == ["hidden"]
    assert last.trained.keys() == {"hidden.weight", "hidden.bias", "head.weight", "head.bias"}
    assert kept_bytes(last) < 0.2 * kept_bytes(first)
    targets = [str(node.target) for node in last.programs[TRAIN].graph.nodes]
    assert not any("convolution_weight_grad" in target or "input_grad" in target for target in targets)


def test_layers_by_name_and_by_the_module_around_them(model: Path) -> None:
    export = planned(model, Update("sparse", ratio=0.3, layers=("pointwise", "grouped.weight")), "plan update")
    assert [layer.name for layer in export.update.layers] == ["grouped", "pointwise"]
    assert "stem.bias" not in export.trained, "it is before the first update layer"
    assert "depthwise.bias" in export.trained


def test_wider_layers_train_a_smaller_part(model: Path) -> None:
    layers = planned(model, Update("sparse", ratio=0.4, layers=5), "plan update").update.layers
    assert len({layer.n_chosen for layer in layers if layer.n_chosen < layer.channels.n}) == 1
    n_all = sum(layer.channels.n * layer.slice_elements for layer in layers)
    n_chosen = sum(layer.n_chosen * layer.slice_elements for layer in layers)
    assert 0.25 * n_all < n_chosen <= 0.4 * n_all


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (Update("last", 7), "it has 6 layers that train; use --update last:6 or less"),
        (Update("sparse", layers=6), "it has 5 layers whose channels can train besides its last one"),
        (Update("sparse", ratio=0.5, layers=("poitwise",)), "matches none of its layers; did you mean pointwise?"),
        (Update("sparse", layers=("head",)), "head is its last layer, which trains whole; leave it out"),
        (Update("sparse", ratio=0.001, layers=5), "use --update-ratio 0."),
    ],
)
def test_refusals_say_what_would_do(model: Path, update: Update, expected: str) -> None:
    with pytest.raises(UserError, match="cannot export the model with --update") as error:
        planned(model, update, "plan update")
    assert expected in str(error.value)
    assert error.value.exit_code == Exit.USAGE


def test_the_ratio_that_a_refusal_names_is_enough(model: Path) -> None:
    with pytest.raises(UserError) as error:
        planned(model, Update("sparse", ratio=0.001, layers=5), "plan update")
    ratio = float(str(error.value).split("--update-ratio ")[1].split()[0])
    assert len(planned(model, Update("sparse", ratio=ratio, layers=5), "plan update").update.layers) == len(LAYERS)


def test_mobilenet_keeps_two_percent_of_its_features() -> None:
    """At 2 % of the weights, without the pruning that the paper also uses: 98 % less than dense training."""
    export = planned("mobilenet_v2", Update("sparse", ratio=0.02), batch_size=8, resolution=96)
    plan = export.update
    assert plan.dense is not None
    assert kept_bytes(export) < 0.02 * plan.dense.activations, (kept_bytes(export), plan.dense)
    n_conv = sum(p.numel() for name, p in export.model.named_parameters() if p.dim() > 1 and "classifier" not in name)
    n_chosen = sum(layer.n_chosen * layer.slice_elements for layer in plan.layers)
    assert 0.015 * n_conv < n_chosen <= 0.02 * n_conv
    assert all(layer.n_chosen >= MIN_CHANNELS for layer in plan.layers)
    assert len(plan.layers) > 8


def test_a_budget_takes_as_many_layers_as_fit(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fits last is what is written."""
    tried: list[int | None] = []

    def run_phases(export: Export, _: object) -> None:
        n_layers = export.options.update.layers
        assert not isinstance(n_layers, tuple)
        tried.append(n_layers)
        export.update.layers = [None] * (n_layers or 9)  # type: ignore[list-item]
        if n_layers is None or n_layers > 5:
            raise BudgetTooSmallError("too small")

    monkeypatch.setattr(pipeline, "_run_phases", run_phases)
    options = Options(load_model_file(str(model), {}), Path("unused.pte"), Sgd(), update=Update("sparse"))
    export = pipeline.export_program(options)
    assert export.options.update.layers == 5
    assert tried[0] is None
    assert max(n for n in tried if n is not None and n <= 5) == 5
    assert len(tried) <= 5
    with pytest.raises(BudgetTooSmallError):  # layers that the user names are not given up
        pipeline.export_program(replace(options, update=Update("sparse", layers=8)))
