"""What makes a graph wrong without a word, in a form that the graph repeats as it is."""

import ast
from collections.abc import Iterator
from typing import Final

from fxls.discovery.syntax import FunctionNode, span_of
from fxls.fixes.leaves import extraction, registration
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Edit, Location, Problem, Span

_FILLED: Final = {"rand": "uniform_()", "randn": "normal_()"}
_SIZED: Final = frozenset({"zeros", "ones", "empty"})
_COUNTED: Final = frozenset({"arange", "eye", "full", "linspace", "tensor"})
_METHODS: Final[dict[type[ast.operator], str]] = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
_SIGNS: Final[dict[type[ast.operator], str]] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def mode(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the module that drops out as the function does that is told whether it is training."""
    read = source.expression(problem.location.span)
    calls = [each for each in (read, *source.above(read)) if isinstance(each, ast.Call)] if read is not None else []
    call = next(iter(calls), None)
    function = source.function(call) if call is not None else None
    made = _constructor(source, function) if function is not None else None
    torch = source.torch()
    if call is None or function is None or made is None or torch is None:
        return
    match call:
        case ast.Call(func=ast.Attribute(attr="dropout" as name), args=[dropped, *rest], keywords=keywords):
            given = {each.arg: each.value for each in keywords}
            given |= dict(zip(("p", "training", "inplace"), rest, strict=False))
            probability = given.get("p")
            if given.get("training", call) is not read or set(given) - {"p", "training"}:
                return
            if probability is not None and not _is_of_module(probability, function):
                return
        case _:
            return
    attribute = _unused(source, name)
    itself = function.args.args[0].arg
    wanted = source.written(probability) if probability is not None else ""
    line = f"{made.args.args[0].arg}.{attribute} = {torch}.nn.Dropout({wanted})"
    edits = (
        _appended(source, made, line.replace(f"{itself}.", f"{made.args.args[0].arg}.")),
        source.replaced(call, f"{itself}.{attribute}({source.written(dropped)})"),
    )
    if edits[0] is not None and edits[1] is not None:
        yield Proposal(
            f"Make an `nn.Dropout` in `__init__` and call it: `{itself}.{attribute}(…)`", (edits[0], edits[1])
        )


def constructor(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the same tensor made of an input, so that each call makes it anew."""
    call, name = _torch_call(source, problem)
    given = _first_input(source, call) if call is not None else ""
    if call is None or not given:
        return
    if name in _SIZED:
        named = [f"{each.arg}={source.written(each.value)}" for each in call.keywords if each.arg != "device"]
        if any(each.startswith("size=") for each in named) or any(each.arg is None for each in call.keywords):
            return
        if not any(each.startswith("dtype=") for each in named):
            named.append(f"dtype={source.torch()}.float32")
        text = f"{given}.new_{name}({', '.join([*map(source.written, call.args), *named])})"
    elif name in _COUNTED and all(each.arg for each in call.keywords):
        named = [f"{each.arg}={source.written(each.value)}" for each in call.keywords if each.arg != "device"]
        parts = [*map(source.written, call.args), *named, f"device={given}.device"]
        text = f"{source.written(call.func)}({', '.join(parts)})"
    else:
        return
    yield from _proposed(f"Write `{text}`", source.replaced(call, text))


def draw(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield a draw that depends on an input, so that each call draws anew."""
    call, name = _torch_call(source, problem)
    given = _first_input(source, call) if call is not None else ""
    if call is None or not given or name not in _FILLED or not call.args:
        return
    named = [f"{each.arg}={source.written(each.value)}" for each in call.keywords if each.arg not in {"device", "size"}]
    if len(named) != sum(each.arg != "device" for each in call.keywords) or any(not each.arg for each in call.keywords):
        return
    sizes = [source.written(each) for each in call.args]
    text = f"{given}.new_empty({', '.join([*sizes, *named])}).{_FILLED[name]}"
    yield from _proposed(f"Write `{text}`", source.replaced(call, text))


def wrapped(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the registration of a function in the file that calls it by a name of its own."""
    match source.expression(problem.location.span):
        case ast.Call(func=ast.Name(id=name)):
            yield from registration(source, name)
        case _:
            pass


def unused(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the name of an input that says that it is there for the callers' sake alone."""
    span = problem.location.span
    for function in ast.walk(source.tree):
        if not isinstance(function, FunctionNode):
            continue
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        found = next((each for each in arguments if span_of(each) == span), None)
        if found is None:
            continue
        mentions = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == found.arg]
        taken = any(each.arg == f"_{found.arg}" for each in arguments)
        if not mentions and not taken:
            name = f"_{found.arg}"
            end = span.column + len(found.arg.encode())
            edit = Edit(Location(source.path, Span(span.line, span.column, span.line, end)), name)
            yield Proposal(f"Call it `{name}`, which says that it is not used", (edit,))


def question(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the question for what is no tensor, to which a symbolic value answers as a tensor does."""
    node = source.expression(problem.location.span)
    match node:
        case ast.Call(
            func=ast.Name(id="isinstance"), args=[value, ast.Attribute(attr="Tensor") | ast.Name(id="Tensor")]
        ):
            pass
        case _:
            return
    parent = source.parent(node)
    whole = parent if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not) else node
    asked = f"isinstance({source.written(value)}, (tuple, list))"
    text = asked if whole is not node else f"not {asked}"
    if whole is node and not isinstance(parent, ast.If | ast.IfExp | ast.BoolOp | ast.Assert | ast.While):
        text = f"({text})"
    yield from _proposed(f"Ask `{text}`", source.replaced(whole, text))


def change(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield an in-place change that the graph repeats, and then one that nobody else sees."""
    node = source.statement_at(problem.location.span)
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in _METHODS:
            text = f"{name}.{_METHODS[type(op)]}({source.written(value)})"
            yield from _proposed(f"Write `{text}`, which the graph repeats", source.replaced(node, text))
            text = f"{name} = {name} {_SIGNS[type(op)]} {source.operand(value)}"
            yield from _proposed(f"Write `{text}`, which changes nothing that others see", source.replaced(node, text))
        case _:
            return


def swallowed(source: Source, problem: Problem) -> Iterator[Proposal]:
    """Yield the move of the statement that catches the error into a function that tracing does not look into.

    There the handler is what it is without tracing: it goes off where real tensors make it. Nothing smaller would do,
    since a graph catches no errors.
    """
    asked = source.expression(problem.location.span)
    inside: ast.AST | None = asked
    for each in source.above(asked) if asked is not None else ():
        match each:
            case ast.Try(body=body) | ast.TryStar(body=body) if inside in body:
                yield from extraction(source, each)
                return
            case ast.With() if any(_suppresses(item.context_expr) for item in each.items):
                yield from extraction(source, each)
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return
            case _:
                inside = each


def _suppresses(manager: ast.expr) -> bool:
    """Whether a context manager is `contextlib.suppress(…)`."""
    match manager:
        case ast.Call(func=ast.Attribute(attr="suppress") | ast.Name(id="suppress")):
            return True
        case _:
            return False


def _torch_call(source: Source, problem: Problem) -> tuple[ast.Call | None, str]:
    """Return a call of a function of torch's at the place of a problem, and the function's name."""
    match source.expression(problem.location.span):
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) as call if module == source.torch():
            starred = any(isinstance(each, ast.Starred) for each in call.args)
            return (None, "") if starred else (call, name)
        case _:
            return None, ""


def _first_input(source: Source, node: ast.AST) -> str:
    """Return the first parameter of the method or function around, its module left out; "" if it has none."""
    function = source.function(node)
    if function is None:
        return ""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    inside = names[1:] if isinstance(source.parent(function), ast.ClassDef) else names
    return inside[0] if inside else ""


def _constructor(source: Source, function: FunctionNode) -> FunctionNode | None:
    """Return the `__init__` of the class that a method is one of."""
    owner = source.parent(function)
    if not isinstance(owner, ast.ClassDef) or not function.args.args:
        return None
    made = [
        each for each in owner.body if isinstance(each, FunctionNode) and each.name == "__init__" and each.args.args
    ]
    return made[0] if len(made) == 1 else None


def _is_of_module(expression: ast.expr, method: FunctionNode) -> bool:
    """Whether an expression consists of numbers and attributes of the module, which `__init__` has too."""
    itself = method.args.args[0].arg
    names = {each.id for each in ast.walk(expression) if isinstance(each, ast.Name)}
    return names <= {itself} and not any(isinstance(each, ast.Call) for each in ast.walk(expression))


def _appended(source: Source, function: FunctionNode, line: str) -> Edit | None:
    """Return the insertion of a line at the end of a function."""
    last = function.body[-1]
    if last.lineno == function.lineno:
        return None
    span = span_of(last)
    text = source.mapper.line(span.end_line).rstrip(" \t\r\n\f")
    column = len(text.encode("utf-8", "surrogatepass"))
    first = source.mapper.line(function.body[0].lineno)
    indentation = first[: len(first) - len(first.lstrip())]
    at = Span(span.end_line, column, span.end_line, column)
    return Edit(Location(source.path, at), f"\n{indentation}{line}")


def _unused(source: Source, name: str) -> str:
    """Return a name that no attribute in the file has."""
    taken = {each.attr for each in ast.walk(source.tree) if isinstance(each, ast.Attribute) and _is_self(each.value)}
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _proposed(title: str, edit: Edit | None) -> Iterator[Proposal]:
    if edit is not None:
        yield Proposal(title, (edit,))
