"""What symbolic values are for certain inputs, as far as shapes tell: found only for those that somebody asks about.

Nodes are evaluated without data, in the mode of `shapes_only`, each after what it depends on. What one run has found
holds for the next one where the same is computed in the same way. Values that depend on data are not to be had.
"""

import inspect
import operator
import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.example_inputs import Arguments, Inputs, arguments_of
from fxengine.exploration.changes import States, changed, is_change
from fxengine.exploration.deadlines import Deadline
from fxengine.exploration.memory import UNKNOWN, Memory
from fxengine.graph import Graph
from fxengine.node import Node, map_arg
from fxengine.proxy import Attribute, Proxy
from fxengine.running import running_tracer, unknown_to_torch
from fxengine.shapes_only import ShapesOnly, to_meta
from fxengine.tracer import Tracer

Source: TypeAlias = Inputs | Callable[[Graph], Arguments | None] | None
"""Inputs, or how they are found for a model whose graph has come so far, or nothing."""

_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
_CONTAINERS: Final = frozenset({torch.Size, tuple, list, dict, str})
_METADATA: Final = frozenset({"shape", "dtype", "ndim"})
"""What is asked without anybody's code running."""

_SETTINGS: Final = (bool, int, float, str, tuple)
"""The types of attributes that say what a layer of torch's does."""


class Values:
    """The values of the nodes of one model's graphs. Mutable: it remembers what it has found."""

    def __init__(
        self,
        function: Callable[..., Any] | None,
        root: nn.Module | None,
        source: Source,
        deadline: Deadline,
        memory: Memory,
    ) -> None:
        """Prepare to find values.

        Args:
            function: What is traced, for the names of its parameters; None where it has none.
            root: The module of which it is a method, if it is one.
            source: The inputs; what `function` cannot be called with is a TypeError.
            deadline: When to stop computing; what is not known then cannot be told.
            memory: What was found for the model before.
        """
        self._function = function
        self._module = root
        self._deadline = deadline
        self._source: Callable[[Graph], Arguments | None] | None = None
        if callable(source):
            self._source = source
        elif source is not None:
            arguments = arguments_of(source)
            if function is not None:
                self._bind(*arguments)
            self._source = lambda _: arguments
        self._inputs: dict[str, Any] | None = None
        self._memory = memory
        self._keys: dict[Node, int] = {}
        self._states = States()
        self._tracer: Tracer | None = None

    @property
    def is_cut(self) -> bool:
        """Whether a value is not known as there was no time to compute it."""
        return "_mode" in vars(self) and self._mode.is_over

    @cached_property
    def _mode(self) -> "_UntilDeadline":
        # It looks through the whole model, and most are never asked about.
        return _UntilDeadline(self._module, self._deadline)

    def start(self, tracer: Tracer) -> None:
        """Forget the nodes of the last graph; those of the next one are the tracer's, and refer to its root."""
        self._keys.clear()
        self._states = States()
        self._tracer = tracer

    def of(self, value: Proxy | Node | None) -> Any:
        """The value; tensors in it have no data. `UNKNOWN` if it cannot be told."""
        if self._source is None or value is None:
            return UNKNOWN
        if isinstance(value, Attribute) and value._node is None:
            owner = self.of(value.root)
            if type(owner) is Tensor and value.attr in _METADATA:
                return getattr(owner, value.attr)
            return UNKNOWN if owner is UNKNOWN else self._apart(lambda: getattr(owner, value.attr))
        node = value.node if isinstance(value, Proxy) else value
        if self._inputs is None:
            self._inputs = self._bound(node.graph)
        return UNKNOWN if self._inputs is None else self._of_node(self._states.of(node, None))

    def truth(self, value: Proxy | Node | None) -> bool | None:
        """The truth value; None if it cannot be told."""
        found = self.of(value)
        if found is UNKNOWN or (isinstance(found, Tensor) and found.is_meta) or self._is_of_absent(value):
            return None
        truth = bool(found) if type(found) in _PLAIN else self._apart(lambda: bool(found))
        return None if truth is UNKNOWN else truth

    def _is_of_absent(self, value: Proxy | Node | None) -> bool:
        """Whether a value is computed with an input that is left out: code comes to that only where it is given."""
        node = value.node if isinstance(value, Proxy) else value
        return node is not None and any(
            each.op == "placeholder" and self._value(each) is None for each in node.all_input_nodes
        )

    def length(self, value: Proxy | Node | None) -> int | None:
        """The length; None if it cannot be told."""
        found = self.of(value)
        if type(found) is Tensor and found.ndim:
            return found.shape[0]
        if type(found) in _CONTAINERS:
            return len(found)
        length = UNKNOWN if found is UNKNOWN else self._apart(lambda: len(found))
        return length if isinstance(length, int) else None

    def number(self, value: Proxy | Node | None) -> int | float | complex | None:
        """The number that the value is; None if it is none, or cannot be told."""
        found = self.of(value)
        if isinstance(found, Tensor) and not found.is_meta and found.numel() == 1:
            found = found.item()
        return found if isinstance(found, int | float | complex) else None

    def _of_node(self, node: Node) -> Any:
        if node not in self._keys:
            with ExitStack() as aside:
                self._find(node, aside)
        return self._value(node)

    def _find(self, node: Node, aside: ExitStack) -> None:
        """Find the value of a node, after those of the nodes that it uses, computing `aside` what nobody has found."""
        is_aside = False
        # Not by recursion: graphs are deeper than Python's stack.
        pending = [node]
        while pending:
            current = pending[-1]
            if current in self._keys:
                pending.pop()
                continue
            read = self._read_by(current)
            missing = [used for used in read if used not in self._keys]
            if missing:
                pending += missing
                continue
            pending.pop()
            arguments = _arguments_of(current, read)
            number = self._keys[current] = self._number(current, arguments)
            if number == len(self._memory.found):
                if not is_aside:
                    aside.enter_context(self._aside())
                    is_aside = True
                self._memory.find(partial(self._evaluated, current, read, arguments))
                if self._mode.has_overwritten:
                    self._memory.found_in_passing()

    def _read_by(self, node: Node) -> list[Node]:
        """The operations whose results a node uses: its inputs, or what has changed them last."""
        return [self._states.of(used, node) for used in node._inputs]

    def _value(self, node: Node) -> Any:
        return self._memory.found[self._keys[node]]

    def _number(self, node: Node, arguments: Any) -> int:
        """The number of what a node computes; the same in every run that computes the same."""
        own: Any = ()
        held: Any = None
        try:
            if node.op in {"get_attr", "call_module"}:
                # Constants of different runs may have the same name, and modules be replaced.
                held = _tried(lambda: self._attribute(str(node.target)))
                own = id(held), _settings(held) if node.op == "call_module" else ()
            elif node.op == "placeholder":
                own = node.target, _described(self._input(str(node.target)))
            else:
                own = node.target
            return self._memory.number(
                (node.op, own, *map(self._structure, arguments), torch.get_default_dtype()), held
            )
        except TypeError:  # An argument cannot be hashed: then the node is like no other.
            return self._memory.number(node)

    def _structure(self, argument: Any) -> Any:
        match argument:
            case Node():
                return Node, self._keys[argument]
            case tuple() | list():
                return type(argument), tuple([self._structure(item) for item in argument])
            case dict():
                return dict, tuple([(key, self._structure(item)) for key, item in argument.items()])
            case slice():
                return slice, self._structure((argument.start, argument.stop, argument.step))
            case _:
                # 1, 1.0 and True are equal, and not the same.
                return type(argument), argument

    def _evaluated(self, node: Node, read: list[Node], arguments: Any) -> Any:
        target: Any = node.target
        if node.op == "placeholder":
            return self._input(target)
        is_known = all(self._value(used) is not UNKNOWN for used in read)
        args, kwargs = map_arg(arguments, self._value)
        if is_change(node) and args[0] is not UNKNOWN:
            made = _tried(lambda: changed(node, args, kwargs)) if is_known else UNKNOWN
            # What it would have come to, nobody knows; a tensor has other data then.
            return _tried(lambda: pytree.tree_map_only(Tensor, to_meta, args[0])) if made is UNKNOWN else made
        if not is_known:
            return UNKNOWN
        match node.op:
            case "call_function":
                return _tried(lambda: target(*args, **kwargs))
            case "call_method":
                return _tried(lambda: getattr(args[0], target)(*args[1:], **kwargs))
            case "call_module":
                return _tried(lambda: self._attribute(target)(*args, **kwargs))
            case _:
                return _tried(lambda: self._attribute(target))

    def _input(self, name: str) -> Any:
        """The value of a placeholder; one of a parameter that was taken apart has a number after its name."""
        assert self._inputs is not None
        if name in self._inputs:
            return self._inputs[name]
        whole, _, number = name.rpartition("_")
        leaves = pytree.tree_leaves(self._inputs[whole]) if whole in self._inputs and number.isdecimal() else []
        return leaves[int(number) - 1] if 0 < int(number or 0) <= len(leaves) else UNKNOWN

    def _bound(self, graph: Graph) -> dict[str, Any] | None:
        """The inputs by the names of their placeholders; None if there are none, and then nothing is asked again."""
        with _untraced():
            # Whoever looks for inputs has a budget of their own.
            with self._deadline.paused():
                given = self._source(graph) if self._source is not None else None
            if given is None or self._function is None:
                self._source = None
                return None
            bound = self._bind(*pytree.tree_map_only(Tensor, to_meta, (tuple(given[0]), dict(given[1]))))
            bound.apply_defaults()
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        kinds = {name: stars.get(parameter.kind, "") for name, parameter in bound.signature.parameters.items()}
        return {f"{kinds[name]}{name}": value for name, value in bound.arguments.items()}

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments by the names of the parameters; raises TypeError where they are none of the function's."""
        assert self._function is not None
        own = [None] if self._module is not None else []
        return inspect.signature(inspect.unwrap(self._function)).bind_partial(*own, *args, **kwargs)

    def _attribute(self, path: str) -> Any:
        """What is at a path of the root."""
        value: Any = self._tracer.root if self._tracer is not None else None
        # While a trace runs, modules give symbolic values for their parameters.
        token = running_tracer.set(None)
        try:
            for name in path.split("."):
                value = getattr(value, name)
        finally:
            running_tracer.reset(token)
        return value

    @contextmanager
    def _aside(self) -> Generator[None]:
        """Let code run for its shapes, as if nothing were traced."""
        with _untraced(), torch.no_grad(), self._mode:
            yield

    def _apart(self, compute: Callable[[], Any]) -> Any:
        """What a computation gives without data; `UNKNOWN` if it fails, or takes too long."""
        with self._aside():
            return _tried(compute)


def _tried(compute: Callable[[], Any]) -> Any:
    """What a computation gives; `UNKNOWN` if it fails, or takes too long."""
    try:
        return compute()
    except (Exception, _TookTooLongError):  # noqa: BLE001 - the user's operators raise whatever they like.
        return UNKNOWN


def _described(value: Any) -> Any:
    """What tells an input from others, as far as values depend on it."""
    match value:
        case Tensor():
            return Tensor, value.shape, value.dtype, value.layout, value.requires_grad
        case tuple() | list():
            return type(value), tuple([_described(item) for item in value])
        case dict():
            return dict, tuple([(key, _described(item)) for key, item in value.items()])
        case None | bool() | int() | float() | complex() | str():
            return type(value), value
        case _:
            raise TypeError


def _settings(module: Any) -> Any:
    """What a layer is set to, which user code may change."""
    return tuple([(name, value) for name, value in vars(module).items() if isinstance(value, _SETTINGS)])


def _arguments_of(node: Node, read: list[Node]) -> Any:
    """The arguments and keyword arguments of a node, with the states of its inputs that it sees."""
    arguments = node.args, node.kwargs
    if all(map(operator.is_, read, node._inputs)):
        return arguments
    return map_arg(arguments, dict(zip(node._inputs, read, strict=True)).__getitem__)


class _TookTooLongError(BaseException):
    """Ends a computation. No `Exception`: the user's code must not take it for its own."""


class _UntilDeadline(ShapesOnly):
    """Runs code for its shapes as long as there is time.

    Attributes:
        is_over: Whether something was not computed for want of time.
    """

    def __init__(self, module: nn.Module | None, deadline: Deadline) -> None:
        super().__init__(module)
        self.is_over = False
        self._deadline = deadline

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch's.

        Raises:
            _TookTooLongError: The time is over.
        """
        if self._deadline.is_over():
            self.is_over = True
            raise _TookTooLongError
        return super().__torch_function__(func, types, args, kwargs)


@contextmanager
def _untraced() -> Generator[None]:
    """Let code run as if nothing were traced, and use up no random numbers of those that the trace will use."""
    token = running_tracer.set(None)
    state = torch.get_rng_state(), random.getstate()
    try:
        with unknown_to_torch():
            yield
    finally:
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        running_tracer.reset(token)
