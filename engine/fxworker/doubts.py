"""Exceptions that may be no fault of the code: the model was built with arguments that nobody wrote down.

A list that is empty, a size that does not go with another: what was made up for a constructor need not be what it is
meant for, and then a `forward` raises that would not. What the code does wrong whatever it is given is no such case.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from torch import nn

from fxengine.classification import moments_of
from fxengine.diagnosis import TracingProblem
from fxengine.errors import OF_THE_CODE, DynamicBool, InPlaceChange, RaisedWhileTracing, UnusedInput, text_of
from fxengine.silent.reading import definition_behind
from fxengine.silent.signature import is_read
from fxengine.syntax import definition_of
from fxworker.building import Built
from fxworker.choices import attribute_of, parameters_of
from fxworker.stock import has_stand_in
from fxworker.wire import Problem, Provenance

_SURE: Final = (*OF_THE_CODE, AttributeError)
"""What is wrong with any arguments."""

_NOBODYS: Final = frozenset[Provenance]({"inferred", "no arguments", "remembered"})
"""Ways to build a model that nobody uses."""

_CONTAINERS: Final = (nn.ModuleDict, nn.ModuleList, nn.Sequential)

_OF_NOTHING: Final = re.compile(r"'NoneType' object|not NoneType")
_OF_CONTAINER: Final = re.compile(r"'Module(?:Dict|List)' object has no attribute")

_UNPACKED: Final = re.compile(r"(?:too many|not enough) values to unpack")


def is_answer(problem: TracingProblem, others: Iterable[TracingProblem]) -> bool:
    """Whether a problem is only that an assertion does not hold whose condition another one asks about."""
    site = problem.site
    if site is None or not isinstance(problem.exception, AssertionError):
        return False
    asked = [each.site for each in others if each.rule is DynamicBool and each.site is not None]
    return any(each.path == site.path and site.span.contains(each.span) for each in asked)


def is_used(problem: TracingProblem, built: Built) -> bool:
    """Whether an input that a graph does not use is one that the code does something with.

    What was made up for a constructor, such as a part that stands in for another, need not take all that the part takes
    which is meant, or may leave a branch out.
    """
    step = problem.provenance[0] if problem.rule is UnusedInput and problem.provenance else None
    if step is None or step.node is None or not built.is_made_up:
        return False
    code = getattr(inspect.unwrap(type(built.root).forward), "__code__", None)
    definition = definition_behind(code) if code is not None else None
    return definition is not None and is_read(definition, str(step.node.target).lstrip("*"))


def is_of_stand_in(problem: TracingProblem, built: Built) -> bool:
    """Whether an input is said to be changed in place that only what stands in for a part has returned as it was."""
    step = problem.provenance[0] if problem.rule is InPlaceChange and problem.provenance else None
    if step is None or step.node is None or step.node.op != "placeholder" or problem.site is None:
        return False
    if built.construct is None or not built.is_made_up or not has_stand_in(built.construct.expression):
        return False
    return re.match(rf"{re.escape(str(step.node.target).lstrip('*'))}\b", problem.site.text) is None


def doubted(
    problem: Problem,
    error: BaseException | None,
    built: Built,
    guesses: Mapping[str, str] = MappingProxyType({}),
    fed: str = "",
) -> Problem:
    """Return a problem that says how the model was built, where that may be what is wrong.

    `guesses` says what was assumed of names of the file that the model depends on, and `fed` what inputs were guessed
    that have told the trace what shapes are.
    """
    if problem.code != RaisedWhileTracing.code:
        return problem
    left_out = _left_out(error, built) if error is not None else ()
    if left_out and built.construct is not None:
        names = ", ".join(f"`{name}`" for name in left_out)
        built_as = (
            f"built as `{built.construct.expression}`, where {names} {'is' if len(left_out) == 1 else 'are'} None"
        )
        name = built.construct.expression.partition("(")[0]
        said = f"say how it is built in a comment above the class: `# fx: {name}({left_out[0]}=…)`"
        return replace(problem, severity="warning", explanation=built_as, hint=said)
    if isinstance(error, _SURE):
        return problem
    if problem.slip is not None and problem.slip.kind == "self":
        return problem
    construct = built.construct
    if isinstance(error, NotImplementedError) and _is_left_to_subclasses(error, built):
        said = "say how it is built in a comment above the class if it is meant to run by itself"
        return replace(problem, severity="information", explanation="this is left to subclasses", hint=said)
    if construct is not None and construct.source in _NOBODYS and _is_empty(built.root):
        said = "say how one is built that has items in a comment above the class: `# fx: …`"
        return replace(problem, severity="information", explanation="nothing was put into it yet", hint=said)
    if construct is not None and built.is_made_up:
        name = construct.expression.partition("(")[0]
        built_as = f"built as `{construct.expression}`, with arguments that were inferred; others may not raise"
        said = f"say how it is built in a comment above the class: `# fx: {name}(…)`"
    elif guesses:
        assumed = ", ".join(f"`{name} = {value}`" for name, value in guesses.items())
        built_as = f"built with {assumed}, a guess; other values may not raise"
        said = f"say what it is in a comment above its assignment: `# fx: {next(iter(guesses))} = …`"
    elif fed and isinstance(error, ValueError) and _UNPACKED.search(text_of(error)):
        built_as = f"fed with `{fed}`, which was inferred; others may not raise"
        said = "say what it is fed in a comment above the class: `# fx: inputs …`"
    else:
        return problem
    return replace(
        problem,
        severity="warning",
        explanation="\n".join(filter(None, (problem.explanation, built_as))),
        hint="\n".join(filter(None, (said, problem.hint))),
    )


def _left_out(error: BaseException, built: Built) -> tuple[str, ...]:
    """Return the arguments that a model was not given and may want, where it fails over None or an empty container."""
    root, construct = built.root, built.construct
    if construct is None or construct.source not in _NOBODYS or not isinstance(root, nn.Module):
        return ()
    nothing = [name for name, each in parameters_of(type(root)).items() if each.default is None]
    if _OF_NOTHING.search(text_of(error)):
        return tuple(name for name in nothing if attribute_of(root, name) is None and name in dir(root))
    is_of_empty = _OF_CONTAINER.search(text_of(error)) and any(map(_is_empty, vars(root).get("_modules", {}).values()))
    return tuple(nothing) if is_of_empty else ()


def _is_empty(model: object) -> bool:
    """Whether a model is a container whose items are put into it once it is made, and has none."""
    return isinstance(model, _CONTAINERS) and len(model) == 0


def _is_left_to_subclasses(error: BaseException, built: Built) -> bool:
    """Whether a method that does nothing but raise has raised, of a model that nobody builds."""
    construct, moments = built.construct, moments_of(error.__traceback__)
    if construct is None or construct.source not in _NOBODYS or not moments:
        return False
    code = moments[-1].frame.f_code
    definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
    if not isinstance(definition, ast.FunctionDef) or moments[-1].value_of("self") is not built.root:
        return False
    *before, last = definition.body
    return isinstance(last, ast.Raise) and all(isinstance(each, ast.Expr) for each in before)
