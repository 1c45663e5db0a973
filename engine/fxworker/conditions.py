"""What conditions in a constructor say about the values that they test: `mode == "linear"`, `x is None`, `if flag:`."""

import ast

from fxworker.bindings import Bindings, in_words
from fxworker.evidence import Use
from fxworker.surroundings import Surroundings


def note_comparison(node: ast.Compare, names: Bindings, around: Surroundings) -> None:
    """Note what a comparison says: what a value may be, or that it may be missing."""
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
        for side, other in ((left, right), (right, left)):
            path = names.path(side)
            named = names.path(_asked_its_class(side))
            if named and isinstance(other, ast.Constant) and isinstance(other.value, str):
                names.use(named).titles.append(repr(other.value))
            if path:
                _compared(names.use(path), operator, other, around, reverse=side is right)


def note_cases(node: ast.Match, names: Bindings) -> None:
    """Note what the cases of a `match` say that its subject may be."""
    path = names.path(node.subject)
    if path:
        for case in node.cases:
            values = (each.value for each in ast.walk(case.pattern) if isinstance(each, ast.MatchValue))
            names.use(path).literals += map(ast.unparse, values)


def note_test(test: ast.expr, names: Bindings) -> None:
    """Note that a value is tested, which is the least that one can say of it."""
    for each in test.values if isinstance(test, ast.BoolOp) else [test]:
        path = names.path(each.operand if isinstance(each, ast.UnaryOp) else each)
        if path:
            names.use(path).note("flag")


def note_chosen(node: ast.If, names: Bindings) -> None:
    """Note that a text alone chooses what has its name then: `if block == "basic": block = Basic`, `else: raise`."""
    match node.test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(str())]) if names.path(left):
            subject = in_words(left)
        case _:
            return
    assigned = [target for each in node.body if isinstance(each, ast.Assign) for target in each.targets]
    if ast.unparse(subject) in map(ast.unparse, assigned) and _ends_in_raise(node.orelse):
        names.use(names.path(subject)).textual = True


def _ends_in_raise(otherwise: list[ast.stmt]) -> bool:
    """Whether all that is left where no condition is met is to raise."""
    match otherwise:
        case [ast.If(orelse=inner)]:
            return _ends_in_raise(inner)
        case [*_, ast.Raise()]:
            return True
        case _:
            return False


def note_asked(test: ast.expr, names: Bindings, *, raises: bool = False, otherwise: bool = False) -> None:
    """Note which keys and attributes a value is asked for whether it has them: `"width" in config`.

    Args:
        test: The condition.
        names: What names stand for.
        raises: Whether something is raised where it is met: what is not there is missed then.
        otherwise: Whether the condition is met where what is asked is not so.
    """
    for each in test.values if isinstance(test, ast.BoolOp) else [test]:
        match each:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                note_asked(inner, names, raises=raises, otherwise=not otherwise)
            case ast.Compare(left=ast.Constant(str(key)), ops=[ast.In() | ast.NotIn() as way], comparators=[value]):
                _asked(names, value, key, missed=raises and isinstance(way, ast.NotIn) != otherwise)
            case ast.Call(func=ast.Name(id="hasattr"), args=[value, ast.Constant(str(key))]):
                _asked(names, value, key, missed=raises and otherwise)
            case _:
                pass


def _asked(names: Bindings, value: ast.expr, key: str, *, missed: bool) -> None:
    path = names.path(value)
    if path and not missed:
        names.use(path).asked.append(key)


def note_got(call: ast.Call, names: Bindings) -> None:
    """Note which attribute a value is asked for, which it may lack where there is a default: `getattr(config, "x", 4)`.

    Only an object has to have one: any value may be asked for what some lack.
    """
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(str(key)), *default]) if names.path(value):
            path = names.path(value)
            part = names.use(f"{path}.{key}")
            part.replaced, part.read = part.replaced or bool(default), part.read or not default
            if not default:
                names.use(path).note("object")
        case _:
            pass


def note_attribute(test: ast.expr, names: Bindings) -> None:
    """Note what a value must have: `assert hasattr(model, "width")`."""
    match test:
        case ast.Call(func=ast.Name(id="hasattr"), args=[value, ast.Constant(str(name))]) if names.path(value):
            path = names.path(value)
            names.use(path).note("object")
            names.use(f"{path}.{name}")
        case _:
            pass


def _asked_its_class(node: ast.expr) -> ast.expr:
    """Return what is asked for the name of its class, None where nothing is: `space.__class__.__name__`."""
    match node:
        case (
            ast.Attribute(value=ast.Attribute(value=value, attr="__class__"), attr="__name__")
            | ast.Attribute(value=ast.Call(func=ast.Name(id="type"), args=[value]), attr="__name__")
        ):
            return value
        case _:
            return ast.Constant(None)


def _compared(use: Use, operator: ast.cmpop, other: ast.expr, around: Surroundings, *, reverse: bool) -> None:
    if isinstance(operator, ast.Is | ast.IsNot):
        members = [*around.constants([other])] if not isinstance(other, ast.Constant) else []
        use.literals += members
        use.optional |= not members
    elif isinstance(operator, ast.In | ast.NotIn) and not reverse:
        items = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else []
        use.literals += [*around.constants(items)] or around.keys(other)
    elif isinstance(operator, ast.In | ast.NotIn):
        texts = [ast.unparse(other)] if isinstance(other, ast.Constant) and isinstance(other.value, str) else []
        use.note("string" if texts else "sequence")
        use.contents += texts
    elif isinstance(other, ast.Constant) and isinstance(other.value, str):
        use.note("string")
        use.literals.append(repr(other.value))
    elif isinstance(other, ast.Constant) and other.value is None:
        use.optional = True
    elif isinstance(other, ast.Constant) and isinstance(other.value, bool):
        use.note("flag")
    elif isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) or isinstance(other, ast.Constant):
        use.note("number")
        if isinstance(operator, ast.Eq) and isinstance(other, ast.Constant):
            use.literals.append(ast.unparse(other))
    elif isinstance(operator, ast.Eq | ast.NotEq):
        use.literals += around.constants([other])
