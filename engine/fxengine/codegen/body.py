"""The first step of code generation: nodes become chunks of text, in order, with the values freed after each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fxengine.codegen.commentary import Commentary
from fxengine.codegen.lifetimes import last_uses
from fxengine.codegen.statements import WRITERS, Statements
from fxengine.node import Argument, Node

Chunk: TypeAlias = tuple[str, int | None, str, str | None]
"""The comment before a node, the node's index, its statement, and what follows on the statement's line.

The first and the third are empty or whole lines, the statement without the end of its last line, which is what the
fourth is put on. If that is None, the statement is whole lines, or nothing.
"""

_PROFILE: Final = "torch._C._profiler._RecordFunctionFast"
_CALLS: Final = frozenset({"call_function", "call_method", "call_module"})


@dataclass(slots=True)
class Body:
    """Writes the body of one function and notes what its signature needs.

    Attributes:
        statements: Writes single nodes.
        commentary: Says what is only for people.
        return_statement: Writes the ``return`` of a value, given descriptions of its parts or None.
        expanded_def: Describe each parameter and each part of the result in a comment.
        record_func: Let the profiler see each call.
        parameters: The parameters of the function, with annotation and default value.
        return_annotation: The annotation of the result, with its arrow, or nothing.
    """

    statements: Statements
    commentary: Commentary
    return_statement: Callable[[Argument, list[str] | None], str]
    expanded_def: bool = False
    record_func: bool = False
    parameters: list[str] = field(default_factory=list[str])
    return_annotation: str = ""

    def chunks(self, nodes: Sequence[Node]) -> Iterator[Chunk]:
        """Yield the text of each node; those of placeholders are mostly empty."""
        statements, verbose = self.statements, self.commentary.verbose
        plain = not (verbose or self.record_func or self.commentary.include_meta)
        names, colored = statements.expressions.names, self.commentary.colored
        former_comment = comment = ""
        for index, (node, dead) in enumerate(zip(nodes, last_uses(nodes), strict=True)):
            if verbose:
                comment = self.commentary.summary(node)
                comment, former_comment = _unless_repeated(comment, former_comment)
            annotation = "" if plain and node.type is None else self._annotation(node)
            op = node._op
            if op == "placeholder":
                statement, tail = self._placeholder(node, annotation), None
            elif op == "output":
                statement, tail = self._output(node), ""
            else:
                statement = WRITERS[op](statements, node, annotation)
                if not node.users:
                    tail = self._release([*dead, node])
                elif len(dead) == 1 and not colored:
                    tail = f";  {names[dead[0]]} = None"
                else:
                    tail = self._release(dead) if dead else ""
            if plain:
                yield comment, index, statement, tail
            else:
                yield from self._decorated(node, (comment, index, statement, tail))

    def _annotation(self, node: Node) -> str:
        annotation = self.statements.annotation(node)
        return self.commentary.annotation(node, annotation) if self.commentary.verbose else annotation

    def _placeholder(self, node: Node, annotation: str) -> str:
        """Note the parameter; return the assignment that gives it the node's name, where that is another."""
        assert isinstance(node._target, str), f"Expected node.target to be str, got {type(node._target)}"
        expressions = self.statements.expressions
        default = f" = {expressions.write(node._args[0])}" if node._args else ""
        description = node.meta.get("desc") if self.expanded_def else None
        comment = "" if description is None else f"  # {description}"
        self.parameters.append(f"{node._target}{annotation}{default}{comment}")
        parameter = node._target.replace("*", "")
        name = expressions.names[node]
        return "" if parameter == name else f"{name} = {parameter}\n"

    def _output(self, node: Node) -> str:
        if node.type is not None:
            self.return_annotation = f" -> {self.statements.global_names.add_type(node.type)}"
        return self.return_statement(node._args[0], node.meta.get("desc") if self.expanded_def else None)

    def _release(self, dead: Sequence[Node]) -> str:
        """Return the end of a line that frees the values that nobody needs any more."""
        names = self.statements.expressions.names
        release = f"{' = '.join([names[node] for node in dead])} = None"
        return f";  {self.commentary.paint('dim', release) if self.commentary.colored else release}"

    def _decorated(self, node: Node, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the node's text between what shows its ``meta`` and what reports it to the profiler."""
        comment, index, statement, tail = chunk
        statement = self.commentary.meta_dump(node) + statement
        if not self.record_func or node._op not in _CALLS:
            yield comment, index, statement, tail
            return
        record = f"_rf_{node._name}"
        enter = f"{record} = {_PROFILE}('## {index} ##'); {record}.__enter__()\n"
        yield comment, index, enter + statement, tail
        yield "", index, f"{record}.__exit__(None, None, None)", ""


def _unless_repeated(comment: str, former: str) -> tuple[str, str]:
    """Return a comment, or nothing where the last one said the same, and the comment to compare the next one with."""
    return ("", former) if comment == former else (comment, comment or former)


def framed(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks of a body within the record that the profiler has of the whole graph."""
    last: int | None = None
    yield f"_rf = {_PROFILE}('## ENTER_GRAPH_PLACEHOLDER_KEY ##'); _rf.__enter__()\n", None, "", None
    for chunk in chunks:
        yield chunk
        last = chunk[1]
    yield "", last, "_rf.__exit__(None, None, None)", ""
