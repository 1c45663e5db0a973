"""FX307: in-place changes of what outlives a call, as a graph shows them: of buffers, parameters and arguments.

The graph repeats what it has recorded (`x.add_(1)`); that is worth knowing and no more. But `x += 1` is recorded as
`x + 1`, which is the same unless somebody else still has the old `x`. What is done for real while tracing is found in
`values` and `attributes`.
"""

import operator
from collections.abc import Iterator
from typing import Any, Final

from torch import nn

from fxengine.bytecode import augments
from fxengine.diagnosis import TracingProblem
from fxengine.errors import InPlaceChange
from fxengine.node import Node
from fxengine.operators import inplace_methods, reflectable_magic_methods
from fxengine.provenance import Step, kind_of
from fxengine.silent.ran import innermost
from fxengine.silent.scene import Scene, shown
from fxengine.source import SourceFrame

_IN_PLACE: Final = frozenset(getattr(operator, name) for name in inplace_methods)
_IN_PLACE_METHODS: Final = frozenset(f"__{name}__" for name in (*inplace_methods, "delitem"))
_OUT_OF_PLACE: Final = frozenset(
    getattr(operator, name) for name in reflectable_magic_methods if hasattr(operator, name) and name != "getitem"
)
_NO_CHANGE: Final = frozenset({"detach_", "requires_grad_", "retain_grad_", "share_memory_", "wait_"})
"""Methods that are called as if they changed data."""
VIEWS: Final = frozenset(
    {
        "T", "as_strided", "chunk", "data", "detach", "diagonal", "mT", "movedim", "narrow", "permute", "select",
        "split", "squeeze", "swapaxes", "swapdims", "t", "tensor_split", "transpose", "unbind", "unflatten", "unfold",
        "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Functions, methods and attributes whose results share memory with their first argument."""


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The in-place changes that a graph repeats, and those that it has lost."""
    root = scene.observation.tracer.root
    nodes = scene.ran.nodes
    for node in nodes["call_function"]:
        if node.target in _OUT_OF_PLACE:
            yield from _lost(scene, node)
    for node in (*nodes["call_function"], *nodes["call_method"], *nodes["call_module"]):
        changed = changed_by(node, root) if may_change(node) else None
        if changed is not None:
            yield from _repeated(scene, node, changed)


def may_change(node: Node) -> bool:
    """Whether a node may change what outlives a call; a quick look, as most nodes do not."""
    target: Any = node.target
    op = node.op
    if op == "call_method":
        return target[-1] == "_"
    if op == "call_module":
        inputs = node.args
        return bool(inputs) and isinstance(inputs[0], Node) and inputs[0].op in {"placeholder", "get_attr"}
    if op != "call_function" or target in _OUT_OF_PLACE:
        return False
    return bool(node.kwargs) or target in _IN_PLACE or getattr(target, "__name__", "")[-1:] == "_"


def changed_by(node: Node, root: nn.Module) -> Node | None:
    """The node whose value a node changes in place, or None."""
    first: Any = node.args[0] if node.args else node.kwargs.get("input")
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    match node.op:
        case "call_method":
            changes = name in _IN_PLACE_METHODS or _is_name_of_change(name)
        case "call_function":
            changes = node.target in _IN_PLACE or _is_name_of_change(name) or node.kwargs.get("inplace") is True
            if not changes and isinstance(node.kwargs.get("out"), Node):
                changes, first = True, node.kwargs["out"]
        case "call_module":
            module: Any = root
            for part in name.split("."):
                module = module._modules.get(part) if isinstance(module, nn.Module) else None
            changes = getattr(module, "inplace", False) is True
        case _:
            return None
    return first if changes and isinstance(first, Node) else None


def root_of(node: Node, root: nn.Module) -> Node:
    """The node whose value has the memory that a node's value is in."""
    while True:
        whole = changed_by(node, root) or viewed(node)
        if whole is None:
            return node
        node = whole


def _is_name_of_change(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and name not in _NO_CHANGE


def viewed(node: Node) -> Node | None:
    """The node of which a node's value is a view, or None."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    first: Any = node.args[0] if node.args else None
    if not isinstance(first, Node) or node.op not in {"call_method", "call_function"}:
        return None
    if node.target is getattr:
        return first if node.args[1] in VIEWS else None
    if node.target is operator.getitem:
        index: Any = node.args[1]
        plain = all(isinstance(each, int | slice | None) for each in (index if isinstance(index, tuple) else (index,)))
        return first if plain else None
    return first if name in VIEWS else None


def _views_of(owner: Node, before: Node) -> list[Node]:
    """A value and what shares its memory and was made before a node."""
    found = [owner]
    for each in found:
        # The list grows while it is walked: views have views.
        found.extend(user for user in each.users if user < before and viewed(user) is each)
    return found


def _repeated(scene: Scene, node: Node, changed: Node) -> Iterator[TracingProblem]:
    owner = root_of(changed, scene.observation.tracer.root)
    origin = node.origin
    if origin is None or not origin.frames or origin.frames[-1] in scene.told:
        return
    match owner.op:
        case "placeholder":
            what = f"the input `{owner.target}`"
        case "get_attr" if not scene.is_made_by_trace(str(owner.target)):
            what = f"`{owner.target}`, which is part of the model"
        case _:
            return
    text = shown(origin.frames[-1])
    yield scene.problem(
        InPlaceChange,
        origin,
        f"`{text}` changes {what}, in place: the graph repeats it in each call",
        ("take the result that is not in place, if nobody is to see the change",),
        provenance=scene.way_to(owner, origin),
        severity="hint",
    )


def _lost(scene: Scene, node: Node) -> Iterator[TracingProblem]:
    """`x += y` on a tensor that somebody else sees, too: the graph has made a new one."""
    left = node.args[0] if node.args else None
    if not isinstance(left, Node):
        return
    place = innermost(node._origin)
    if place is None or not augments(*place) or kind_of(left) != "data-dependent":
        return
    owner = root_of(left, scene.observation.tracer.root)
    seen_by = dict.fromkeys((left, *_views_of(owner, node)))
    users = sorted({user for each in seen_by for user in each.users if node < user})
    late = next((user for user in users if kind_of(user) != "metadata"), None)
    origin = node.origin
    if origin is None or (late is None and owner.op not in {"placeholder", "get_attr"}):
        return
    if _is_told(scene, origin.frames[-1]):
        return
    text = shown(origin.frames[-1])
    hint = "write `x = x + …` if nobody is to see the change, and `x.add_(…)` if the graph is to repeat it"
    if late is None:
        what = f"the input `{owner.target}`" if owner.op == "placeholder" else f"`{owner.target}`"
        headline = f"`{text}` changes {what}, in place: the graph makes a new value and leaves it as it is"
        yield scene.problem(
            InPlaceChange, origin, headline, (hint,), provenance=scene.way_to(owner, origin), severity="hint"
        )
        return
    used = late.origin.frames[-1] if late.origin is not None and late.origin.frames else None
    seen = f", which `{shown(used)}` uses" if used is not None else ""
    headline = f"`{text}` changes a value in place that is used again{seen}: the graph leaves it as it was"
    steps = (*scene.way_to(owner, origin), Step(late, used, shown(used) if used is not None else late.name))
    yield scene.problem(InPlaceChange, origin, headline, (hint,), provenance=steps)


def _is_told(scene: Scene, place: SourceFrame) -> bool:
    """Whether a tracing problem is that what stands at the left of `x[0] += y` cannot be assigned."""
    beginning = (place.path, place.line, place.column)
    return any((each.path, each.line, each.column) == beginning for each in scene.told)
