"""FX301: user code asks whether it is training, and the graph keeps the answer.

Reading `training` is common and mostly harmless: a dropout of probability 0, or a path that the options have switched
off, is the same in both modes. So what the source shows to make no difference is left out, and of the rest the model is
walked through again with the opposite answer: only where that gives another graph is there a problem. A dropout that
does not ask at all is one, too.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from types import CodeType
from typing import Final

import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import nn

from fxengine.diagnosis import TracingProblem
from fxengine.errors import BakedTraining
from fxengine.node import Node
from fxengine.silent.observers import Place, TrainingReads, place_of
from fxengine.silent.reading import (
    UNKNOWN,
    Worth,
    definition_behind,
    dotted,
    expression_at,
    first_parameter,
    frame_of,
    truth,
    within,
)
from fxengine.silent.repeating import DROPPING, PROBABILITIES, decisive, is_probability
from fxengine.silent.scene import Scene, shown
from fxengine.source import Origin, SourceFrame
from fxengine.syntax import Definition, Span

_DROPPING_BY_DEFAULT: Final = frozenset({F.dropout, F.dropout1d, F.dropout2d, F.dropout3d})
_MODE: Final = 3
"""How many arguments by position such a function has up to the mode."""

_AS_MODULE: Final = "make an `nn.Dropout` in `__init__` and call it: that follows `train()` and `eval()` in the graph"


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The places where the graph would be another one in the other mode."""
    asked = dict(_asked(scene))
    for place, reads in decisive(scene, asked, TrainingReads):
        value, record = next(iter(reads.values()))
        problem = _problem(scene, record.resolve(), asked[place], place[1], value=value)
        yield replace(problem, instances=tuple(reads))
    yield from _never_asked(scene)


def _never_asked(scene: Scene) -> Iterator[TracingProblem]:
    """The user's own calls that drop out in whichever mode, since nothing tells them which it is.

    Who means that says so: `F.dropout(x, 0.5, training=True)`.
    """
    paths = scene.observation.user_paths
    if not isinstance(scene.observation.root, nn.Module):
        return
    asking = {(code.co_filename, code.co_qualname) for code in scene.ran.mentioning("training")}
    for node in scene.ran.nodes["call_function"]:
        origin = node.origin if node.target in _DROPPING_BY_DEFAULT else None
        if origin is None or not origin.frames or (paths is not None and origin.frames[-1].path not in paths):
            continue
        # What asks somewhere on the way may well do so in order to come here only while it is training.
        if any((each.path, each.function) in asking for each in origin.frames) or not _drops(node, origin.frames[-1]):
            continue
        text = shown(origin.frames[-1])
        headline = f"`{text}` drops out in evaluation too, as nothing tells it whether the model is training"
        hints = ("pass it: `training=self.training`", _AS_MODULE)
        yield scene.problem(BakedTraining, origin, headline, hints)


def _drops(node: Node, frame: SourceFrame) -> bool:
    """Whether a call of a dropout says no mode in the source, and has a probability that is not 0."""
    try:
        call = ast.parse(frame.text.strip(), mode="eval").body
    except SyntaxError:  # Its source is not to be had as it was.
        return False
    if not isinstance(call, ast.Call) or len(call.args) >= _MODE or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    told = any(each.arg in {None, "training"} for each in call.keywords)
    return not told and bool(node.kwargs.get("p", 1.0))


def _asked(scene: Scene) -> Iterator[tuple[Place, CodeType]]:
    """The places in the code that ran where the answer may matter, with the function that they are in."""
    for code in scene.ran.mentioning("training"):
        definition = definition_behind(code)
        if definition is None:
            continue
        modules = [module for _, module in scene.ran.owners(code)]
        for node, around in within(definition):
            match node:
                case ast.Attribute(attr="training", ctx=ast.Load()):
                    frame = frame_of(code, node)
                    if frame is not None and not _makes_no_difference(node, around, definition, modules):
                        yield place_of(frame), code
                case _:
                    continue


def _makes_no_difference(
    read: ast.Attribute, around: tuple[ast.AST, ...], definition: Definition, modules: list[nn.Module]
) -> bool:
    """Whether the source shows that on each of some modules the answer is not looked at, or all the same."""
    own_name = first_parameter(definition)
    parents = list(reversed(around))
    return bool(modules) and all(
        _is_void(read, parents, worth) or _is_skipped(read, parents, worth)
        for worth in (Worth(module, own_name, _unknown) for module in modules)
    )


def _unknown(expression: ast.expr) -> object:
    """Nothing is known of the answer itself."""
    is_read = isinstance(expression, ast.Attribute) and expression.attr == "training"
    return _Answer if is_read else UNKNOWN


class _Answer:
    """Stands for the answer while expressions around it are computed: neither true nor false."""


def _is_void(read: ast.expr, parents: list[ast.AST], worth: Worth) -> bool:
    current: ast.expr = read
    for parent in parents:
        match parent:
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.IfExp():
                value = worth.of(parent)
                if value is not _Answer and truth(value) is not None:
                    return True
                current = parent
            case ast.keyword():
                continue
            case ast.Call() if parent.func is not current:
                return _does_nothing(parent, worth)
            case _:
                return False
    return False


def _is_skipped(read: ast.expr, parents: list[ast.AST], worth: Worth) -> bool:
    """Whether an expression is in a branch that is not taken."""
    current: ast.AST = read
    for parent in parents:
        if isinstance(parent, ast.If | ast.IfExp) and current is not parent.test:
            taken = truth(worth.of(parent.test))
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            if taken is not None and taken is not any(current is each for each in body):
                return True
        current = parent
    return False


def _does_nothing(call: ast.Call, worth: Worth) -> bool:
    """Whether a call drops out with a probability of 0."""
    if dotted(call.func).rpartition(".")[2] in DROPPING:
        given = [keyword.value for keyword in call.keywords if keyword.arg in PROBABILITIES] or call.args[1:2]
    else:
        given = [keyword.value for keyword in call.keywords if is_probability(keyword.arg)]
    values = [worth.of(each) for each in given]
    return bool(values) and all(isinstance(value, int | float) and value == 0 for value in values)


def _problem(scene: Scene, origin: Origin, code: CodeType, span: Span, *, value: bool) -> TracingProblem:
    definition = definition_behind(code)
    found = expression_at(definition, span) if definition is not None else None
    around = found[1] if found is not None else ()
    text = shown(origin.frames[-1])
    mode = "training" if value else "evaluation"
    call = _call_around(around)
    if call is not None:
        callee = dotted(call.func) or "a call"
        headline = (
            f"`{text}` is passed to `{callee}`, but the graph keeps `{value}` whatever `train()` and `eval()` say"
        )
    elif any(isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) for node in around):
        headline = f"`{text}` decides a branch, but the graph has the side for {mode} alone"
    else:
        headline = f"`{text}` is read once, while tracing: the graph keeps `{value}`"
    return scene.problem(BakedTraining, origin, headline, _hints(call, origin, mode), value=str(value))


def _call_around(around: tuple[ast.AST, ...]) -> ast.Call | None:
    """The call that the answer is passed to, if it does not decide anything before."""
    for node in reversed(around):
        match node:
            case ast.Call():
                return node
            case ast.keyword() | ast.BoolOp() | ast.UnaryOp():
                continue
            case _:
                return None
    return None


def _hints(call: ast.Call | None, origin: Origin, mode: str) -> list[str]:
    hints = [f"trace once for each mode; this graph is for {mode}"]
    if call is not None and dotted(call.func).rpartition(".")[2] in DROPPING:
        hints.insert(0, _AS_MODULE)
    if origin.module_type is not None:
        hints.append(f"treat `{origin.module_type.__name__}` as a leaf module: it then decides each time it runs")
    return hints
