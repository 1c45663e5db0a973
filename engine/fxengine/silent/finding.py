"""All finders, one after the other."""

from collections.abc import Callable, Iterator

from fxengine.diagnosis import Observation, TracingProblem
from fxengine.errors import EmbeddedDraw, InPlaceChange, LostResult, SpecialisedValue, UnusedInput
from fxengine.silent import (
    along,
    attributes,
    dropped,
    leaves,
    mutation,
    questions,
    results,
    signature,
    swallowed,
    training,
    values,
    weighing,
)
from fxengine.silent.scene import Scene, merged

_FINDERS: tuple[Callable[[Scene], Iterator[TracingProblem]], ...] = (
    training.find,
    values.find,
    leaves.find,
    questions.find,
    signature.specialised,
    signature.unused,
    results.lost,
    mutation.find,
    attributes.find,
    swallowed.find,
    along.find,
    dropped.find,
    weighing.find,
)


def find_silent(observation: Observation) -> tuple[TracingProblem, ...]:
    """The silent errors of a run; those that several modules have in common are one problem each.

    What has nothing to do with the files that the user is working on is left out: nobody could mend it from there.
    """
    scene = Scene(observation)
    problems = (problem for finder in _FINDERS for problem in finder(scene))
    found = merged(problem for problem in problems if problem.anchor is not None)
    # An input that is unused because of what it answered is told of where it was asked.
    asked = {problem.provenance[0].node for problem in found if problem.rule is SpecialisedValue and problem.provenance}
    # That a draw is written into something is no second error beside the draw.
    drawn = {problem.site for problem in found if problem.rule is EmbeddedDraw}
    # Nor that a result is lost where the `return` of it is forgotten.
    forgotten = {problem.site for problem in found if results.is_lost(problem)}
    return tuple(
        problem
        for problem in found
        if not (problem.rule is UnusedInput and problem.provenance[0].node in asked)
        and not (problem.rule is InPlaceChange and problem.site in drawn)
        and not (problem.rule is LostResult and problem.site in forgotten)
    )
