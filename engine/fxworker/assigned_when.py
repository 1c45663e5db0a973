"""Whether what fails takes a part that a model has in this way with some arguments alone."""

import ast
from collections.abc import Iterator

from fxengine.capturing.dimensions import frame_of
from fxengine.node import Node
from fxengine.syntax import nodes_around


def is_of_a_choice(node: Node) -> bool:
    """Return whether the expression of a node reads a part that its class's constructor makes under a condition.

    So does a block that gives its shortcut another width if one is wanted: with another width it would not fail.
    """
    frame = frame_of(node)
    around = [*nodes_around(frame.path, frame.span)] if frame is not None else []
    cls = next((each for each in around[::-1] if isinstance(each, ast.ClassDef)), None)
    if cls is None:
        return False
    return not set(_own(around[-1], ast.Load)).isdisjoint(_made_under_conditions(cls))


def _made_under_conditions(cls: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that a class's constructor assigns under a condition."""
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for each in ast.walk(method):
                for statement in (*each.body, *each.orelse) if isinstance(each, ast.If) else ():
                    yield from _own(statement, ast.Store)


def _own(whole: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    """Yield the attributes of `self` that code reads, or assigns."""
    for each in ast.walk(whole):
        match each:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ctx) if isinstance(ctx, context):
                yield name
            case _:
                pass
