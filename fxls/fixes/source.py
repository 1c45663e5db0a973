"""A text with its syntax tree: which expression stands at a span, what is around it, and how it is written."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fxls.discovery.syntax import FunctionNode, first_line, parse, span_of
from fxls.text.mapper import Mapper
from fxls.text.scanning import STRING_OR_COMMENT
from fxworker.wire import Edit, Location, Span

_ATOMS: Final = ast.Constant | ast.Name | ast.Attribute | ast.Subscript | ast.Call
_WIDEST: Final = 120


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that may mend a problem. Its edits do not overlap."""

    title: str
    edits: tuple[Edit, ...]


Block: TypeAlias = Sequence[ast.stmt]


class Source:
    """The syntax of one text that parses. Mutable: it notes what it has looked at in the tree, which is not changed."""

    def __init__(self, path: str, mapper: Mapper, tree: ast.Module) -> None:
        self.path: Final = path
        self.mapper: Final = mapper
        self.tree: Final = tree
        self._parents: dict[ast.AST, ast.AST] = {}
        self._seen = set[ast.stmt]()

    @classmethod
    def of(cls, path: str, text: str) -> "Source | None":
        """Return the syntax of a text, None where it does not parse."""
        tree = parse(path, text)
        return cls(path, Mapper(text), tree) if isinstance(tree, ast.Module) else None

    def expression(self, span: Span) -> ast.expr | None:
        """Return the expression that stands at a span, the outermost of several."""
        nodes = (node for top in self._around(span.line) for node in ast.walk(top))
        return next((node for node in nodes if isinstance(node, ast.expr) and span_of(node) == span), None)

    def calls_on(self, line: int) -> list[ast.Call]:
        """Return the calls that begin on a line."""
        nodes = (node for top in self._around(line) for node in ast.walk(top))
        return [node for node in nodes if isinstance(node, ast.Call) and node.lineno == line]

    def statement_at(self, span: Span) -> ast.stmt | None:
        """Return the statement that stands at a span."""
        nodes = (node for top in self._around(span.line) for node in ast.walk(top))
        return next((node for node in nodes if isinstance(node, ast.stmt) and span_of(node) == span), None)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return what a node is a part of."""
        line = getattr(node, "lineno", None)
        if node not in self._parents and line is not None:
            for top in self._around(line):
                self._look_at(top)
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node is in, from the inside out."""
        around = self.parent(node)
        while around is not None:
            yield around
            around = self.parent(around)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the innermost statement around a node."""
        return next((each for each in (node, *self.above(node)) if isinstance(each, ast.stmt)), None)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function that a node runs in, None where that is a lambda or none."""
        for each in self.above(node):
            if isinstance(each, ast.Lambda | ast.ClassDef):
                return None
            if isinstance(each, FunctionNode):
                return each
        return None

    def block(self, statement: ast.stmt) -> Block:
        """Return the statements among which one stands."""
        parent = self.parent(statement)
        for _, value in ast.iter_fields(parent) if parent is not None else ():
            if isinstance(value, list) and statement in value:
                return value
        return ()

    def is_elif(self, statement: ast.stmt) -> bool:
        """Whether a statement is a later branch of another one, and not one of its own."""
        span = span_of(statement)
        raw = self.mapper.line(span.line).encode("utf-8", "surrogatepass")
        return isinstance(statement, ast.If) and raw[span.column :].startswith(b"elif")

    def torch(self) -> str | None:
        """Return the name that the module has imported torch under, None where it has not."""
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for name in node.names:
                    if name.name.partition(".")[0] == "torch" and (name.asname is None or name.name == "torch"):
                        return name.asname or "torch"
        return None

    def written(self, node: ast.expr) -> str:
        """Return an expression as it is written."""
        return self.mapper.source(span_of(node))

    def operand(self, node: ast.expr) -> str:
        """Return an expression so that something can be put behind it: in parentheses where it needs them."""
        text = self.written(node)
        return text if isinstance(node, _ATOMS) else f"({text})"

    def followed(self, node: ast.expr, text: str) -> Edit:
        """Return the edit that puts something behind an expression, as `.flatten(1)`."""
        return Edit(Location(self.path, span_of(node)), f"{self.operand(node)}{text}")

    def replaced(self, node: ast.expr | ast.stmt, text: str, last: ast.stmt | None = None) -> Edit | None:
        """Return the replacement of a node, or of the statements from it to a last one.

        None where a comment would be lost, or the line become too long.
        """
        span = span_of(node)
        if last is not None:
            end = span_of(last)
            span = Span(span.line, span.column, end.end_line, end.end_column)
        if "#" in self.mapper.source(span) and self.comments(span):
            return None
        lines = text.split("\n")
        if span.column + len(lines[0]) > _WIDEST or any(len(line) > _WIDEST for line in lines):
            return None
        return Edit(Location(self.path, span), text)

    def comments(self, span: Span) -> bool:
        """Whether there is a comment within a span."""
        start = self.mapper.offset(span.line, span.column)
        end = self.mapper.offset(span.end_line, span.end_column)
        matches = STRING_OR_COMMENT.finditer(self.mapper.text)
        return any(match[0].startswith("#") and start <= match.start() < end for match in matches)

    def _around(self, line: int) -> list[ast.stmt]:
        """Return the top-level statements that a line belongs to."""
        return [each for each in self.tree.body if first_line(each) <= line <= (each.end_lineno or each.lineno)]

    def _look_at(self, top: ast.stmt) -> None:
        """Note what the nodes of a top-level statement are parts of."""
        if top not in self._seen:
            self._seen.add(top)
            self._parents[top] = self.tree
            self._parents |= {child: node for node in ast.walk(top) for child in ast.iter_child_nodes(node)}


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number that is written out, with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are written alike."""
    return ast.dump(one) == ast.dump(other)
