"""Code that the graph has nothing of, because a condition led the trace another way.

A report names the code that nodes come from, and not the lines that ran. So a branch counts as left out only where no
node comes from it although nodes come from what runs instead, or from around it.
"""

import ast
from collections.abc import Collection
from typing import Final

from fxls.discovery.branching import Branch, branches_at
from fxls.discovery.syntax import parse
from fxls.features import markdown as md
from fxls.features.wording import shortened
from fxls.snapshot import Snapshot
from fxworker.wire import Span

_LONGEST_CONDITION: Final = 120


def left_out(snapshot: Snapshot, point: tuple[int, int], known: Collection[Span]) -> tuple[str, Span] | None:
    """Return why nothing in the graph comes from the branch around a point, and that branch; None where none is.

    `known` are the expressions that nodes come from.
    """
    tree = _around(snapshot, point) if known else None
    # Outer branches come first: one that is left out decides for those inside it.
    for branch in branches_at(tree, point) if tree is not None else ():
        if any(_within(span, branch.arm) for span in known):
            continue
        instead = any(_within(span, arm) for span in known for arm in branch.instead)
        if instead or any(_within(span, branch.block) for span in known):
            return _text(snapshot, branch, instead=instead), branch.arm
    return None


def _around(snapshot: Snapshot, point: tuple[int, int]) -> ast.Module | None:
    """Return the syntax around a line, of a `forward`, else of a class or what lies between two; it keeps its places.

    A file may be long, and whoever hovers waits.
    """
    first, last = 1, snapshot.mapper.line_count
    for each in snapshot.index.classes:
        forward = each.forward.span if each.forward is not None else None
        if forward is not None and forward.column and forward.line <= point[0] <= forward.end_line:
            # What is indented is so within something.
            return _parsed(snapshot, forward.line, forward.end_line, "class _:\n")
        if each.span.column:
            continue
        if each.header <= point[0] <= each.span.end_line:
            first, last = each.header, each.span.end_line
        elif each.span.end_line < point[0]:
            first = max(first, each.span.end_line + 1)
        else:
            last = min(last, each.header - 1)
    return _parsed(snapshot, first, last)


def _parsed(snapshot: Snapshot, first: int, last: int, head: str = "") -> ast.Module | None:
    above = "\n" * (first - 1 - head.count("\n"))
    tree = parse(snapshot.path, above + head + "\n".join(snapshot.mapper.lines(first, last)))
    return tree if isinstance(tree, ast.Module) else None


def _within(span: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (span.line, span.column) and (span.end_line, span.end_column) <= (
        outer.end_line,
        outer.end_column,
    )


def _text(snapshot: Snapshot, branch: Branch, *, instead: bool) -> str:
    """Return what decided, what it is if that is known, and where the graph goes."""
    test = branch.test
    condition = f"{md.code(_written(snapshot, test))} ({md.link(f'line {test.line}', f'{snapshot.uri}#L{test.line}')})"
    match branch.kind:
        case "branch":
            ahead = "the graph takes the other branch" if instead else "no node of the graph comes from this branch"
        case "case":
            ahead = "the graph takes another case" if instead else "no node of the graph comes from this case"
            return f"{ahead}: whether {condition} matches {_decided(snapshot, test)}"
        case "while":
            ahead = "no node of the graph comes from this loop"
        case "operand":
            ahead = "no node of the graph comes from this operand, which what stands before it decides about"
        case "end of loop":
            return f"no node of the graph comes from this `else`, which does not run after a `break`: {condition}"
        case "loop" | "element":
            return (
                f"no node of the graph comes from here: either {condition} leaves nothing to do, or what is done is no "
                "matter of traced values"
            )
    return f"{ahead}: {condition} {_decided(snapshot, test)}"


def _decided(snapshot: Snapshot, test: Span) -> str:
    """Return how a condition was decided: by the inputs in use, against a symbolic value, or while tracing."""
    targets = snapshot.report.targets if snapshot.report is not None else ()
    asked = [
        (here, problem)
        for target in targets
        for problem in target.problems
        if problem.code == "FX001" and (here := snapshot.here(problem.location)) is not None and _within(here, test)
    ]
    for here, problem in asked:
        if problem.value:
            what = "is" if here == test else f"asks {md.code(_written(snapshot, here))}, which is"
            return f"{what} {md.code(problem.value)} for the inputs in use"
    if asked:
        return "cannot be asked of a symbolic value, so the likely answer was followed"
    for target in targets:
        for guard in target.guards:
            here = snapshot.here(guard.location) if guard.location is not None else None
            if here is not None and _within(here, test):
                return (
                    f"was decided by the inputs in use, for which {md.code(guard.expression)} is {md.code(guard.value)}"
                )
    return "was decided while tracing, once and for all"


def _written(snapshot: Snapshot, span: Span) -> str:
    return shortened(" ".join(snapshot.mapper.source(span).split()), _LONGEST_CONDITION)
