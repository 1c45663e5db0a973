"""Ending a graph where data stop a capture: with one call of the model's own code, which does the rest of the run."""

from collections.abc import Callable, Iterable

from torch import nn

from fxengine.capturing.arguments import Parameters
from fxengine.capturing.drawing import draws
from fxengine.capturing.rest import Beginning, Rest
from fxengine.capturing.tracer import CaptureTracer, Finished
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
    finished = _still_true(tracer.recording.values, tracer.finished, set(tracer.adopted))
    if from_beginning:
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
    rest = tracer.create_node("call_module", path, (given, results, *_beginning(tracer, is_as_it_was)), {})
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


def _beginning(tracer: CaptureTracer, is_as_it_was: Callable[[], bool]) -> tuple[Node, ...]:
    """A node before all others that tells what was before them, if calls of modules draw or change buffers."""
    calls = [node for node in tracer.graph.nodes if node.op == "call_module"]
    called = dict.fromkeys(tracer.root.get_submodule(str(node.target)) for node in calls)
    changing = [each for each in called if draws(each) or (each.training and next(each.buffers(), None) is not None)]
    if not changing:
        return ()
    first = next(node for node in tracer.graph.nodes if node.op != "placeholder")
    path = tracer.get_fresh_qualname("_beginning")
    tracer.root.add_module(path, Beginning(changing, is_as_it_was))
    with tracer.graph.inserting_before(first):
        return (tracer.create_node("call_module", path, (), {}),)


def _still_true(values: Values, calls: Iterable[Finished], others: set[str]) -> list[Finished]:
    """The calls that are done by giving the model's own code their results, in order.

    What such a call returned nothing has changed since, and it has changed nothing that it was given. Of `others`,
    modules by their paths, no call is; those of which one is not are added.
    """
    found: list[Finished] = []
    for each in calls:
        if not values.is_unchanged(each.given, each.began, each.ended):
            found += _still_true(values, each.inner, others)
            others.add(each.path)
        elif each.path not in others and values.is_unchanged(each.result, each.ended):
            found.append(each)
        else:
            others.add(each.path)
    return found
