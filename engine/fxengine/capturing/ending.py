"""Ending a graph where data stop a capture: with one call of the model's own code, which does the rest of the run."""

from collections import Counter
from collections.abc import Callable, Iterable

from torch import nn

from fxengine.capturing.arguments import Parameters
from fxengine.capturing.drawing import draws
from fxengine.capturing.rest import Beginning, Rest
from fxengine.capturing.tracer import CaptureTracer, Finished, has_own_hooks
from fxengine.capturing.values import Values
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.source import ModuleSite, Origin

__all__ = ["close", "end_with_rest"]


def end_with_rest(
    tracer: CaptureTracer,
    model: nn.Module | Callable[..., object],
    parameters: Parameters,
    origin: Origin,
    *,
    from_beginning: bool,
    is_as_it_was: Callable[[], bool],
) -> Node:
    """Let the graph of a tracer end with a call of the model's own code, and return that.

    Args:
        tracer: That of the capture.
        model: What was captured.
        parameters: Its parameters, and what is given for each.
        origin: Where data decide.
        from_beginning: Whether nothing that the graph has computed may be taken for what the model would compute.
        is_as_it_was: Tells whether the model, and what lies around it, is as it was captured.
    """
    graph = tracer.graph
    tracer._site = ModuleSite("", type(model), None, ())
    finished, changing = list[Finished](), Counter[str]()
    if not from_beginning:
        finished = _Answers(tracer.recording.values, tracer.root, set(tracer.adopted)).among(tracer.finished)
        changing = _changing(tracer)
    if from_beginning or not _all_among(changing, finished):
        finished = []
        for node in reversed([node for node in graph.nodes if node.op != "placeholder"]):
            graph.erase_node(node)
    made = set(graph.nodes)
    results = [tracer.create_arg(each.result) for each in finished]
    inputs = {str(node.target).lstrip("*"): node for node in graph.nodes if node.op == "placeholder"}
    if made.difference(inputs.values()):
        tracer.recording.end()
    given = {name: inputs[name] for name in parameters.bound.arguments}
    path = tracer.get_fresh_qualname("_rest")
    tracer.root.add_module(path, Rest(model, [each.path for each in finished], is_as_it_was))
    rest = tracer.create_node("call_module", path, (given, results, *_beginning(tracer, changing, is_as_it_was)), {})
    for node in graph.nodes:
        if node not in made:
            node.origin = origin
    graph.output(rest)
    return rest


def close(graph: Graph) -> None:
    """Give a graph that was not finished an output: the last value."""
    nodes = list(graph.nodes)
    if not nodes or nodes[-1].op != "output":
        last = next((node for node in reversed(nodes) if node.op != "placeholder"), None)
        graph.output(last)


def _changing(tracer: CaptureTracer) -> Counter[str]:
    """How often the graph calls each module, by its path, that draws random numbers or changes its own buffers."""
    called = Counter(str(node.target) for node in tracer.graph.nodes if node.op == "call_module")
    for path in [*called]:
        module = tracer.root.get_submodule(path)
        if not draws(module) and not (module.training and next(module.buffers(), None) is not None):
            del called[path]
    return called


def _all_among(calls: Counter[str], finished: Iterable[Finished]) -> bool:
    """Whether so many calls of modules are among those that have finished, or within these: none is made twice."""
    pending, found = [*finished], Counter[str]()
    for each in pending:  # The list grows while it is walked.
        found[each.path] += 1
        pending += each.inner
    return calls <= found


def _beginning(tracer: CaptureTracer, changing: Iterable[str], is_as_it_was: Callable[[], bool]) -> tuple[Node, ...]:
    """A node before all others that tells what was before them, if there are calls that change something."""
    modules = [tracer.root.get_submodule(each) for each in changing]
    first = next((node for node in tracer.graph.nodes if node.op != "placeholder"), None)
    if not modules or first is None:
        return ()
    path = tracer.get_fresh_qualname("_beginning")
    tracer.root.add_module(path, Beginning(modules, is_as_it_was))
    with tracer.graph.inserting_before(first):
        return (tracer.create_node("call_module", path, (), {}),)


class _Answers:
    """Finds the calls that are done by giving the model's own code their results. Mutable."""

    def __init__(self, values: Values, root: nn.Module, others: set[str]) -> None:
        """No call is such a one of the modules in `root` at the paths of `others`, and of those that are added."""
        self._values = values
        self._root = root
        self._others = others

    def among(self, calls: Iterable[Finished]) -> list[Finished]:
        """The calls of which nothing has changed since what they returned, and that have changed nothing, in order."""
        values, found = self._values, list[Finished]()
        for each in calls:
            is_whole = _is_answered_as_a_whole(self._root.get_submodule(each.path))
            if not is_whole or not values.is_unchanged(each.given, each.began, each.ended):
                found += self.among(each.inner)
                self._others.add(each.path)
            elif each.path not in self._others and values.is_unchanged(each.result, each.ended):
                found.append(each)
            else:
                self._others.add(each.path)
        return found


def _is_answered_as_a_whole(module: nn.Module) -> bool:
    """Whether nothing is done around the forward of a module that would be done twice."""
    if module._forward_hooks or has_own_hooks(module):
        return False
    return not (module.training and module._forward_pre_hooks and module._buffers)
