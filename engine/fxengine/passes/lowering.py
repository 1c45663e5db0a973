"""The parts of a graph that a back end can run are handed to it; the rest stays as it is.

Nodes that the back end supports are gathered into parts, as few and as large as can be, each becomes a submodule, and
each submodule is compiled for the inputs that it gets in an example run. What the back end makes of a part is compared
with the part before it takes its place; a part that cannot be compiled, or that comes out wrong, stays.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.node import Node
from fxengine.passes.infra.partitioner import CapabilityBasedPartitioner
from fxengine.passes.operator_support import OperatorSupportBase, chain, create_op_support

__all__ = ["Backend", "Lowered", "LoweredPart", "lower", "torch_compile", "torchscript", "torchscript_trace"]

Backend: TypeAlias = Callable[[GraphModule, tuple[Any, ...]], Callable[..., Any]]
"""From a part and example inputs to what computes the same. It may raise whatever it likes: the part then stays."""


@dataclass(frozen=True, slots=True)
class LoweredPart:
    """A part of the graph that the back end was given.

    Attributes:
        name: The name of the submodule.
        nodes: The names of the nodes that it holds.
        error: Why the back end does not run it; None if it does.
    """

    name: str
    nodes: tuple[str, ...]
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A model some parts of which a back end runs.

    Attributes:
        module: The model.
        parts: What the back end was given.
        interpreted: The names of the calls that it was not given.
    """

    module: GraphModule
    parts: tuple[LoweredPart, ...]
    interpreted: tuple[str, ...]


def torchscript(part: GraphModule, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """Return ``part`` compiled from its code to TorchScript, and frozen if it is in evaluation mode.

    Inputs have the types that they have in the example, as TorchScript takes those without a type for tensors.
    """
    typed = GraphModule(part, copy.deepcopy(part.graph))
    for placeholder, value in zip(typed.graph.find_nodes(op="placeholder"), inputs, strict=True):
        placeholder.type = _type_of(value)
    typed.recompile()
    scripted: Any = torch.jit.script(typed)
    return scripted if part.training else torch.jit.freeze(scripted)


def torchscript_trace(part: GraphModule, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """Return ``part`` compiled to TorchScript from a run on ``inputs``, with whatever depends on their shapes fixed."""
    traced: Any = torch.jit.trace(part, inputs, check_trace=False)
    return traced


def torch_compile(backend: str | Callable[..., Any] = "inductor", **options: Any) -> Backend:
    """Return a back end that compiles with ``torch.compile``.

    Args:
        backend: torch's name for a compiler: ``inductor`` generates code and needs a compiler for C++ on the CPU,
            ``aot_eager`` and ``eager`` need none and show that the way is free. Or a compiler of your own.
        **options: Passed on to ``torch.compile``.
    """

    def compile_part(part: GraphModule, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        del inputs
        # Not the module: the code of its call is the same for all, and only so many versions of a code are compiled.
        return torch.compile(part.forward, backend=backend, fullgraph=True, **options)

    return compile_part


def lower(
    module: nn.Module,
    example: tuple[Any, ...],
    backend: Backend,
    supports: OperatorSupportBase | None = None,
    *,
    tolerance: float = 1e-3,
) -> Lowered:
    """Return ``module`` with what ``backend`` supports run by it.

    Args:
        module: A graph module, or a module that is traced first; not changed, parameters are shared.
        example: Inputs. The graph is run on them once, without gradients.
        backend: Compiles a part.
        supports: Says which calls the back end can run; by default all.
        tolerance: The largest difference of results, relative and absolute, that is put down to rounding.

    Raises:
        TraceError: ``module`` cannot be traced.
        Exception: Whatever an operator raises on ``example``.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    lowered = GraphModule(traced, copy.deepcopy(traced.graph), type(traced).__name__)
    rule = _CALLS if supports is None else chain(_CALLS, supports)
    partitioner = CapabilityBasedPartitioner(lowered, rule, allows_single_node_partition=True)
    parts = partitioner.propose_partitions()
    names = {f"lowered_{place}": tuple(node.name for node in part.nodes) for place, part in enumerate(parts)}
    inside = {name for part in names.values() for name in part}
    left = tuple(node.name for node in lowered.graph.nodes if node.op.startswith("call") and node.name not in inside)
    partitioner.fuse_partitions(parts, prefix="lowered_")
    compiler = _Compiler(lowered, backend, frozenset(names), tolerance)
    with torch.no_grad():
        compiler.run(*example)
    for name, compiled in compiler.compiled.items():
        setattr(lowered, name, compiled)
    lowered.recompile()
    outcomes = tuple(LoweredPart(name, nodes, compiler.errors.get(name)) for name, nodes in names.items())
    return Lowered(lowered, outcomes, left)


class _Compiler(Interpreter):
    """Runs a graph, and gives each of its parts to the back end with the inputs that it gets.

    Attributes:
        compiled: What came out right, by the part's name.
        errors: What happened to the others.
    """

    def __init__(self, module: GraphModule, backend: Backend, parts: frozenset[str], tolerance: float) -> None:
        super().__init__(module)
        self.compiled: dict[str, nn.Module] = {}
        self.errors: dict[str, Exception] = {}
        self._backend = backend
        self._parts = parts
        self._tolerance = tolerance

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the submodule; if it is a part, let the back end have it and compare."""
        if target not in self._parts:
            return super().call_module(target, args, kwargs)
        part = self.fetch_attr(target)
        before = [_copied(args) for _ in range(2)]  # The part may overwrite what it is given.
        result = part(*args)
        try:
            compiled = self._backend(part, before[0])
            _check_equal(compiled(*before[1]), result, self._tolerance)
        except Exception as error:  # noqa: BLE001 - a back end raises whatever it likes: a finding.
            self.errors[target] = error
        else:
            self.compiled[target] = compiled if isinstance(compiled, nn.Module) else _Compiled(compiled, part)
        return result


class _Compiled(nn.Module):
    """What a back end made of a part, as a function, with the part, whose parameters it uses."""

    def __init__(self, function: Callable[..., Any], part: GraphModule) -> None:
        super().__init__()
        self.function = function
        self.part = part

    def forward(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)


def _is_call(_submodules: Any, node: Node) -> bool:
    return node.op.startswith("call")


_CALLS = create_op_support(_is_call)


def _type_of(value: Any) -> Any:
    """Return the type of a value as TorchScript understands it; None, which means a tensor, if it does not."""
    match value:
        case None:
            return Optional[Tensor]  # noqa: UP045 - TorchScript reads it so.
        case bool() | int() | float() | str():
            return type(value)
        case tuple() if value:
            return tuple[tuple(_type_of(item) or Tensor for item in value)]
        case list() if value:
            return list[_type_of(value[0]) or Tensor]
        case _:
            return None


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return pytree.tree_map_only(Tensor, Tensor.clone, args)


def _check_equal(found: Any, expected: Any, tolerance: float) -> None:
    """Raise an AssertionError if two results differ by more than rounding; containers may be of another type."""
    torch.testing.assert_close(
        pytree.tree_leaves(found), pytree.tree_leaves(expected), rtol=tolerance, atol=tolerance, equal_nan=True
    )
