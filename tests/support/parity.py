"""Runs the same model through torch.fx and through the engine, and lists where they differ.

What is compared: the verdict; for graphs the names, opcodes, targets, arguments and annotations of all nodes, the code
to the letter, and, given inputs, the numbers; for failures the exception's type and message and the user's line.
"""

import copy
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
import torch.fx
from torch import nn

import fxengine
import fxengine.source
from fxengine.classification import moments_of

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_COMPILED = re.compile(r"<eval_with_key>\.\d+")
"""The name of generated code, which ends with how many there were before it."""

# Generated code reaches what is in torch by attributes, anything else through a global of its own.
_ENGINE_NAMES = (
    ("on_the_engine.", ""),
    ("on_the_engine_torch_fx_experimental_merge_matmul_", "torch.fx.experimental.merge_matmul."),
    ("fxengine_experimental_merge_matmul_", "torch.fx.experimental.merge_matmul."),
    ("fxengine__symbolic_trace_", "torch.fx._symbolic_trace."),
    ("fxengine.tracer", "torch.fx._symbolic_trace"),
    ("fxengine.placeholders", "torch.fx._symbolic_trace"),
    ("fxengine", "torch.fx"),
)


UNWRITTEN = "TypeError: unhashable type: 'list'"
"""How torch.fx fails where an annotation lists what a function takes, as `Callable[[Tensor], Tensor]` does."""


@dataclass(frozen=True)
class Outcome:
    """What one engine made of a model."""

    nodes: tuple[tuple[Any, ...], ...] = ()
    code: str = ""
    module: nn.Module | None = None
    error: str = ""
    message: str = ""
    place: str = ""


@dataclass(frozen=True)
class Case:
    """A model, how to build it, and what to feed it.

    Attributes:
        name: What the case is called in reports.
        build: Makes the module or function; called once for each engine.
        inputs: Makes positional arguments; without it numbers are not compared.
        concrete_args: Passed to the tracer, made anew for each engine from the engine's package.
        tracer: Makes the tracer out of the engine's package.
    """

    name: str
    build: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]] | None = None
    concrete_args: Callable[[ModuleType], Any] | None = None
    tracer: Callable[[ModuleType], Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def differences(case: Case) -> list[str]:
    """Where the engine's outcome differs from torch.fx's; empty if nowhere."""
    root = case.build()
    copied = copy.deepcopy(root) if isinstance(root, nn.Module) else root
    theirs = run(torch.fx, root, case)
    ours = run(fxengine, copied, case)
    if f"{theirs.error}: {theirs.message}" == UNWRITTEN and not ours.error:
        return []
    found = [
        f"{what}: torch.fx has {expected!r}, the engine {actual!r}"
        for what, expected, actual in (
            ("error", theirs.error, ours.error),
            ("message", theirs.message, ours.message),
            ("line", theirs.place, ours.place),
            ("number of nodes", len(theirs.nodes), len(ours.nodes)),
        )
        if expected != actual
    ]
    found += [
        f"node {index}: torch.fx has {expected!r}, the engine {actual!r}"
        for index, (expected, actual) in enumerate(zip(theirs.nodes, ours.nodes, strict=False))
        if expected != actual
    ][:3]
    if theirs.code != ours.code:
        found.append(f"code: torch.fx has\n{theirs.code}\nthe engine\n{ours.code}")
    if not found and case.inputs is not None and theirs.module is not None and ours.module is not None:
        found += _different_numbers(theirs.module, ours.module, root, case.inputs)
    return found


def run(engine: ModuleType, root: Any, case: Case) -> Outcome:
    """What `engine`, a package with torch.fx's names, makes of a model."""
    try:
        tracer = case.tracer(engine) if case.tracer is not None else engine.Tracer()
        for name, value in case.settings.items():
            setattr(tracer, name, value)
        concrete = case.concrete_args(engine) if case.concrete_args is not None else None
        graph = tracer.trace(root, concrete)
        name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
        module = engine.GraphModule(tracer.root, graph, name)
    except BaseException as error:  # noqa: BLE001 - whatever a model raises is compared.
        return Outcome(error=type(error).__name__, message=neutral(str(error)), place=_user_line(error))
    nodes = tuple(_described(node) for node in graph.nodes)
    return Outcome(nodes=nodes, code=neutral(module.code), module=module)


def _described(node: Any) -> tuple[Any, ...]:
    return (
        node.name,
        node.op,
        _plain(node.target),
        _plain(node.args),
        _plain(node.kwargs),
        neutral(str(node.type)),
        tuple(user.name for user in node.users),
        tuple(used.name for used in node.all_input_nodes),
        [(path, entry) for path, entry in node.meta.get("nn_module_stack", {}).items()],
    )


def _plain(value: Any) -> Any:
    """A value with nodes replaced by their names, so that those of two engines compare."""
    match value:
        case fxengine.Node() | torch.fx.Node():
            return f"%{value.name}"
        case tuple() | list():
            return (type(value).__name__, *(_plain(item) for item in value))
        case dict():
            return (type(value).__name__, *((_plain(key), _plain(item)) for key, item in value.items()))
        case slice():
            return ("slice", _plain(value.start), _plain(value.stop), _plain(value.step))
        case _ if inspect.isfunction(value) or inspect.isclass(value):
            return neutral(f"{value.__module__}.{value.__qualname__}")
        case float() | int() | str() | None:
            return (type(value).__name__, repr(value))
        case _:
            return neutral(repr(value))


def neutral(text: str) -> str:
    """A text in which the engine's own names read as torch.fx's."""
    for ours, theirs in _ENGINE_NAMES:
        text = text.replace(ours, theirs)
    return text


def told(value: Any) -> Any:
    """What a value is, in words that are the same for both engines: graph modules by nodes, code, state and parts."""
    match value:
        case fxengine.GraphModule() | torch.fx.GraphModule():
            return {
                "class": type(value).__name__,
                "code": neutral(value.code),
                "nodes": [told(_described(node)) for node in value.graph.nodes],
                "meta": [sorted(map(str, node.meta)) for node in value.graph.nodes],
                "state": list(value.state_dict()),
                "modules": [(path, type(module).__name__) for path, module in value.named_modules()],
                "parts": [told(part) for part in value.children() if hasattr(part, "graph")],
            }
        case torch.Tensor():
            plain = value.dequantize() if value.is_quantized else value
            return str(plain.tolist()) if plain.isnan().any() else plain.tolist()
        case dict():
            return {neutral(str(key)): told(item) for key, item in value.items()}
        case tuple() | list():
            return [told(item) for item in value]
        case _:
            return _without_counts(neutral(str(value)))


def attempt(case: Callable[..., Any], *args: Any) -> Any:
    """What a case makes, told; or which exception it raises."""
    torch.manual_seed(0)
    try:
        return told(case(*args))
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared.
        return _without_counts(neutral(f"{type(error).__name__}: {error}"))


def _without_counts(text: str) -> str:
    """A text without what is another at each run: addresses, and numbers of generated code."""
    return _COMPILED.sub("<eval_with_key>", _ADDRESS.sub("0x", text))


def _user_line(error: BaseException) -> str:
    """File and line of the innermost frame that is neither torch's nor the engine's, from the traced function on."""
    # Where the interpreter says something else after some runs, as CPython 3.11 does, that is put right.
    places = [each.source for each in moments_of(error.__traceback__) if fxengine.source.is_user_file(each.path)]
    found = next((each for each in reversed(places) if each.path != __file__), None)
    return "" if found is None else _without_counts(f"{found.path}:{found.line}")


def _different_numbers(
    theirs: nn.Module, ours: nn.Module, eager: Any, make_inputs: Callable[[], tuple[Any, ...]]
) -> list[str]:
    outputs = []
    for function in (theirs, ours, eager):
        torch.manual_seed(0)
        try:
            outputs.append(function(*make_inputs()))
        except Exception as error:  # noqa: BLE001 - whatever a model raises is compared.
            outputs.append(neutral(f"{type(error).__name__}: {error}"))
    found = []
    if not _same(outputs[0], outputs[1]):
        found.append(f"numbers: torch.fx's module gives {outputs[0]!r}, the engine's {outputs[1]!r}")
    return found


def _same(expected: Any, actual: Any) -> bool:
    try:
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return False
    except TypeError:
        return bool(repr(expected) == repr(actual))
    return True
