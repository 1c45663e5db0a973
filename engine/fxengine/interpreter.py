"""Runs a graph node by node; every step is a method that a subclass may override.

An ``Interpreter`` is the basis of everything that executes a graph and looks at it while it runs: shape
propagation, profiling, ``Transformer``. It holds the values of a run in ``env`` and frees each after its last use.
It does not optimise, reorder or check the graph; ``verify`` does the latter. A ``Transformer`` is an interpreter that
runs on proxies and so builds a new graph in place of values: the shortest way to write a pass that replaces operations
one by one. It does not look inside submodules (each is a leaf) and does not copy parameters: the new module shares
them with the old one.

What can be known before the run is worked out once for each node and kept: where its argument's nodes stand. A plan
is used only as long as the node still has the very argument objects it was made from, so a graph may be edited
between runs and during them.
"""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, cast

import torch
from torch._logging._internal import trace_structured
from torch.hub import tqdm  # pyright: ignore[reportPrivateImportUsage] - tqdm, or what stands in for it.

from fxengine import config
from fxengine._lazy_graph_module import _make_graph_module
from fxengine.codegen.lifetimes import last_uses
from fxengine.graph import Graph, own_graph
from fxengine.graph_module import GraphModule
from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.module_state import attribute
from fxengine.node import Argument, Node, Target, map_aggregate, map_arg
from fxengine.proxy import Proxy
from fxengine.traceback import has_preserved_node_meta, preserve_node_meta, set_current_meta
from fxengine.tracer import Tracer

__all__ = ["Interpreter", "Transformer"]

_TELLS_THE_PASS = "pass_name" in inspect.signature(set_current_meta).parameters
"""Whether this torch notes what replays a node."""

_MORE = (
    "\nUse tlparse to see full graph. "
    "(https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured-pt2-logs)"
)
"""Where torch's structured log is explained."""

_Env: TypeAlias = dict[Node, Any]
_Loader: TypeAlias = Callable[[Mapping[Node, Any]], Any]
_CallLoader: TypeAlias = Callable[[Mapping[Node, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
_ArgumentPlan: TypeAlias = tuple[Any, Any, _CallLoader]


class _OnModule:
    """What works on the state of a module."""

    module: torch.nn.Module

    @cached_property
    def submodules(self) -> dict[str, torch.nn.Module]:
        """The modules of ``module`` by qualified name, as they were when first asked for."""
        return dict(self.module.named_modules())


class Interpreter(_OnModule):
    """Executes a graph and returns what its output node returns.

    The methods that a subclass may override, as they call each other::

        run()
            └── run_node()
                ├── fetch_args_kwargs_from_env() ── map_nodes_to_values()
                └── placeholder() | get_attr() | call_function() | call_method() | call_module() | output()

    Example:
        Exchange ``torch.neg`` and ``torch.sigmoid``::

            class Swap(Interpreter):
                def call_function(self, target, args, kwargs):
                    swapped = {torch.neg: torch.sigmoid, torch.sigmoid: torch.neg}
                    return super().call_function(swapped.get(target, target), args, kwargs)


            Swap(symbolic_trace(lambda x: torch.sigmoid(torch.neg(x)))).run(torch.randn(3, 4))

    Attributes:
        module: The module whose attributes and submodules the graph refers to.
        graph: The graph that is executed.
        env: The value of each node of the present run that may still be used.
        user_to_last_uses: For each node the nodes that no later one needs; what a run frees.
        extra_traceback: Whether an exception's message is extended by the node that raised it and its source.
    """

    _maps_nodes_itself: ClassVar[bool] = False
    """Whether a subclass has its own ``map_nodes_to_values``, which must then see all arguments."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._maps_nodes_itself = cls.map_nodes_to_values is not Interpreter.map_nodes_to_values

    def __init__(
        self,
        module: torch.nn.Module,
        garbage_collect_values: bool = True,
        graph: Graph | None = None,
    ) -> None:
        """Prepare to run ``graph``, or ``module.graph``, with the state of ``module``.

        Args:
            module: Where ``get_attr`` and ``call_module`` nodes find what they name.
            garbage_collect_values: Free each value after its last use. Pass False to examine ``env`` after the run.
            graph: Executed in place of ``module.graph``.
        """
        self.module = module
        self.graph: Graph = own_graph(graph if graph is not None else module.graph)
        self.env: _Env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self._plans: dict[Node, _ArgumentPlan] = {}
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            nodes = tuple(self.graph.nodes)
            uses = zip(nodes, last_uses(nodes), strict=True)
            self.user_to_last_uses = {node: list(dead) for node, dead in uses if dead}

    def run(
        self,
        *args: Any,
        initial_env: _Env | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Execute the graph and return its result.

        Args:
            *args: The values of the placeholders, in their order.
            initial_env: Values that are known already. Their nodes are not run: a way to evaluate a part of the graph.
            enable_io_processing: Pass arguments and result through the graph's ``process_inputs`` and
                ``process_outputs``.

        Raises:
            RuntimeError: A placeholder without default got no value, or a node refers to something that does not exist.
            Exception: Whatever a node raises, its message extended by the node (see ``extra_traceback``).
        """
        self.env = initial_env if initial_env is not None else {}
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        dying = self.user_to_last_uses if self.garbage_collect_values else {}
        for node in self.graph.nodes if config.disable_progress else self._nodes_with_progress():
            if node in self.env:
                continue
            try:
                value = self.run_node(node)
            except Exception as error:  # The user's operators raise whatever they like; it goes on to the caller.
                if self.extra_traceback:
                    _raise_with_context(error, node, self.module)
                raise
            self.env[node] = value
            if node in dying:
                for dead in dying[node]:
                    del self.env[dead]
            if node._op == "output":
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def _nodes_with_progress(self) -> Iterator[Node]:
        """The nodes of the graph, with a progress bar that moves as they are taken."""
        nodes = self.graph.nodes
        names = str(list(nodes)) if config.verbose_progress else ""
        bar: Any = tqdm(total=len(nodes), desc=f"{self.name}: {names}", position=0, leave=True, delay=0)
        for node in nodes:
            bar.update(1)
            yield node

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Execute the graph on the values in ``args_list``, which is emptied, and return its result.

        A value can thus be freed after its last use, which a caller's own list would prevent.

        Raises:
            RuntimeError: The number of arguments is not that of the placeholders.
        """
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(placeholders):
            detail = "extra arguments" if len(args_list) > len(placeholders) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders "
                f"but received {len(args_list)} ({detail})"
            )
        env = dict(zip(placeholders, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Any:
        """Execute one node on the values in ``env``, by the method that ``n.op`` names, and return its result."""
        if not has_preserved_node_meta():
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n._op)(n._target, args, kwargs)
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    @contextmanager
    def _set_current_node(self, node: Node) -> Generator[None]:
        """Let the nodes that are traced within the ``with`` statement inherit the ``meta`` of ``node``."""
        origin = (f"Interpreter_{type(self).__name__}",) if _TELLS_THE_PASS else ()
        with set_current_meta(node, *origin):
            yield

    def placeholder(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument of the run, all that are left for ``*args``, or the parameter's default.

        Raises:
            RuntimeError: There is neither an argument nor a default.
        """
        assert isinstance(target, str)
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as stop:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from stop

    def get_attr(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the attribute of ``module`` that ``target`` names."""
        assert isinstance(target, str)
        return self.fetch_attr(target)

    def call_function(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the function ``target`` returns."""
        assert not isinstance(target, str)
        return target(*args, **kwargs)

    def call_method(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the method ``target`` of the first argument returns."""
        assert isinstance(target, str)
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the submodule that ``target`` names returns."""
        assert isinstance(target, str)
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value that the graph returns."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute of ``module`` with the dotted name ``target``.

        Raises:
            RuntimeError: There is none.
        """
        value: Any = self.module
        *path, name = target.split(".")
        try:
            for atom in path:  # Nearly always from module to module.
                value = value._modules[atom]
            return attribute(value, name)
        except (AttributeError, KeyError):
            return self._fetch_part_by_part(target)

    def _fetch_part_by_part(self, target: str) -> Any:
        value: Any = self.module
        atoms = target.split(".")
        for depth, atom in enumerate(atoms, start=1):
            try:
                value = attribute(value, atom)
            except AttributeError:
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(atoms[:depth])}") from None
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``n``'s arguments with the values of the nodes in them."""
        args, kwargs = n._args, n._kwargs
        if self._maps_nodes_itself:
            return (
                cast("tuple[Any, ...]", self.map_nodes_to_values(args, n)),
                cast("dict[str, Any]", self.map_nodes_to_values(kwargs, n)),
            )
        plan = self._plans.get(n)
        if plan is None or plan[0] is not args or plan[1] is not kwargs:
            plan = self._plans[n] = (args, kwargs, _call_loader(args, kwargs))
        try:
            return plan[2](self.env)
        except KeyError:
            self.map_nodes_to_values((args, kwargs), n)  # Says which value is missing.
            raise

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return ``args`` with each node in it, however deep, replaced by its value; ``n`` is named in errors.

        Raises:
            RuntimeError: A node has no value (yet).
        """

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


class _TransformerTracer(Tracer):
    """Records calls of modules as they are, whatever they are."""

    def __init__(self, graph: Graph, root: torch.nn.Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root
        self.tensor_attrs = {}

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Produces a new ``GraphModule`` by running the old one on proxies.

    Example:
        Exchange ``torch.neg`` and ``torch.sigmoid``::

            class Swap(Transformer):
                def call_function(self, target, args, kwargs):
                    swapped = {torch.neg: torch.sigmoid, torch.sigmoid: torch.neg}
                    return super().call_function(swapped.get(target, target), args, kwargs)


            swapped = Swap(symbolic_trace(lambda x: torch.sigmoid(torch.neg(x)))).transform()

    Attributes:
        new_graph: The graph that is being built.
        tracer: The tracer behind the proxies.
    """

    def __init__(self, module: GraphModule) -> None:
        """Prepare to make a new module out of ``module``."""
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)

    @contextmanager
    def _set_current_node(self, node: Node) -> Generator[None]:
        """Let the nodes that are created within the ``with`` statement inherit where ``node`` comes from."""
        before = self.new_graph._root.prev
        with super()._set_current_node(node):
            yield
        created = self.new_graph._root.prev
        while created is not before and created.op != "root":
            created._mark = node._mark
            created = created.prev

    def placeholder(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Return a proxy for a new placeholder."""
        assert isinstance(target, str)
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Return a proxy for a new ``get_attr`` node."""
        assert isinstance(target, str)
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the tracer makes of the call: a proxy for a ``call_module`` node where the module is a leaf."""
        assert isinstance(target, str)
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: "Target", args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return a proxy for a new ``call_function`` node, so that wrapped functions stay wrapped."""
        assert not isinstance(target, str)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new module; the old one is left as it was."""
        with preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            output = self.new_graph.output(map_aggregate(result, _strip_proxy))
            old_output = next(iter(reversed(self.graph.nodes)))
            assert old_output.op == "output"
            output.meta.update(old_output.meta)
        return _make_graph_module(self.module, self.new_graph)


def _raise_with_context(error: Exception, node: Node, module: torch.nn.Module) -> None:
    """Extend ``error``'s message by the node that raised it; raise it anew where its type would hide the message.

    The whole graph goes to torch's structured log, for whoever has asked for that.
    """
    context = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace or _source_of(node)}"
    message = f"{error.args[0]}\n\n{context}" if error.args else context
    if isinstance(module, GraphModule):
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": "fx_interpreter_error", "encoding": "string"},
            payload_fn=lambda: (
                f"{message}\nGraphModule: {module.print_readable(print_output=False, include_stride=True)}"
            ),
        )
    error.args = (message + _MORE, *error.args[1:])
    if isinstance(error, KeyError):  # Prints the repr of its message: one long line.
        raise RuntimeError(*error.args) from error  # noqa: TRY004 - no matter of types.


def _source_of(node: Node) -> str | None:
    """Return where ``node`` comes from as Python prints a stack, if a trace made it."""
    if node.origin is None:
        return None
    lines = [
        f'  File "{frame.path}", line {frame.line}, in {frame.function}\n    {frame.text}'
        for frame in node.origin.frames
    ]
    return "\n".join(lines)


def _call_loader(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _CallLoader:
    """Return a function from environment to the values of arguments; the most frequent kinds without a detour."""
    load_kwargs = _loader(kwargs)
    if load_kwargs is None:
        match args:
            case (Node() as only,):
                return lambda env: ((env[only],), kwargs)
            case (Node() as first, Node() as second):
                return lambda env: ((env[first], env[second]), kwargs)
            case (Node() as first, second) if _loader(second) is None:
                return lambda env: ((env[first], second), kwargs)
            case _:
                load_args = _loader(args)
                return (lambda _: (args, kwargs)) if load_args is None else (lambda env: (load_args(env), kwargs))
    load_args = _loader(args) or (lambda _: args)
    return lambda env: (load_args(env), load_kwargs(env))


def _loader(argument: Any) -> _Loader | None:
    """Return a function from environment to the value of ``argument``, or None if there is no node in it."""
    match argument:
        case Node():
            return lambda env: env[argument]
        case tuple():
            load = _sequence_loader(argument)
            if load is None:
                return None
            make: Any = type(argument)
            if make is tuple:
                return lambda env: tuple(load(env))
            return lambda env: make(*load(env))  # A named tuple: takes its fields one by one.
        case list():
            load = _sequence_loader(argument)
            return None if load is None else lambda env: immutable_list(load(env))
        case dict():
            load = _sequence_loader(list(argument.values()))
            keys = tuple(argument)
            return None if load is None else lambda env: immutable_dict(zip(keys, load(env), strict=True))
        case slice():
            load = _sequence_loader((argument.start, argument.stop, argument.step))
            return None if load is None else lambda env: slice(*load(env))
        case _:
            return None


def _sequence_loader(items: Sequence[Any]) -> Callable[[Mapping[Node, Any]], list[Any]] | None:
    """Return the loader of several values, or None if there is no node in them."""
    if items and all(isinstance(item, Node) for item in items):
        return lambda env: [env[item] for item in items]
    nodes = [(place, item) for place, item in enumerate(items) if isinstance(item, Node)]
    nested = [
        (place, load)
        for place, item in enumerate(items)
        if not isinstance(item, Node) and (load := _loader(item)) is not None
    ]
    if not nodes and not nested:
        return None

    def load_some(env: Mapping[Node, Any]) -> list[Any]:
        values = list(items)
        for place, node in nodes:
            values[place] = env[node]
        for place, load in nested:
            values[place] = load(env)
        return values

    return load_some


def _strip_proxy(value: Any) -> Any:
    return value.node if isinstance(value, Proxy) else value
