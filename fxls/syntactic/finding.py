"""The likely problems of a file's models: what torch.fx would stop at, as far as the text alone shows it."""

import ast
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from fxls.discovery.syntax import parse
from fxls.syntactic.program import method_of
from fxls.syntactic.reading import Reading, spans
from fxls.syntactic.values import Class, Symbolic, Value
from fxworker.wire import Location, Problem

_SHOWN: Final = 70
_SPARED: Final = "found by the syntax alone: nothing of this file was executed, and it may be otherwise in truth"

_WORDS: Final = {
    "branch": "`{}` seems to decide a branch",
    "loop": "`{}` seems to decide whether the loop goes on",
    "asserted": "`{}` seems to be asserted",
    "operand": "`{}` seems to decide which operand is taken",
    "asked": "`{}` seems to need the truth value of something symbolic",
    "length": "`{}` seems to ask a symbolic value for its length",
    "iterated": "`{}` seems to be symbolic, and is iterated",
    "starred": "`{}` seems to be symbolic, and is iterated",
    "unpacked": "`{}` seems to be symbolic, and is iterated",
    "number": "`{}` seems to need a number of something symbolic",
    "assigned": "`{}` is assigned, but seems to be symbolic, which cannot be changed in place",
    "foreign": "`{}` seems to be given something symbolic, which it cannot take",
    "key": "`{}` seems to look a symbolic value up",
    "module": "`{}` seems to use a module that is not registered in the model",
}


@lru_cache(maxsize=32)
def likely_problems(path: str, text: str) -> tuple[Problem, ...]:
    """Return what torch.fx is likely to stop at in a file's models, each site once, in the order of the text."""
    tree = parse(path, text)
    if isinstance(tree, Problem):
        return ()
    found: OrderedDict[tuple[str, Location], Problem] = OrderedDict()
    model = ""

    def report(code: str, node: ast.AST, way: str, value: Value) -> None:
        assert isinstance(node, ast.expr | ast.pattern)
        location = Location(path, spans(node))
        if (code, location) not in found:
            found[code, location] = _problem(code, node, way, value, location, model)

    reading = Reading(tree, report)
    classes = [each for each in reading.names.values() if isinstance(each, Class) and method_of(each, "forward")]
    outermost = [*_outermost(classes, tree)]
    for cls in outermost:
        model = cls.node.name
        reading.read_model(cls)
    for cls in classes:
        if id(cls) not in reading.entered:
            model = cls.node.name
            reading.read_model(cls, part=cls not in outermost)
    return tuple(sorted(found.values(), key=lambda each: (each.location.span.line, each.location.span.column)))


def _outermost(classes: list[Class], tree: ast.Module) -> Iterator[Class]:
    """Yield the classes that no other class of the file uses, in the order of the text."""
    names = {each.node.name for each in classes}
    inner = set[str]()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            used = {name for part in node.body for name in _used(part)}
            inner |= (used & names) - {node.name}
    yield from (each for each in classes if each.node.name not in inner)


def _used(node: ast.AST) -> Iterator[str]:
    """Yield the names in a piece of code, but for those that only say of which type something is."""
    if isinstance(node, ast.Name):
        yield node.id
    is_question = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"} or (is_question and name == "args"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _used(each)


def _problem(code: str, node: ast.AST, way: str, value: Value, location: Location, model: str) -> Problem:
    text = " ".join(ast.unparse(node).split())
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}…{text[-_SHOWN // 2 :]}"
    metadata = isinstance(value, Symbolic) and value.metadata
    return Problem(
        code,
        "hint",
        f"{_WORDS[way].format(shown)} (syntactic)",
        location,
        explanation=_SPARED,
        hint="trust the workspace, and the model is traced",
        target=model,
        kind="metadata" if metadata else "data-dependent",
    )
