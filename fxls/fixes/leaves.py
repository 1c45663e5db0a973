"""Moving a statement into a function that tracing takes as one operation: `@torch.fx.wrap`.

The function gets what the statement reads and gives back what is read after it. A statement that ends the method,
defines something, or uses more of the module than its attributes' values stays where it is.
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fxls.discovery.syntax import FunctionNode, first_line, span_of
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Edit, Location, Span

_LEAVING: Final = (
    ast.Return
    | ast.Yield
    | ast.YieldFrom
    | ast.Await
    | ast.Global
    | ast.Nonlocal
    | ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Import
    | ast.ImportFrom
    | ast.Delete
)
_LOOPS: Final = ast.For | ast.While | ast.AsyncFor
_CHANGING: Final = frozenset({"add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"})
"""Methods by which lists, dictionaries and sets are changed."""

_IN_PLACE: Final = re.compile(r"[^_]_$")
_COMMENT: Final = re.compile(r"\s*#")


def extraction(source: Source, node: ast.expr | ast.stmt) -> Iterator[Proposal]:
    """Yield the move of a statement, or of that around an expression, into a wrapped function, if it can be moved."""
    statement, torch = source.statement(node), source.torch()
    while statement is not None and source.is_elif(statement):
        above = source.parent(statement)
        statement = source.statement(above) if above is not None else None
    function = source.function(statement) if statement is not None else None
    if statement is None or function is None or torch is None or not _movable(source, statement, function):
        return
    flow = _Flow.of(source, statement, function)
    if flow is None:
        return
    name = _free_name(source, flow)
    lines = f"line {statement.lineno}"
    if statement.end_lineno != statement.lineno:
        lines = f"lines {statement.lineno} to {statement.end_lineno}"
    yield Proposal(
        f"Move {lines} into a function marked `@{torch}.fx.wrap`",
        (
            *_imported(source, torch),
            _definition(source, function, _text(source, statement, flow, name, torch)),
            Edit(Location(source.path, span_of(statement)), flow.call(name)),
        ),
    )


def registration(source: Source, name: str) -> Iterator[Proposal]:
    """Yield what makes a leaf of a function by the name that this file has for it."""
    torch = source.torch()
    imports = [each for each in source.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    if torch is None or not imports:
        return
    last = span_of(imports[-1])
    column = len(source.mapper.line(last.end_line).encode("utf-8", "surrogatepass"))
    loaded = "" if _loads_fx(imports) else f"\nimport {torch}.fx"
    if loaded and torch != "torch":
        return
    at = Span(last.end_line, column, last.end_line, column)
    text = f'{loaded}\n\n{torch}.fx.wrap("{name}")'
    yield Proposal(f'Add `{torch}.fx.wrap("{name}")` to this file', (Edit(Location(source.path, at), text),))


@dataclass(frozen=True, slots=True)
class _Flow:
    """What goes into a statement and comes out of it.

    `attributes` are the expressions such as `self.threshold` by the name of the parameter that stands for each, in
    order; `inputs` the local names; `outputs` what the statement leaves for those after it.
    """

    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    chains: tuple[tuple[Span, str], ...]

    @classmethod
    def of(cls, source: Source, statement: ast.stmt, function: FunctionNode) -> "_Flow | None":
        """Return the flow through a statement, None where it uses the module in another way than by reading it."""
        known = _known_before(function, statement)
        itself = _first_parameter(source, function)
        used = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
        loaded = {each.id for each in used if isinstance(each.ctx, ast.Load)}
        changed = {each.id for each in used if isinstance(each.ctx, ast.Store)} | _changed_items(statement)
        taken = {each.id for each in ast.walk(source.tree) if isinstance(each, ast.Name)}
        chains: list[tuple[Span, str]] = []
        attributes: dict[str, str] = {}
        for name in (each for each in used if itself and each.id == itself):
            chain = _chain(source, name)
            if chain is None:
                return None
            written = source.written(chain)
            parameter = attributes.setdefault(
                written, _unused(written.rpartition(".")[2], {*taken, *attributes.values()})
            )
            chains.append((span_of(chain), parameter))
        after = _read_after(source, function, statement)
        outputs = [name for name in sorted(changed) if name in after]
        inputs = sorted(((loaded | set(outputs)) & known) - {itself})
        return cls(
            tuple(inputs),
            tuple((parameter, written) for written, parameter in attributes.items()),
            tuple(outputs),
            tuple(chains),
        )

    @property
    def parameters(self) -> str:
        """The parameters of the function."""
        return ", ".join([*self.inputs, *(name for name, _ in self.attributes)])

    def call(self, name: str) -> str:
        """Return the statement that calls the function."""
        call = f"{name}({', '.join([*self.inputs, *(written for _, written in self.attributes)])})"
        return f"{', '.join(self.outputs)} = {call}" if self.outputs else call


def _movable(source: Source, statement: ast.stmt, function: FunctionNode) -> bool:
    """Whether a statement stands on lines of its own and goes on with the one after it."""
    if isinstance(function, ast.AsyncFunctionDef) or source.function(function) is not None:
        return False
    inside = list(ast.walk(statement))
    if any(isinstance(each, _LEAVING) for each in inside):
        return False
    if any(isinstance(each, ast.Break | ast.Continue) for each in inside) and not isinstance(statement, _LOOPS):
        return False
    if any(isinstance(each, ast.Name) and each.id == "super" for each in inside):
        return False
    # A string over several lines would change with the indentation.
    if any(isinstance(each, ast.Constant | ast.JoinedStr) and each.lineno != each.end_lineno for each in inside):
        return False
    span = span_of(statement)
    raw = source.mapper.line(span.line).encode("utf-8", "surrogatepass")
    behind = source.mapper.line(span.end_line).encode("utf-8", "surrogatepass")[span.end_column :].strip()
    return not raw[: span.column].strip() and (not behind or behind.startswith(b"#"))


def _known_before(function: FunctionNode, statement: ast.stmt) -> set[str]:
    """Return the names that a function has bound when it comes to a statement."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {each.arg for each in every if each is not None}
    for each in ast.walk(function):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.lineno < statement.lineno:
            names.add(each.id)
    return names


def _read_after(source: Source, function: FunctionNode, statement: ast.stmt) -> set[str]:
    """Return the names that are read once a statement is done; in a loop that may be before it."""
    loop: ast.AST | None = None
    for around in source.above(statement):
        if around is function:
            break
        if isinstance(around, _LOOPS):
            loop = around
    inside = set(ast.walk(statement))
    again = set(ast.walk(loop)) if loop is not None else set[ast.AST]()
    last = statement.end_lineno or statement.lineno
    return {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each not in inside
        if each.lineno > last or each in again
    }


def _changed_items(statement: ast.stmt) -> set[str]:
    """Return the names whose items or attributes a statement assigns, or which it changes by one of their methods."""
    names: set[str] = set()
    for each in ast.walk(statement):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            owner, method = each.func.value, each.func.attr
            if isinstance(owner, ast.Name) and (method in _CHANGING or _IN_PLACE.search(method)):
                names.add(owner.id)
        elif isinstance(each, ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store):
            inner: ast.expr = each
            while isinstance(inner, ast.Subscript | ast.Attribute):
                inner = inner.value
            if isinstance(inner, ast.Name):
                names.add(inner.id)
    return names


def _first_parameter(source: Source, function: FunctionNode) -> str:
    """Return what a method calls its module, "" in a function that is none."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments and isinstance(source.parent(function), ast.ClassDef) else ""


def _chain(source: Source, name: ast.Name) -> ast.expr | None:
    """Return `self.a.b` around `self`, None where it is called, changed, or all there is."""
    chain: ast.expr = name
    parent = source.parent(chain)
    while isinstance(parent, ast.Attribute) and parent.value is chain:
        chain, parent = parent, source.parent(parent)
    called = isinstance(parent, ast.Call) and parent.func is chain
    if chain is name or called or not isinstance(getattr(chain, "ctx", None), ast.Load):
        return None
    return chain


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return a name that nothing else has."""
    names = frozenset(taken)
    candidate, number = name, 2
    while candidate in names:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _free_name(source: Source, flow: _Flow) -> str:
    """Return a name for the function, by what it gives back."""
    defined = {each.name for each in source.tree.body if isinstance(each, FunctionNode | ast.ClassDef)}
    taken = defined | {each.id for each in ast.walk(source.tree) if isinstance(each, ast.Name)}
    about = flow.outputs or flow.inputs
    verb = "next" if flow.outputs else "check"
    return _unused("_".join((verb, *about[:1])) if about else "step", taken)


def _text(source: Source, statement: ast.stmt, flow: _Flow, name: str, torch: str) -> str:
    """Return the definition of the function."""
    span = span_of(statement)
    start = source.mapper.offset(span.line, 0)
    text = source.mapper.text[start : source.mapper.offset(span.end_line, span.end_column)]
    for place, parameter in sorted(flow.chains, key=lambda each: (each[0].line, each[0].column), reverse=True):
        first = source.mapper.offset(place.line, place.column) - start
        last = source.mapper.offset(place.end_line, place.end_column) - start
        text = text[:first] + parameter + text[last:]
    body = textwrap.indent(textwrap.dedent(text.replace("\r\n", "\n")), "    ")
    result = f"\n    return {', '.join(flow.outputs)}" if flow.outputs else ""
    return f"@{torch}.fx.wrap\ndef {name}({flow.parameters}):\n{body}{result}\n\n\n"


def _definition(source: Source, function: FunctionNode, text: str) -> Edit:
    """Return the insertion of a definition above the one that a function is in, and above the comments on that."""
    top: ast.AST = function
    for each in source.above(function):
        if not isinstance(each, ast.Module):
            top = each
    assert isinstance(top, FunctionNode | ast.ClassDef | ast.stmt)
    line = first_line(top)
    while line > 1 and _COMMENT.match(source.mapper.line(line - 1)):
        line -= 1
    return Edit(Location(source.path, Span(line, 0, line, 0)), text)


def _imported(source: Source, torch: str) -> Iterator[Edit]:
    """Yield the import of `torch.fx` where the file has none."""
    imports = [each for each in source.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    if torch != "torch" or _loads_fx(imports):
        return
    plain = (each for each in imports if isinstance(each, ast.Import))
    first = next((each for each in plain if any(one.name.partition(".")[0] == "torch" for one in each.names)), None)
    if first is not None:
        place = span_of(first)
        at = Span(place.end_line, place.end_column, place.end_line, place.end_column)
        yield Edit(Location(source.path, at), "\nimport torch.fx")


def _loads_fx(imports: list[ast.Import | ast.ImportFrom]) -> bool:
    """Whether imports load `torch.fx`, under whatever name."""
    names = [
        f"{node.module}.{each.name}." if isinstance(node, ast.ImportFrom) else f"{each.name}."
        for node in imports
        for each in node.names
        if not (isinstance(node, ast.ImportFrom) and node.level)
    ]
    return any(each.startswith("torch.fx.") for each in names)
