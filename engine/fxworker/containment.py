"""What contains what: the order in which classes are traced, and the classes that were traced as parts of a model."""

from collections.abc import Mapping

from torch import nn

from fxengine.exploration import Diagnosis
from fxworker.building import EXPLICIT
from fxworker.wire import TraceTarget


def outermost_first(targets: tuple[TraceTarget, ...], mentions: Mapping[str, frozenset[str]]) -> list[TraceTarget]:
    """Return the targets so that a class comes before those that its definition mentions."""
    asked = [each for each in targets if any(way.source in EXPLICIT for way in each.constructs)]
    order: list[TraceTarget] = []
    names = {each.qualname: each for each in targets}
    done = set[str]()

    def visit(target: TraceTarget) -> None:
        # Depth first, each after what it mentions; the reverse of that has containers first.
        done.add(target.qualname)
        for name in sorted(mentions.get(target.qualname) or mentions.get(target.qualname.partition(".")[0], ())):
            inner = names.get(name)
            if inner is not None and name not in done:
                visit(inner)
        order.append(target)

    for target in targets:
        if target.qualname not in done:
            visit(target)
    order.reverse()
    return [*asked, *(each for each in order if each not in asked)]


def parts_of(root: nn.Module, diagnosis: Diagnosis) -> dict[type, str]:
    """Return the classes whose instances were traced as a part of a model, each with the path of the first."""
    reached = set(diagnosis.completed)  # What only calls its own parts has no node of its own.
    if not diagnosis.complete:
        origins = (node.origin for node in diagnosis.graph.nodes)
        reached.update(origin.module_path for origin in origins if origin is not None)
        reached.update(path for problem in diagnosis.problems for path in problem.instances)
    parts: dict[type, str] = {}
    for path, module in root.named_modules():
        if path and (diagnosis.complete or path in reached):
            parts.setdefault(type(module), path)
    return parts
