"""Making an expression self-contained: local names are replaced by what was assigned to them.

`model(x)` with `x = torch.randn(2, dim)` and `dim = 64` is fed `torch.randn(2, 64)`. An expression that needs what
only a run provides (a file, the command line, a batch of a data loader, an unknown argument) cannot be closed.
"""

import ast
import builtins
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from fxls.discovery.syntax import dotted

_LARGEST: Final = 400
"""The most syntax nodes that a closed expression may have."""

_LOADING: Final = frozenset({
    "breakpoint", "compile", "download", "eval", "exec", "exit", "from_pretrained", "getenv", "imread", "input", "iter",
    "load", "load_dataset", "load_file", "load_state_dict", "loads", "next", "open", "parse_args", "parse_known_args",
    "print", "quit", "read", "read_csv", "read_text", "recv", "urlopen", "urlretrieve",
})  # fmt: skip
"""Last names of calls that fetch data, or ask for it."""

_BUILTINS: Final = frozenset(dir(builtins)) - _LOADING - {"__name__", "__file__"}

_LITERAL: Final = (
    ast.Constant
    | ast.Tuple
    | ast.List
    | ast.Dict
    | ast.UnaryOp
    | ast.BinOp
    | ast.operator
    | ast.unaryop
    | ast.expr_context
)
_ON_A_DEVICE: Final = frozenset({"cuda", "cpu", "xpu", "mps"})
_MODE: Final = frozenset({"eval", "train", "requires_grad_", "share_memory", "share_memory_"})


@dataclass(frozen=True, slots=True)
class Bound:
    """What is known of a local name: its closed value, None when unknown, and the target that it is an instance of.

    `kept` says that the name itself may stand in a closed expression, as the module binds it on import, or a function
    if it is the class `defines`, which is evaluated there.
    """

    value: ast.expr | None
    model: str = ""
    kept: bool = False
    defines: str = ""


@dataclass(slots=True)
class Scope:
    """The names of one function, example or module body, in the order in which it binds them."""

    parent: "Scope | None" = None
    names: dict[str, Bound] = field(default_factory=dict[str, Bound])

    def lookup(self, name: str) -> Bound | None:
        """Return what a name is bound to here or outside, None when nothing binds it."""
        scope: Scope | None = self
        while scope is not None:
            bound = scope.names.get(name)
            if bound is not None:
                return bound
            scope = scope.parent
        return None


def closed(expression: ast.expr, scope: Scope) -> ast.expr | None:
    """Return an equal expression whose names the module binds on import, None where there is none."""
    expression = without_device(expression)
    nodes = list(islice(ast.walk(expression), _LARGEST + 1))
    if len(nodes) > _LARGEST or any(isinstance(node, ast.Await | ast.Yield | ast.YieldFrom) for node in nodes):
        return None
    if any(isinstance(node, ast.Call) and _loads(node) for node in nodes):
        return None
    own = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    replacements: dict[str, ast.expr] = {}
    for node in nodes:
        if not isinstance(node, ast.Name) or node.id in own or node.id in replacements:
            continue
        bound = scope.lookup(node.id)
        if bound is None:
            if node.id not in _BUILTINS:
                return None
        elif not bound.kept:
            if bound.value is None:
                return None
            replacements[node.id] = bound.value
    if not replacements:
        return expression
    result = substituted(expression, replacements)
    return result if sum(1 for _ in ast.walk(result)) <= _LARGEST and _can_be_written(result) else None


def substituted(expression: ast.expr, replacements: Mapping[str, ast.expr]) -> ast.expr:
    """Return an expression with others in the place of some of its names."""
    return _Substitution(replacements).visit(copy.deepcopy(expression))


def _can_be_written(expression: ast.expr) -> bool:
    """Whether an expression has a text: before Python 3.12 no backslash stands between the braces of an f-string."""
    if not any(isinstance(each, ast.JoinedStr) for each in ast.walk(expression)):
        return True
    try:
        ast.unparse(expression)
    except ValueError:
        return False
    return True


def is_literal(expression: ast.expr) -> bool:
    """Whether an expression consists of constants alone, such as `(3, 224)` or `2 * 64`."""
    return all(isinstance(node, _LITERAL) for node in ast.walk(expression))


def without_device(expression: ast.expr) -> ast.expr:
    """Return an expression without what moves its value to a device or sets a module's mode, at its outermost calls.

    Models are built and traced on a device of our choice; `model.to(device).eval()` is `model`.
    """
    while isinstance(expression, ast.Call):
        function = expression.func
        if not isinstance(function, ast.Attribute):
            break
        moves = function.attr in _ON_A_DEVICE | _MODE or (
            function.attr == "to" and len(expression.args) + len(expression.keywords) > 0 and _names_device(expression)
        )
        if not moves:
            break
        expression = function.value
    if isinstance(expression, ast.Call) and any(each.arg == "device" for each in expression.keywords):
        keywords = [each for each in expression.keywords if each.arg != "device"]
        kept = ast.Call(func=expression.func, args=expression.args, keywords=keywords)
        return ast.copy_location(kept, expression)
    return expression


def _names_device(call: ast.Call) -> bool:
    """Whether every argument of a `to` call is a device."""
    arguments = [*call.args, *(each.value for each in call.keywords)]
    return all(
        "device" in ast.unparse(each) or (isinstance(each, ast.Constant) and isinstance(each.value, str | int))
        for each in arguments
    )


def _loads(call: ast.Call) -> bool:
    """Whether a call needs data from outside the program, judged by its name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
    return name in _LOADING


class _Substitution(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, replacements: Mapping[str, ast.expr]) -> None:
        self._replacements = replacements

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return what stands for a name."""
        return self._replacements.get(node.id, node)
