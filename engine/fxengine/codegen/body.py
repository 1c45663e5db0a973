"""The first step of code generation: nodes become chunks of text, in order, with the values freed after each."""

from collections.abc import Callable, Iterator, Reversible
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fxengine.codegen.commentary import Commentary
from fxengine.codegen.expressions import Expressions
from fxengine.codegen.lifetimes import last_uses
from fxengine.codegen.statements import Statements
from fxengine.node import Argument, Node

Chunk: TypeAlias = tuple[str, int, str, str]
"""The comment before a node, the node's index, its statement, and what ends the statement's line; each may be empty."""

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

    def chunks(self, nodes: Reversible[Node]) -> Iterator[Chunk]:
        """Yield the text of each node; those of placeholders are mostly empty."""
        freed = last_uses(reversed(nodes))
        verbose = self.commentary.verbose
        plain = not (verbose or self.record_func or self.commentary.include_meta)
        write = self.statements.write
        previous_comment = comment = ""
        for index, node in enumerate(nodes):
            if verbose:
                comment = self.commentary.summary(node)
                if comment == previous_comment:
                    comment = ""
                elif comment:
                    previous_comment = comment
            annotation = "" if node.type is None and plain else self._annotation(node)
            op = node._op
            if op == "placeholder":
                statement, tail = self._placeholder(node, annotation), ""
            elif op == "output":
                statement, tail = self._output(node), "\n"
            else:
                statement, tail = write(node, annotation), self._tail(node, freed.get(node))
            if not plain:
                statement, tail = self._decorated(index, node, statement, tail)
            yield comment, index, statement, tail

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
        name = expressions.name_of(node)
        return "" if parameter == name else f"{name} = {parameter}\n"

    def _output(self, node: Node) -> str:
        if node.type is not None:
            self.return_annotation = f" -> {self.statements.global_names.add_type(node.type)}"
        return self.return_statement(node._args[0], node.meta.get("desc") if self.expanded_def else None)

    def _tail(self, node: Node, dead: list[Node] | None) -> str:
        """Return the end of the node's line, which frees the values that nobody needs any more."""
        if not node.users:
            dead = [*(dead or ()), node]
        if not dead:
            return "\n"
        name_of = self.statements.expressions.name_of
        release = " = ".join([name_of(value) for value in dead]) + " = None"
        return f";  {self.commentary.paint('dim', release) if self.commentary.colored else release}\n"

    def _decorated(self, index: int, node: Node, statement: str, tail: str) -> tuple[str, str]:
        """Return the node's text between what shows its ``meta`` and what reports it to the profiler."""
        statement = self.commentary.meta_dump(node) + statement
        if self.record_func and node._op in _CALLS:
            record = f"_rf_{node._name}"
            statement = f"{record} = {_PROFILE}('## {index} ##'); {record}.__enter__()\n{statement}"
            tail = f"{tail}{record}.__exit__(None, None, None)\n"
        return statement, tail


def framed(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks of a body within the record that the profiler has of the whole graph."""
    enter = f"_rf = {_PROFILE}('## ENTER_GRAPH_PLACEHOLDER_KEY ##'); _rf.__enter__()\n"
    last = chunks[-1][1] if chunks else 0
    return [(enter, 0, "", ""), *chunks, ("", last, "_rf.__exit__(None, None, None)\n", "")]
