"""What every finder of silent errors works with: the observation, the code that ran, how a place becomes a problem."""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from fxengine.advice import on_one_line
from fxengine.diagnosis import Observation, TracingProblem
from fxengine.errors import Rule, Severity
from fxengine.node import Node
from fxengine.provenance import Step
from fxengine.silent.ran import Ran
from fxengine.source import Origin, SourceFrame

CONSTANT: Final = re.compile(r"_tensor_constant\d+")
"""What a tracer calls the tensors that it puts into the root."""
_MILDER: Final[dict[Severity, Severity]] = {"error": "warning", "warning": "information"}


@dataclass(frozen=True)
class Scene:
    """The first run of a diagnosis, seen from behind."""

    observation: Observation

    @cached_property
    def ran(self) -> Ran:
        """The user's code that ran."""
        return Ran(self.observation)

    @cached_property
    def told(self) -> frozenset[SourceFrame]:
        """The places that a tracing problem is reported at."""
        return frozenset(problem.site for problem in self.observation.problems if problem.site is not None)

    @cached_property
    def input_name(self) -> str:
        """The name of the model's first input, for what is said about inputs at large."""
        found = next((str(node.target) for node in self.ran.nodes["placeholder"]), "x")
        return found.lstrip("*")

    def is_users(self, cls: type) -> bool:
        """Whether a class is in a file that the user is working on."""
        paths = self.observation.user_paths
        return paths is None or getattr(sys.modules.get(cls.__module__), "__file__", None) in paths

    def is_made_by_trace(self, target: str) -> bool:
        """Whether an attribute of the root is a constant that the trace has put there."""
        return CONSTANT.fullmatch(target) is not None

    def keep_out(self, origin: Origin) -> tuple[str, ...]:
        """The remedy that always works."""
        if origin.module_type is None or origin.module_path == "":
            return ("move the lines into a top-level function and mark it with `@torch.fx.wrap`",)
        return (f"treat `{origin.module_type.__name__}` as a leaf module",)

    def way_to(self, node: Node, origin: Origin) -> tuple[Step, ...]:
        """The step from a node to the place that a problem is at."""
        first = node.origin.frames[-1] if node.origin is not None and node.origin.frames else None
        site = origin.frames[-1]
        return (Step(node, first, str(node.target)), Step(None, site, shown(site)))

    def problem(
        self,
        rule: type[Rule],
        origin: Origin,
        headline: str,
        hints: Sequence[str],
        *,
        provenance: Iterable[Step] = (),
        severity: Severity | None = None,
        value: str = "",
    ) -> TracingProblem:
        """A silent error at the innermost frame of an origin."""
        site = origin.frames[-1]
        anchor = self._anchor(origin)
        severity = severity or rule.severity
        if anchor is None or anchor != site:
            # Nobody can mend a library from here.
            severity = _MILDER.get(severity, severity)
        return TracingProblem(
            rule=rule,
            message="",
            headline=headline,
            exception=None,
            frames=origin.frames,
            site=site,
            anchor=anchor,
            kind="",
            provenance=tuple(provenance),
            hints=tuple(hints),
            module_path=origin.module_path,
            module_type=origin.module_type,
            instances=(origin.module_path,),
            value=value,
            severity=severity,
        )

    def _anchor(self, origin: Origin) -> SourceFrame | None:
        paths = self.observation.user_paths
        if paths is None:
            return origin.frames[-1]
        return next((frame for frame in reversed(origin.frames) if frame.path in paths), None)


def merged(problems: Iterable[TracingProblem]) -> tuple[TracingProblem, ...]:
    """The problems in order, those that say the same of the same place as one that names all modules."""
    found: dict[tuple[str, SourceFrame | None, str], TracingProblem] = {}
    for problem in problems:
        key = (problem.code, problem.site, problem.headline)
        first = found.get(key)
        if first is None:
            found[key] = problem
        elif problem.module_path not in first.instances:
            found[key] = replace(first, instances=(*first.instances, problem.module_path))
    return tuple(found.values())


def shown(frame: SourceFrame) -> str:
    """The expression at a place, on one line."""
    return on_one_line(frame.text)
