"""The arena: tensors that live at the same time never share a byte, and little is wasted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from executorch.exir.tensor import TensorSpec
from exports import ConvNet, arena_of, canonical, conv_batch, fused, lowered
from hypothesis import given, settings
from hypothesis import strategies as st

from daf.exporter.find_saved import find_saved
from daf.exporter.fuse_optimizer import NoOptimizer, Sgd
from daf.exporter.graph import gradients
from daf.exporter.lower import TRAIN
from daf.exporter.plan_memory import ALIGNMENT, ARENA_ID, best_fit, check_no_overlap, measure_arena

Lifetime = tuple[int, int]


def make_specs(tensors: Sequence[tuple[int, Lifetime]]) -> list[TensorSpec]:
    """Tensors of (size in bytes, first and last instruction that they live in)."""
    specs = []
    for size, lifetime in tensors:
        spec = TensorSpec(torch.uint8, torch.Size([size]))
        spec.lifetime = list(lifetime)
        specs.append(spec)
    return specs


def plan(specs: list[TensorSpec]) -> int:
    """Places the tensors; returns the size of the arena."""
    result = best_fit(ALIGNMENT, set(specs), torch.fx.GraphModule({}, torch.fx.Graph()), None)
    for spec, place in result.spec_dict.items():
        assert place.mem_id == ARENA_ID
        spec.mem_id, spec.mem_offset = place.mem_id, place.mem_offset
    return int(result.bufsizes[ARENA_ID])


def graph_of(specs: list[TensorSpec]) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    for i, spec in enumerate(specs):
        graph.placeholder(f"t{i}").meta["spec"] = spec
    graph.output(())
    return torch.fx.GraphModule({}, graph)


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


lifetimes = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
tensors = st.lists(st.tuples(st.integers(1, 5000), lifetimes), min_size=1, max_size=40)


@given(tensors)
@settings(deadline=None, max_examples=150, derandomize=True)
def test_any_lifetimes_and_sizes(tensors: list[tuple[int, Lifetime]]) -> None:
    specs = make_specs(tensors)
    planned = plan(specs)
    check_no_overlap(graph_of(specs))
    for i, a in enumerate(specs):  # said once more, plainly
        for b in specs[:i]:
            together = a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1]
            apart = a.mem_offset + a.nbytes() <= b.mem_offset or b.mem_offset + b.nbytes() <= a.mem_offset
            assert apart or not together
    assert all(spec.mem_offset % ALIGNMENT == 0 for spec in specs)
    sizes = [aligned(size) for size, _ in tensors]
    alive = [
        sum(size for size, (_, (first, last)) in zip(sizes, tensors, strict=True) if first <= at <= last)
        for at in range(43)
    ]
    assert max(alive) <= planned <= sum(sizes)
    assert planned == max(spec.mem_offset + size for spec, size in zip(specs, sizes, strict=True))


def test_no_tensors_need_no_arena() -> None:
    assert plan([]) == 0


def test_tensors_that_follow_each_other_share_their_place() -> None:
    specs = make_specs([(1000, (0, 1)), (1000, (2, 3)), (1000, (4, 5))])
    assert plan(specs) == 1024
    assert {spec.mem_offset for spec in specs} == {0}


def test_a_tensor_goes_into_the_smallest_gap_that_holds_it() -> None:
    # The second and the fourth leave gaps of 640 and 128 bytes when they die; the last one comes after.
    sizes, early, always, late = (1280, 640, 576, 128, 64), (0, 3), (0, 9), (5, 9)
    specs = make_specs([*zip(sizes, (always, early, always, early, always), strict=True), (64, late)])
    assert plan(specs) == sum(sizes)
    assert specs[-1].mem_offset == 1280 + 640 + 576


@pytest.mark.parametrize("extra", [0, 128])
def test_padding_is_added(extra: int) -> None:
    specs = set(make_specs([(64, (0, 1))]))
    result = best_fit(ALIGNMENT, specs, torch.fx.GraphModule({}, torch.fx.Graph()), None, extra)
    assert result.bufsizes == [0, 64 + extra]


def test_a_planted_overlap_is_found() -> None:
    specs = make_specs([(256, (0, 4)), (256, (3, 6)), (256, (5, 8))])
    plan(specs)
    check_no_overlap(graph_of(specs))
    specs[1].mem_offset = specs[0].mem_offset + 192
    with pytest.raises(AssertionError, match="on the same bytes"):
        check_no_overlap(graph_of(specs))
    specs[1].lifetime = [5, 6]
    specs[2].mem_offset = 1024
    check_no_overlap(graph_of(specs))  # the same bytes at another time are fine


daf = torch.ops.daf


def plan_chain(
    n_readers: int, target: torch._ops.OpOverload = daf.dropout.out, n_times: int = 1, size_bytes: int = 1000
) -> tuple[list[TensorSpec], int]:
    """x, an operator that reads it `n_times`, and further readers of x behind that; also the size of the arena."""
    graph, specs = torch.fx.Graph(), make_specs([(size_bytes, (0, n_readers)), (1000, (1, 2 + n_readers))])
    x = graph.call_function(torch.empty)
    x.meta["spec"] = specs[0]
    y = graph.call_function(target, (x,) * n_times)
    y.meta["spec"] = specs[1]
    for _ in range(n_readers - 1):
        graph.call_function(torch.relu, (x,))
    graph.output((y,))
    module = torch.fx.GraphModule({}, graph)
    result = best_fit(ALIGNMENT, set(specs), module, None)
    for spec, place in result.spec_dict.items():
        spec.mem_id, spec.mem_offset = place.mem_id, place.mem_offset
    check_no_overlap(module)
    assert measure_arena(module).peak_bytes == result.bufsizes[ARENA_ID]
    return specs, int(result.bufsizes[ARENA_ID])


def test_the_last_reader_writes_over_what_it_reads() -> None:
    (x, y), size = plan_chain(1)
    assert x.mem_offset == y.mem_offset
    assert size == 1024


def test_what_is_read_again_is_not_written_over() -> None:
    (x, y), size = plan_chain(2)
    assert x.mem_offset != y.mem_offset
    assert size == 2048


def test_what_is_repeated_or_read_in_two_ways_is_not_written_over() -> None:
    """Sizes are those of the elements: 990 bytes take as much of the arena as 1000."""
    assert plan_chain(1, daf.arithmetic.out, 2)[1] == 2048
    assert plan_chain(1, size_bytes=990)[1] == 2048


def test_an_operator_that_reads_on_does_not_write_over_its_input() -> None:
    assert plan_chain(1, daf.permute.out)[1] == 2048


# ---- a real program ---------------------------------------------------------------------------------------------


def test_arena_of_a_small_model() -> None:
    program = canonical(ConvNet(), conv_batch())
    kept = sum(aligned(saved.raw_bytes) for saved in find_saved(program))
    method = lowered(fused(program, Sgd()), set(gradients(program))).methods[TRAIN].graph_module
    use = measure_arena(method)
    check_no_overlap(method)
    feature_map = 5 * 4 * 6 * 6 * 4
    assert use.peak_bytes <= use.planned_bytes <= 1.1 * use.peak_bytes
    assert 2 * feature_map < use.activations_bytes <= kept
    assert use.peak_bytes >= use.activations_bytes + feature_map, "a gradient of a map, beside the two that are kept"
    assert use.gradients_bytes == 3 * 4 * 6 * 6 * 4, "the largest gradient; they never live together"


def test_without_optimizer_gradients_live_to_the_end() -> None:
    program = canonical(ConvNet(), conv_batch())
    parameters = sum(p.numel() * 4 for p in ConvNet().parameters())
    assert arena_of(fused(program, NoOptimizer()), set(gradients(program))).planned_bytes >= parameters
