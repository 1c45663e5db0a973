"""Exceptions that may be no fault of the code: the model was built with arguments that nobody wrote down.

A list that is empty, a size that does not go with another: what was made up for a constructor need not be what it is
meant for, and then a `forward` raises that would not. What the code does wrong whatever it is given is no such case.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from fxengine.errors import OF_THE_CODE, RaisedWhileTracing
from fxworker.building import Built
from fxworker.wire import Problem

_SURE: Final = (*OF_THE_CODE, AttributeError)
"""What is wrong with any arguments."""


def doubted(
    problem: Problem, error: BaseException | None, built: Built, guesses: Mapping[str, str] = MappingProxyType({})
) -> Problem:
    """Return a problem that says how the model was built, where that may be what is wrong.

    `guesses` says what was assumed of names of the file that the model depends on.
    """
    if problem.code != RaisedWhileTracing.code or isinstance(error, _SURE):
        return problem
    construct = built.construct
    if construct is not None and built.is_made_up:
        name = construct.expression.partition("(")[0]
        built_as = f"built as `{construct.expression}`, with arguments that were inferred; others may not raise"
        said = f"say how it is built in a comment above the class: `# fx: {name}(…)`"
    elif guesses:
        assumed = ", ".join(f"`{name} = {value}`" for name, value in guesses.items())
        built_as = f"built with {assumed}, a guess; other values may not raise"
        said = f"say what it is in a comment above its assignment: `# fx: {next(iter(guesses))} = …`"
    else:
        return problem
    return replace(
        problem,
        severity="warning",
        explanation="\n".join(filter(None, (problem.explanation, built_as))),
        hint="\n".join(filter(None, (said, problem.hint))),
    )
