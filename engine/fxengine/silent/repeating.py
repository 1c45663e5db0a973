"""Trying out whether an answer matters: the model is walked through again with the opposite one, and graphs compared.

The first comparison is of all answers in question at once, so a model on which none matters is repeated once.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import torch
from torch import nn

from fxengine.diagnosis import EnoughSeen
from fxengine.effects import is_impure_function
from fxengine.graph import Graph
from fxengine.node import Node, map_arg
from fxengine.silent.mutation import changed_by, may_change
from fxengine.silent.observers import Place
from fxengine.silent.scene import Scene

DROPPING: Final = frozenset(
    {
        "alpha_dropout",
        "drop_block_2d",
        "drop_path",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "feature_alpha_dropout",
        "feature_dropout",
        "stochastic_depth",
    }
)
"""Functions that do nothing if their second argument, a probability, is 0."""
PROBABILITIES: Final = frozenset({"p", "drop_prob"})
"""What that argument is called."""

_A_FEW: Final = 3
_MOST_TOLD_APART: Final = 8
"""So many places of the user's own are told apart, by halves; of more of them all count."""

_PLAIN: Final = (bool, int, float, str, torch.dtype, torch.device)

_Read = TypeVar("_Read")


class Asked(Protocol[_Read]):
    """An observer that gives the opposite answer at some places, and notes what was asked.

    Attributes:
        reads: What was asked at each place, by the path of the module whose forward ran.
        watch: Called with the graph so far wherever something is asked.
    """

    reads: dict[Place, dict[str, _Read]]
    watch: Callable[[Graph], None] | None

    def __enter__(self) -> object: ...

    def __exit__(self, *_: object) -> None: ...


def decisive(
    scene: Scene, places: Collection[Place], observer: Callable[[Collection[Place]], Asked[_Read]]
) -> Iterator[tuple[Place, dict[str, _Read]]]:
    """The places at which the opposite answer gives another graph, with what was asked there.

    Args:
        scene: The first run.
        places: The places in question.
        observer: Makes what gives the opposite answers.
    """
    if not places:
        return
    root, graph = scene.observation.tracer.root, scene.observation.graph

    def differs(opposite_at: Collection[Place]) -> bool:
        watched, follower = observer(opposite_at), _Follower(graph)
        watched.watch = follower.follow
        again = scene.observation.replay(watched)
        # Where there was no time to see it, all of them count.
        return follower.has_seen_another or again is None or not _is_same(graph, again, root)

    asked = observer(places)
    again = scene.observation.replay(asked)
    if again is None or _is_same(graph, again, root):
        return
    found = [place for place in asked.reads if place in places]
    paths = scene.observation.user_paths
    own = [place for place in found if paths is None or place[0] in paths]
    if len(found) > 1 and len(own) <= _MOST_TOLD_APART:
        # Of a library's places, which nobody can mend from here, the first one stands for all.
        found = _deciding(own, differs, known=len(own) == len(found)) or found[:1]
    for place in found:
        yield place, asked.reads[place]


def _deciding(places: Sequence[Place], differs: Callable[[Collection[Place]], bool], *, known: bool) -> list[Place]:
    """The places that matter on their own; `known` if it is known that some of them do.

    Of a few each is tried, of more those halves in which there are any.
    """
    found: list[Place] = []
    if len(places) <= _A_FEW:
        for place in places:
            is_last = known and not found and place is places[-1]
            if is_last or differs((place,)):
                found.append(place)
        return found
    for half in (places[: len(places) // 2], places[len(places) // 2 :]):
        is_last = known and not found and half[-1] is places[-1]
        if is_last or differs(half):
            found += _deciding(half, differs, known=True)
    return found


class _Follower:
    """Goes along a graph while it is made again, and ends that where it is clear that it becomes another one.

    Attributes:
        has_seen_another: Whether a node that somebody uses is given other constants than in the first graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.has_seen_another = False
        self._expected: Iterator[Node] | None = iter(graph.nodes)
        self._last: Node | None = None

    def follow(self, graph: Graph) -> None:
        """Compare what has been added since the last time.

        Raises:
            EnoughSeen: The graph is another one.
        """
        nodes = graph.nodes if self._last is None else _after(self._last)
        for node in nodes:
            expected = next(self._expected, None) if self._expected is not None else None
            if expected is None or (expected.op, expected.name, expected.target) != (node.op, node.name, node.target):
                # From here on, names and places say nothing.
                self._expected = None
                return
            self._last = node
            if expected.users and not _is_alike(expected, node) and _essence_of(expected, {}) != _essence_of(node, {}):
                self.has_seen_another = True
                raise EnoughSeen


def _after(node: Node) -> Iterator[Node]:
    """The nodes that follow one in its graph."""
    while (node := node.next).op != "root":
        yield node


def is_probability(name: str | None) -> bool:
    """Whether an argument is the probability of a dropout that a function does beside other things."""
    return name is not None and "drop" in name


def _is_same(first: Graph, second: Graph, root: nn.Module) -> bool:
    """Whether two graphs of a model do the same."""
    if len(first.nodes) == len(second.nodes) and all(map(_is_alike, first.nodes, second.nodes)):
        return True
    return _essence(first, root) == _essence(second, root)


def _is_alike(first: Node, second: Node) -> bool:
    """Whether two nodes are the same to the letter."""
    return (
        first.name == second.name
        and first.target == second.target
        and _has_same_arguments(first.args, second.args)
        and _has_same_arguments(first.kwargs, second.kwargs)
    )


def _has_same_arguments(first: Any, second: Any) -> bool:
    if isinstance(first, Node):
        return isinstance(second, Node) and first.name == second.name
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(_has_same_arguments, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_has_same_arguments(first[key], second[key]) for key in first)
    if isinstance(first, slice):
        parts = ((first.start, second.start), (first.stop, second.stop), (first.step, second.step))
        return all(_has_same_arguments(one, other) for one, other in parts)
    return first is second or (isinstance(first, _PLAIN) and first == second)


def _essence(graph: Graph, root: nn.Module) -> tuple[str, ...]:
    """What a graph computes and changes, to be compared: neither names count, nor what nobody uses, nor the order."""
    known: dict[Node, str] = {}
    effects: list[str] = []
    for node in graph.nodes:
        known[node] = _essence_of(node, known)
        if node.op == "output" or (may_change(node) and changed_by(node, root) is not None) or _is_effect(node):
            effects.append(known[node])
    return tuple(effects)


def _is_effect(node: Node) -> bool:
    return node.op == "call_function" and callable(node.target) and is_impure_function(node.target, (), {})


def _essence_of(node: Node, known: Mapping[Node, str]) -> str:
    """The operation of a node and what its inputs are, in a few letters."""
    args: Any = node.args
    kwargs: Any = node.kwargs
    if node.op == "call_function":
        if getattr(node.target, "__name__", "") in DROPPING:
            given = [kwargs[name] for name in PROBABILITIES if name in kwargs] or [*args[1:2]]
            if given and given[0] == 0:
                # Nothing is dropped, in whichever mode.
                args, kwargs = args[:1], {}
        elif "training" in kwargs:
            dropped = [value for name, value in kwargs.items() if is_probability(name)]
            if dropped and not any(dropped):
                kwargs = {**kwargs, "training": None}
    # A model that an earlier trace has left symbolic values in brings along nodes of other graphs.
    inputs = map_arg((args, kwargs), lambda each: known.get(each, each.name))
    text = f"{node.op} {node.target} {inputs}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
