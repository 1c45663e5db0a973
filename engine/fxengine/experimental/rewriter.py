"""A tracer that rewrites what cannot be recorded, in the source, before it runs: ``assert`` becomes ``torch._assert``.

Each module's ``forward`` is compiled anew from its syntax tree. Positions stay those of the file, so origins and
tracebacks point where they should. What has no source (built-in, generated) is traced as it is.
"""

import ast
import copy
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast

from torch import nn

from fxengine.graph import Graph
from fxengine.tracer import Tracer

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):  # noqa: N801 - torch.fx's name.
    """Rewrites functions; a subclass adds a ``visit`` method for each kind of syntax that it replaces."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """Return ``fn`` compiled from its rewritten source, with its own globals, closure and defaults.

        Raises:
            OSError: There is no source.
        """
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        _shift(tree, first - 1, len(lines[0]) - len(lines[0].lstrip()))
        rewritten = ast.fix_missing_locations(self.visit(tree))
        definition = rewritten.body[0]
        definition.decorator_list = []
        code = _code_of(_enclosed(rewritten, definition, fn.__code__.co_freevars), fn)
        result = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        result.__kwdefaults__ = copy.copy(fn.__kwdefaults__)
        return cast("FunctionType", functools.update_wrapper(result, fn))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Turn ``assert test, message`` into ``torch._assert(test, message)``."""
        message = node.msg if node.msg is not None else ast.Constant("")
        call = ast.Call(_expression("__import__('torch')._assert", node), [node.test, message], [])
        return ast.copy_location(ast.Expr(ast.copy_location(call, node)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Turn ``y: T = value`` into ``y = annotate(value, T)``."""
        if node.value is None:
            return node
        function = _expression("__import__('fxengine.annotate', fromlist=['annotate']).annotate", node)
        value = ast.copy_location(ast.Call(function, [node.value, node.annotation], []), node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)


class RewritingTracer(Tracer):
    """Traces modules and functions whose source was rewritten by ``AST_Rewriter``."""

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """Return the graph of ``root`` rewritten; ``root`` itself is left as it is."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(root: nn.Module | Callable[..., Any]) -> nn.Module | Callable[..., Any]:
    """Return ``root`` with its functions rewritten, a copy where that is a module."""
    if isinstance(root, nn.Module):
        return _rewritten_module(root)
    return _rewritten_function(root) if isinstance(root, FunctionType) else root


def _rewritten_module(module: nn.Module) -> nn.Module:
    """Return a copy of ``module`` that shares its parameters, with rewritten ``forward`` methods throughout."""
    twin = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(value, dict):
            vars(twin)[name] = copy.copy(value)
    twin._modules = {
        name: _rewritten_module(child) if child is not None else None for name, child in module._modules.items()
    }
    forward = inspect.unwrap(type(module).forward)
    if isinstance(forward, FunctionType) and not type(module).__module__.startswith("torch.nn"):
        own = type(module)
        body = {"forward": _rewritten_function(forward), "__module__": own.__module__, "__qualname__": own.__qualname__}
        twin.__class__ = type(own.__name__, (own,), body)
    return twin


def _rewritten_function(function: FunctionType) -> FunctionType:
    try:
        return AST_Rewriter().rewrite(function)
    except (OSError, SyntaxError):  # Without source, or a lambda in the middle of a line.
        return function


def _expression(source: str, place: ast.AST) -> ast.expr:
    """Return the syntax tree of an expression that stands where ``place`` stands."""
    tree = ast.parse(source, mode="eval").body
    for node in ast.walk(tree):
        ast.copy_location(node, place)
    return tree


def _shift(tree: ast.AST, lines: int, columns: int) -> None:
    """Move everything to where it stands in the file."""
    ast.increment_lineno(tree, lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt):
            node.col_offset += columns
            node.end_col_offset = (node.end_col_offset or 0) + columns


def _enclosed(tree: ast.Module, definition: ast.stmt, free: tuple[str, ...]) -> ast.Module:
    """Return ``tree`` with the definition inside a function that has its free variables, so that they stay free."""
    if not free:
        return tree
    outer = ast.parse(f"def __fx_outer__():\n    {' = '.join(free)} = None").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body.append(definition)
    return ast.fix_missing_locations(ast.Module([outer], []))


def _code_of(tree: ast.Module, function: FunctionType) -> CodeType:
    """Return the code object of the function with ``function``'s name inside ``tree``."""
    pending = [compile(tree, function.__code__.co_filename, "exec")]
    while pending:
        for constant in pending.pop().co_consts:
            if isinstance(constant, CodeType):
                if constant.co_name == function.__code__.co_name:
                    return constant.replace(co_qualname=function.__qualname__)
                pending.append(constant)
    raise OSError(f"no definition of {function.__name__} in its own source")
