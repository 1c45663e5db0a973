"""Expressions that stop a trace, in a form that is recorded."""

import ast
from collections.abc import Iterator
from typing import Final

from fxls.fixes.leaves import registration
from fxls.fixes.source import Proposal, Source, is_number, same
from fxworker.wire import Edit, Problem

_CONSTRUCTORS: Final = frozenset({"zeros", "ones", "empty", "full", "tensor"})
_VARIABLES: Final = frozenset({"Variable", "autograd.Variable", "torch.autograd.Variable"})
_OF_TENSORS: Final = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip
"""What the data types of tensors are called since torch 0.4, by the classes that there were for each."""
_NO_TENSOR: Final = ast.Tuple | ast.List | ast.Dict | ast.Set | ast.JoinedStr | ast.Lambda


def truth(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield forms of a question for a truth value that a graph can hold."""
    torch = source.torch()
    if torch is None:
        return
    parent = source.parent(node)
    if isinstance(parent, ast.Assert) and parent.test is node:
        yield from _asserted(source, parent, torch)
    elif isinstance(parent, ast.If) and parent.test is node:
        yield from _raised(source, parent, torch, problem)
    yield from _unchecked(source, node)
    if problem.kind == "metadata" or _asks_a_size(node):
        return  # `torch.where` takes tensors, and what follows from a shape is none when the graph runs.
    if isinstance(parent, ast.IfExp) and parent.test is node:
        yield from _chosen(source, parent, torch)
    elif isinstance(parent, ast.If) and parent.test is node:
        yield from _branches(source, parent, torch)
    elif isinstance(node, ast.Call):
        yield from _extreme(source, node, torch)


def length(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the size that a length is."""
    match node:
        case (
            ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(value=owner, attr="shape")], keywords=[])
            | ast.Call(
                func=ast.Name(id="len"),
                args=[ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[])],
                keywords=[],
            )
        ):
            text = f"{source.operand(owner)}.ndim"
            yield from _proposed(f"Write `{text}`", source.replaced(node, text))
        case ast.Call(func=ast.Name(id="len"), args=[measured], keywords=[]) if not _is_of_a_shape(problem):
            text = f"{source.operand(measured)}.shape[0]"
            yield from _proposed(f"Write `{text}`", source.replaced(node, text))
        case _:
            pass


def iteration(source: Source, node: ast.expr, _: Problem) -> Iterator[Proposal]:
    """Yield forms of a starred shape that need not know how long it is, and the largest item without a loop."""
    yield from _unchecked(source, node)
    match source.parent(node):
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[only], keywords=[]) as whole if only is node:
            text = f"{source.operand(node)}.{name}()"
            yield from _proposed(f"Write `{text}`", source.replaced(whole, text))
        case _:
            pass
    if not isinstance(node, ast.Subscript) and not isinstance(node, ast.Attribute):
        return
    starred = source.parent(node)
    call = source.parent(starred) if isinstance(starred, ast.Starred) else None
    match call:
        case ast.Call(
            func=ast.Attribute(value=whole, attr="view" | "reshape"), args=[ast.Starred(), *rest], keywords=[]
        ):
            kept = _leading(node, whole)
            text = _reshaped(source, whole, kept, rest) if kept else ""
            if text:
                yield from _proposed(f"Write `{text}`", source.replaced(call, text))
        case _:
            pass
    statement = source.statement(node)
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=[*names, ast.Starred(value=rest)])], value=value) if value is node:
            sizes = [f"{source.operand(node)}[{place}]" for place in range(len(names))]
            text = f"{', '.join([*sizes, f'{source.operand(node)}[{len(names)}:]'])}"
            targets = ", ".join([*map(source.written, names), source.written(rest)])
            yield from _proposed("Name the sizes one by one", source.replaced(statement, f"{targets} = {text}"))
        case _:
            pass


def number(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield forms of a conversion that keep what is converted symbolic."""
    match node:
        case ast.Call(func=function, args=[ast.BinOp(left=left, op=ast.Div(), right=right)], keywords=[]):
            name = source.written(function)
            text = f"{source.operand(left)} // {source.operand(right)}"
            if name in {"int", "math.floor"}:
                yield from _proposed(f"Write `{text}`", source.replaced(node, f"({text})"))
            elif name == "math.ceil":
                text = f"-(-{source.operand(left)} // {source.operand(right)})"
                yield from _proposed(f"Write `{text}`", source.replaced(node, text))
        case ast.Call(func=ast.Name(id="int"), args=[converted], keywords=[]) if problem.kind == "metadata":
            text = source.operand(converted)
            yield from _proposed(f"Write `{text}` without `int`", source.replaced(node, text))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr="sqrt"), args=[root], keywords=[]):
            text = f"{source.operand(root)} ** 0.5"
            yield from _proposed(f"Write `{text}`", source.replaced(node, f"({text})"))
        case _:
            pass


def item(source: Source, node: ast.expr, _: Problem) -> Iterator[Proposal]:
    """Yield the form of an assignment to masked or sliced items that gives a new value."""
    statement = source.statement(node)
    yield from _scattered(source, statement)
    match statement:
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Name(id=name), slice=mask)],
            value=ast.Subscript(value=new, slice=same_mask),
        ) if same(mask, same_mask) and isinstance(mask, ast.Name | ast.Compare):
            text = f"{name} = {_where(source, source.torch() or 'torch', mask, source.written(new), name)}"
            yield from _proposed(f"Write `{text}`", source.replaced(statement, text))
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=mask)], value=value) as statement:
            compared = isinstance(mask, ast.Compare) or (isinstance(mask, ast.Name) and "mask" in mask.id)
            if compared and is_number(value):
                text = f"{name} = {name}.masked_fill({source.written(mask)}, {source.written(value)})"
                yield from _proposed(f"Write `{text}`", source.replaced(statement, text))
        case _:
            pass


def call(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the method of a tensor that makes what a constructor of torch was to make, or what it was given."""
    match node:
        case ast.Call(func=function, args=[only], keywords=[]) if source.written(function) in _VARIABLES:
            text = source.written(only)
            yield from _proposed(
                f"Leave `{source.written(function)}` out: a tensor is one since torch 0.4", source.replaced(node, text)
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=args, keywords=keywords):
            known = problem.related[0].message if problem.related else ""
            beginning = _at_hand(source, node, known) if known.isidentifier() else ""
            if module != source.torch() or name not in _CONSTRUCTORS or not beginning.isidentifier() or not args:
                return
            given = [source.written(each) for each in args]
            if (name == "full" and len(given) != 2) or any(each.arg is None for each in keywords):
                return
            named = [f"{each.arg}={source.written(each.value)}" for each in keywords if each.arg != "device"]
            if not any(each.startswith("dtype=") for each in named) and name not in {"full", "tensor"}:
                named.append(f"dtype={module}.float32")
            text = f"{beginning}.new_{name}({', '.join([*given, *named])})"
            yield from _proposed(f"Write `{text}`", source.replaced(node, text))
        case ast.Call(func=ast.Name(id=name)) if _is_imported(source, name):
            yield from registration(source, name)
        case _:
            pass


def argument(source: Source, node: ast.expr, _: Problem) -> Iterator[Proposal]:
    """Yield the data type in place of the class of tensors that have it: `x.type(torch.FloatTensor)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=tensor, attr="type"), args=[ast.Attribute(value=owner, attr=name)], keywords=[]
        ) if name in _OF_TENSORS:
            torch = source.torch() or ""
            place = source.written(owner).removeprefix(torch).removeprefix(".")
            dtype = f"{torch}.{_OF_TENSORS[name]}"
            change = f".type({dtype})" if not place else f'.to("{place}", {dtype})'
            yield from _proposed(f"Write `{change}`", source.replaced(node, f"{source.operand(tensor)}{change}"))
        case _:
            pass


def _is_imported(source: Source, name: str) -> bool:
    """Whether a name is one that the file imports something by."""
    imports = (each for each in source.tree.body if isinstance(each, ast.ImportFrom))
    return any((each.asname or each.name) == name for node in imports for each in node.names)


def _at_hand(source: Source, node: ast.expr, name: str) -> str:
    """Return an input of the function around an expression: that of this name, or its first one but the module."""
    function = source.function(node)
    if function is None:
        return name
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    inside = names[1:] if isinstance(source.parent(function), ast.ClassDef) else names
    return name if name in inside or not inside else inside[0]


def _is_of_a_shape(problem: Problem) -> bool:
    """Whether the value in question is the shape of another, which has none itself."""
    return problem.explanation.rpartition(" → ")[2].endswith((".shape", ".size()"))


def _asks_a_size(node: ast.expr) -> bool:
    """Whether a size has part in an expression."""
    attributes = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return any(each in {"shape", "numel", "size"} for each in attributes)


def _raised(source: Source, statement: ast.If, torch: str, problem: Problem) -> Iterator[Proposal]:
    """Yield the assertion that a branch is which only raises: the graph has it, and raises where the branch would."""
    match statement.body, statement.orelse:
        case [ast.Raise(exc=ast.Call(func=ast.Name(id=error), args=[*arguments]))], [] if not source.is_elif(statement):
            pass
        case _:
            return
    test = statement.test
    opposite = _opposite(source, test) if problem.kind == "metadata" else ""
    if not opposite and problem.kind == "metadata":
        return
    holds = opposite or f"{torch}.logical_not({source.written(test)})"
    told = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], ast.Constant) else None
    message = source.written(told) if told is not None else repr(" ".join(source.written(test).split()))
    text = f"{torch}._assert({holds}, {message})"
    yield from _proposed(
        f"Write `{torch}._assert(…)`, which the graph repeats; it raises AssertionError, not {error}",
        source.replaced(statement, text),
    )


def _opposite(source: Source, test: ast.expr) -> str:
    """Return the comparison that holds where another does not, "" where that is none of two numbers."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITES:
            return f"{source.written(left)} {_OPPOSITES[type(op)]} {source.written(right)}"
        case _:
            return ""


def _unchecked(source: Source, node: ast.expr) -> Iterator[Proposal]:
    """Yield a distribution that does not look at its values."""
    match node:
        case ast.Call(func=function, args=args, keywords=keywords) if _is_distribution(source, function):
            if not any(each.arg in {None, "validate_args"} for each in keywords):
                given = [*map(source.written, args), *(f"{each.arg}={source.written(each.value)}" for each in keywords)]
                text = f"{source.written(function)}({', '.join([*given, 'validate_args=False'])})"
                yield from _proposed("Write `validate_args=False`", source.replaced(node, text))
        case _:
            pass


def _is_distribution(source: Source, function: ast.expr) -> bool:
    """Whether an expression is a class of torch's distributions, as far as the imports of its file tell."""
    written = source.written(function)
    for node in source.tree.body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("torch.distributions"):
                if any((each.asname or each.name) == written.partition(".")[0] for each in node.names):
                    return True
            case ast.ImportFrom(module="torch"):
                names = [each.asname or each.name for each in node.names if each.name == "distributions"]
                if written.partition(".")[0] in names:
                    return True
            case ast.Import():
                for each in node.names:
                    if each.name.startswith("torch.distributions") and each.asname == written.partition(".")[0]:
                        return True
            case _:
                pass
    return written.startswith(f"{source.torch()}.distributions.")


def _scattered(source: Source, statement: ast.stmt | None) -> Iterator[Proposal]:
    """Yield the new value that has a slice of another one exchanged."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index) as target], value=value):
            new = source.written(value)
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name), slice=index) as target, op=op, value=value):
            new = f"{source.written(target)} {_SIGNS[type(op)]} {source.operand(value)}"
        case _:
            return
    place = _one_place(index)
    if place is None:
        return
    dimension, part = place
    if is_number(value) and isinstance(statement, ast.Assign):
        new = f"{source.torch() or 'torch'}.full_like({source.written(target)}, {new})"
    if isinstance(part, ast.Slice):
        method, ends = "slice_scatter", (("start", part.lower), ("end", part.upper))
        bounds = [f"{word}={source.written(each)}" for word, each in ends if each]
    elif _is_place(source, part):
        method, bounds = "select_scatter", [f"index={source.written(part)}"]
    else:
        return
    text = f"{name} = {name}.{method}({', '.join([new, f'dim={dimension}', *bounds])})"
    yield from _proposed(f"Write `{name} = {name}.{method}(…)`", source.replaced(statement, text))


def _one_place(index: ast.expr) -> tuple[int, ast.expr] | None:
    """Return the one dimension of which `x[:, 1:]` or `x[..., 0]` takes a part, and that part; None for others."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    dots = [place for place, each in enumerate(parts) if isinstance(each, ast.Constant) and each.value is Ellipsis]
    partial = [(place, each) for place, each in enumerate(parts) if place not in dots and not _is_whole(each)]
    if len(partial) != 1 or len(dots) > 1:
        return None
    place, part = partial[0]
    if isinstance(part, ast.Slice) and part.step is not None:
        return None
    return (place - len(parts) if dots and dots[0] < place else place), part


def _is_whole(part: ast.expr) -> bool:
    """Whether a part of an index takes a whole dimension."""
    return isinstance(part, ast.Slice) and part.lower is None and part.upper is None and part.step is None


def _is_place(source: Source, part: ast.expr) -> bool:
    """Whether an index is one number in truth: it is written out, or what a loop over a range counts."""
    if is_number(part):
        return True
    loops = [each for each in source.above(part) if isinstance(each, ast.For)]
    return isinstance(part, ast.Name) and any(_counts(each, part.id) for each in loops)


def _counts(loop: ast.For, name: str) -> bool:
    """Whether a loop gives numbers to a name, one after the other."""
    match loop.target, loop.iter:
        case ast.Name(id=target), ast.Call(func=ast.Name(id="range")):
            return target == name
        case ast.Tuple(elts=[ast.Name(id=target), _]), ast.Call(func=ast.Name(id="enumerate")):
            return target == name
        case _:
            return False


def _asserted(source: Source, statement: ast.Assert, torch: str) -> Iterator[Proposal]:
    test = source.written(statement.test)
    message = source.written(statement.msg) if statement.msg is not None else repr(" ".join(test.split()))
    text = f"{torch}._assert({test}, {message})"
    yield from _proposed(f"Write `{torch}._assert(…)`", source.replaced(statement, text))


def _chosen(source: Source, node: ast.IfExp, torch: str) -> Iterator[Proposal]:
    if not isinstance(node.body, _NO_TENSOR) and not isinstance(node.orelse, _NO_TENSOR):
        text = _where(source, torch, node.test, source.written(node.body), source.written(node.orelse))
        yield from _proposed(f"Write `{torch}.where(…)`, which computes both and picks", source.replaced(node, text))


def _branches(source: Source, statement: ast.If, torch: str) -> Iterator[Proposal]:
    """Yield the choice between two values that a branch is."""
    if source.is_elif(statement):
        return
    title = f"Write `{torch}.where(…)`, which computes both and picks"
    block = source.block(statement)
    place = block.index(statement) if statement in block else -1
    follower = block[place + 1] if 0 <= place < len(block) - 1 else None
    match statement.body, statement.orelse, follower:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)], [], _:
            yes, no = source.written(value), name
        case [ast.AugAssign(target=ast.Name(id=name), op=op, value=value)], [], _:
            yes, no = f"{name} {_SIGNS[type(op)]} {source.operand(value)}", name
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)], [
            ast.Assign(targets=[ast.Name(id=other)]) as last
        ], _:
            if name != other:
                return
            yes, no = source.written(value), source.written(last.value)
        case [ast.Return(value=ast.expr() as value)], [ast.Return(value=ast.expr() as other)], _:
            text = f"return {_where(source, torch, statement.test, source.written(value), source.written(other))}"
            yield from _proposed(title, source.replaced(statement, text))
            return
        case [ast.Return(value=ast.expr() as value)], [], ast.Return(value=ast.expr() as other) as last:
            text = f"return {_where(source, torch, statement.test, source.written(value), source.written(other))}"
            yield from _proposed(title, source.replaced(statement, text, last))
            return
        case _:
            return
    if not isinstance(value, _NO_TENSOR):
        text = f"{name} = {_where(source, torch, statement.test, yes, no)}"
        yield from _proposed(title, source.replaced(statement, text))


def _extreme(source: Source, node: ast.Call, torch: str) -> Iterator[Proposal]:
    """Yield the elementwise form of the larger or smaller of two values."""
    match node:
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[one, other], keywords=[]):
            if is_number(one):
                one, other = other, one
            if is_number(other):
                bound = "min" if name == "max" else "max"
                text = f"{source.operand(one)}.clamp({bound}={source.written(other)})"
            else:
                text = f"{torch}.{name}imum({source.written(one)}, {source.written(other)})"
            yield from _proposed(f"Write `{text}`", source.replaced(node, text))
        case _:
            pass


def _where(source: Source, torch: str, test: ast.expr, yes: str, no: str) -> str:
    return f"{torch}.where({source.written(test)}, {yes}, {no})"


def _leading(node: ast.expr, whole: ast.expr) -> int:
    """Return how many of the last sizes `x.shape[:-k]` leaves out, 0 where it is something else."""
    match node:
        case ast.Subscript(
            value=ast.Attribute(value=shaped, attr="shape"),
            slice=ast.Slice(
                lower=None, upper=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(k))), step=None
            ),
        ) if same(shaped, whole):
            return k
        case _:
            return 0


def _reshaped(source: Source, whole: ast.expr, left_out: int, rest: list[ast.expr]) -> str:
    """Return how the last sizes of a value are split or joined without naming the others, "" where they are not."""
    sizes = [source.written(each) for each in rest]
    if left_out == 1 and len(rest) > 1:
        return f"{source.operand(whole)}.unflatten(-1, ({', '.join(sizes)}))"
    if left_out > 1 and sizes == ["-1"]:
        return f"{source.operand(whole)}.flatten(-{left_out})"
    return ""


def _proposed(title: str, edit: Edit | None) -> Iterator[Proposal]:
    if edit is not None:
        yield Proposal(title, (edit,))


_OPPOSITES: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
}
_SIGNS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
