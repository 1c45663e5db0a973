"""Whether a diagnosis reports the sites at which torch.fx raises, each of them and nothing else."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.parity.oracle.search import Budget, Inputs, Sites, confirm, sites
from tests.parity.oracle.steps import Site

if TYPE_CHECKING:
    import fxengine


@dataclass(slots=True)
class Comparison:
    """Where a diagnosis and torch.fx disagree.

    Attributes:
        false_problems: What is reported where torch.fx does not raise.
        missing: Where torch.fx raises and nothing is reported.
        unconfirmed: Where torch.fx, left alone at a site, did not raise what the search said.
        undecided: Disagreements in a part of the model that one of the two did not come to: for want of time, or
            because torch.fx's side had no answer with which to go on.
        agreed: The number of sites that both have.
        found: What torch.fx's side found.
        cut: Why the diagnosis did not explore everything; empty if it did.
        seconds: How long the diagnosis took.
    """

    false_problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unconfirmed: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    agreed: int = 0
    found: Sites = field(default_factory=Sites)
    cut: str = ""
    seconds: float = 0.0

    def __bool__(self) -> bool:
        """Whether they disagree."""
        return bool(self.false_problems or self.missing or self.unconfirmed)

    def __str__(self) -> str:
        parts = ("false_problems", "missing", "unconfirmed", "undecided")
        lines = [f"{name.replace('_', ' ')}: {each}" for name in parts for each in getattr(self, name)]
        return "\n".join([*lines, f"agreed: {self.agreed}"])


def compare(
    root: Any,
    diagnosis: "Callable[[], fxengine.Diagnosis]",
    inputs: Inputs = None,
    concrete_args: Any = None,
    budget: Budget | None = None,
    confirmations: int | None = None,
) -> Comparison:
    """Hold a diagnosis of a model against torch.fx.

    Args:
        root: The model.
        diagnosis: Says what the engine makes of it; called when torch.fx is done, as it may leave constants behind.
        inputs: The inputs that it was diagnosed with.
        concrete_args: The values of parameters that it was diagnosed with.
        budget: How much to do.
        confirmations: At how many sites torch.fx is made to raise; all of them if None.
    """
    found = sites(root, inputs, concrete_args, budget)
    result = Comparison(found=found)
    for site in found.sites[:confirmations]:
        raised = confirm(root, found.evidence[site.key], inputs, concrete_args)
        if raised is None or not _is_part(site, raised):
            result.unconfirmed.append(f"{site}, but: {raised}")
    begun = time.monotonic()
    said = diagnosis()
    result.seconds, result.cut = time.monotonic() - begun, said.cut
    problems = list(said.problems)
    pairs = matched(found.sites, problems)
    result.agreed = len(pairs)
    missing = [str(site) for index, site in enumerate(found.sites) if index not in pairs]
    unexplored = bool(found.cut or found.dead_ends)
    for problem in problems:
        if not any(_fits(site, problem) for site in _allowed(found)):
            is_known = any(_fits(site, problem) for site in found.dismissed)
            (result.undecided if unexplored and not is_known else result.false_problems).append(_described(problem))
    (result.undecided if said.cut else result.missing).extend(missing)
    return result


def as_call(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Inputs in the form in which `diagnose` takes them."""
    if inputs is None:
        return None
    return (inputs, {}) if isinstance(inputs, tuple) else ((), dict(inputs))


def matched(found: Sequence[Site], problems: Sequence[Any]) -> dict[int, int]:
    """The most sites that can have a problem each, by their indices; a problem serves one site only."""
    taken: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for other, problem in enumerate(problems):
            if other not in tried and _fits(found[index], problem):
                tried.add(other)
                if other not in taken or place(taken[other], tried):
                    taken[other] = index
                    return True
        return False

    for index in range(len(found)):
        place(index, set())
    return {site: problem for problem, site in taken.items()}


def _is_part(site: Site, raised: Site) -> bool:
    """Whether an exception that was raised is the one that a site is about; its position may be the whole statement."""
    if site.place is None or raised.place is None:
        return site.key == raised.key
    return site.exception == raised.exception and site.place.within(raised.place) == site.place


def _allowed(found: Sites) -> Iterable[Site]:
    return [*found.sites, *found.possible]


def _fits(site: Site, problem: Any) -> bool:
    """Whether a problem is reported at a site, for the same exception."""
    if problem.exception is None or type(problem.exception).__name__ != site.exception:
        return False
    if site.place is None or problem.site is None:
        return site.place is None and problem.site is None
    return site.place.path == problem.site.path and site.place.contains(*problem.site.span)


def _described(problem: Any) -> str:
    place = "nowhere" if problem.site is None else f"{problem.site.path}:{':'.join(map(str, problem.site.span))}"
    return f"{problem.code} {place}: {type(problem.exception).__name__}: {' '.join(problem.message.split())[:90]}"
