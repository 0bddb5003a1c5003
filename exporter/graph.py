"""What the passes share: a training graph, and an editor that inserts nodes with their shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from daf.errors import Exit, UserError

TORCH_FOLDER = str(Path(torch.__file__).parent)

# Where a node came from in the user's model; copied to the nodes that replace it.
_PROVENANCE = ("nn_module_stack", "stack_trace", "seq_nr", "daf_phase")


@dataclass(frozen=True)
class RuntimeInput:
    """A value that the session feeds on every step, beside the data."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


LEARNING_RATE = RuntimeInput("lr", torch.float32, (1,))
CLOCK = RuntimeInput("clock", torch.int64, (2,))  # steps taken so far, seed


class GraphEditor:
    """Inserts and replaces nodes of an exported program, keeping shapes, provenance and signature right."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph: Graph = program.graph
        self._fake_mode = _fake_mode(program)
        self._source: Node | None = None
        self.n_dropouts = 0

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """New nodes go before `node` and inherit where it came from."""
        self._source = node
        with self.graph.inserting_before(node):
            yield
        self._source = None

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        node = self.graph.call_function(target, args, kwargs)
        values = pytree.tree_map_only(Node, lambda n: n.meta["val"], (args, kwargs))
        with self._fake_mode:
            node.meta["val"] = target(*values[0], **values[1])
        self._copy_provenance(node)
        return node

    def repeat(self, node: Node, first: Node) -> Node:
        """The operator of `node` once more, with another first input of the same shape."""
        again = self.graph.call_function(node.target, (first, *node.args[1:]), node.kwargs)  # type: ignore[arg-type]
        again.meta["val"] = node.meta["val"]
        self._copy_provenance(again)
        return again

    def item(self, node: Node, index: int) -> Node:
        item = self.graph.call_function(operator.getitem, (node, index))
        item.meta["val"] = node.meta["val"][index]
        self._copy_provenance(item)
        return item

    def replace(self, old: Node, new: Node) -> None:
        if any(user.op == "output" for user in old.users):
            rename_in_outputs(self.program, old.name, new.name)
        old.replace_all_uses_with(new)
        self.graph.erase_node(old)

    def runtime_input(self, wanted: RuntimeInput) -> Node:
        """The placeholder of a run-time input, added after the data inputs when it is not there yet."""
        placeholders: list[Node] = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node in placeholders:
            if node.meta.get("daf_runtime_input") == wanted.name:
                return node
        with self.graph.inserting_after(placeholders[-1]):
            node = self.graph.placeholder(f"daf_{wanted.name}")
        with self._fake_mode:
            node.meta["val"] = torch.empty(wanted.shape, dtype=wanted.dtype)
        node.meta["daf_runtime_input"] = wanted.name
        node.target = node.name
        self.program.graph_signature.input_specs.append(
            InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), target=None)
        )
        return node

    def add_buffer(self, name: str, value: torch.Tensor) -> Node:
        """State of the program's own, before the user's inputs. A buffer that nothing changes is a constant."""
        first = next(iter(inputs_of_kind(self.program, InputKind.USER_INPUT).values()))
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(f"state_{name.replace('.', '_')}")
        node.target = node.name
        with self._fake_mode:
            node.meta["val"] = torch.empty(list(value.shape), dtype=value.dtype)
        specs = self.program.graph_signature.input_specs
        place = next(i for i, spec in enumerate(specs) if spec.kind == InputKind.USER_INPUT)
        specs.insert(place, InputSpec(InputKind.BUFFER, TensorArgument(node.name), target=name, persistent=True))
        self.program.state_dict[name] = value
        return node

    def remove_outputs(self, is_removed: Callable[[OutputSpec], bool]) -> None:
        """What only they needed goes with finish()."""
        output = self.graph.output_node()
        specs = self.program.graph_signature.output_specs
        kept = [pair for pair in zip(specs, output.args[0], strict=True) if not is_removed(pair[0])]  # type: ignore[arg-type]
        specs[:] = [spec for spec, _ in kept]
        output.args = (tuple(node for _, node in kept),)

    def finish(self) -> None:
        self.graph.eliminate_dead_code()
        self.graph.lint()
        self.program.graph_module.recompile()

    def _copy_provenance(self, node: Node) -> None:
        if self._source is not None:
            for key in _PROVENANCE:
                if key in self._source.meta:
                    node.meta[key] = self._source.meta[key]


def _fake_mode(program: ExportedProgram) -> Any:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch._subclasses.FakeTensor):
            return value.fake_mode
    raise AssertionError("an exported program has at least one tensor")


def rename_in_outputs(program: ExportedProgram, old: str, new: str) -> None:
    """Output specs name nodes: keep them in step when a node is replaced."""
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name == old:
            spec.arg = TensorArgument(new)


def nodes_by_name(program: ExportedProgram) -> dict[str, Node]:
    return {node.name: node for node in program.graph.nodes}


def loss_node(program: ExportedProgram) -> Node:
    names = nodes_by_name(program)
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.LOSS_OUTPUT:
            return names[spec.arg.name]
    raise AssertionError("a training graph has a loss")


def gradients(program: ExportedProgram) -> dict[str, Node]:
    """Parameter name -> the node of its gradient."""
    names = nodes_by_name(program)
    return {
        str(spec.target): names[spec.arg.name]
        for spec in program.graph_signature.output_specs
        if spec.kind == OutputKind.GRADIENT_TO_PARAMETER
    }


def inputs_of_kind(program: ExportedProgram, *kinds: InputKind) -> dict[str, Node]:
    """State name -> placeholder, of parameters and buffers; placeholder name -> placeholder, of user inputs."""
    names = nodes_by_name(program)
    return {
        str(spec.target) if spec.target is not None else spec.arg.name: names[spec.arg.name]
        for spec in program.graph_signature.input_specs
        if spec.kind in kinds
    }


def is_ones(node: object) -> bool:
    full = torch.ops.aten.full_like.default, torch.ops.aten.full.default
    return isinstance(node, Node) and node.target in full and bool(node.args[1] == 1)


def module_path(node: Node) -> str:
    """The user's module that a node belongs to, as in `named_modules()`."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    return strip_wrapper(paths[-1]) if paths else ""


# What torch.export leaves of checks: they compute nothing.
ASSERTIONS = frozenset(
    {
        torch.ops.aten._assert_tensor_metadata.default,
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._assert_scalar.default,
    }
)


def strip_wrapper(name: str) -> str:
    """Names without the module that joins model and loss (see capture.py)."""
    return name.removeprefix("L['self'].").removeprefix("model.") if name != "model" else ""


def source_line(node: Node) -> str:
    """`file.py:12: code` of the innermost frame outside torch that made a node."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    for i in range(len(lines) - 1, -1, -1):
        text = lines[i].strip()
        if text.startswith("File ") and TORCH_FOLDER not in text:
            parts = text.split('"')
            line = text.split("line ")[1].split(",")[0]
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            return f"{parts[1]}:{line}: {code}"
    return ""


def place(node: Node) -> str:
    """` in module a.b (file.py:12: code)`, as far as it is known; for error messages."""
    module, line = module_path(node), source_line(node)
    return (f" in module {module}" if module else "") + (f" ({line})" if line else "")


def unsupported_operator(node: Node) -> UserError:
    what = "the backward of an operator" if node.meta.get("daf_phase") == "backward" else "the model"
    return UserError(
        f"cannot export the model: {what} needs {node.target._schema.name}, "  # type: ignore[union-attr]
        f"for which the runtime has no kernel{place(node)}; express it with supported operators",
        Exit.UNSUPPORTED,
    )


def size_bytes(value: torch.Tensor) -> int:
    """Bytes of a (fake) tensor; a dynamic axis counts with its upper bound."""
    n = 1
    for size in value.shape:
        n *= upper_bound(size)
    return n * value.element_size()


def upper_bound(size: int | torch.SymInt) -> int:
    if isinstance(size, int):
        return size
    node = size.node
    bound = node.shape_env.bound_sympy(node.expr)
    return int(bound.upper)
