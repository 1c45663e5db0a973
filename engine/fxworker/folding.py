"""Several problems as one: of one site in several instances, of one question asked twice, of one call of other code."""

from collections.abc import Sequence
from dataclasses import replace

from fxengine.errors import DynamicIteration, DynamicLength
from fxworker.wire import Frame, Location, Problem


def merged(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return problems with those of the same site, reached by several instances, as one that names them.

    What is asked for its length and then for its items by one expression is one problem, and so is what one
    call asks at several places of one function of another file.
    """
    found: dict[tuple[str, Location, str], Problem] = {}
    measured = {each.location for each in problems if each.code == DynamicLength.code}
    for problem in problems:
        if problem.code == DynamicIteration.code and problem.location in measured:
            continue
        key = (problem.code, problem.location, problem.message)
        first = found.get(key)
        instances = problem.instances if first is None else (*first.instances, *problem.instances)
        found[key] = replace(first or problem, instances=tuple(dict.fromkeys(instances)))
    calls: dict[tuple[object, ...], list[Problem]] = {}
    for number, problem in enumerate(found.values()):
        site = _site_elsewhere(problem)
        where = (site.location.path, site.function) if site is not None else (number,)
        calls.setdefault((problem.code, problem.severity, problem.location, *where), []).append(problem)
    return tuple(_as_one(each) for each in calls.values())


def _site_elsewhere(problem: Problem) -> Frame | None:
    """Return where a problem lies in truth, if that is in another file than the one in which it is shown."""
    site = problem.origin.frames[-1] if problem.origin is not None and problem.origin.frames else None
    return site if site is not None and site.location.path != problem.location.path else None


def _as_one(problems: Sequence[Problem]) -> Problem:
    """Return problems of one call that lie in one function of another file as the first of them, with all places."""
    first, *others = problems
    sites = [each for each in map(_site_elsewhere, problems) if each is not None]
    if not others or not sites:
        return first
    lines = [str(each.location.span.line) for each in sites]
    own = f":{lines[0]})"
    told = f":{', '.join(dict.fromkeys(lines))})"
    related = dict.fromkeys(step for each in problems for step in each.related)
    instances = dict.fromkeys(path for each in problems for path in each.instances)
    message = f"{first.message.removesuffix(own)}{told}" if first.message.endswith(own) else first.message
    return replace(first, message=message, instances=tuple(instances), related=tuple(related))
