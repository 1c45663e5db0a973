"""Saves graph modules node by node, with what pickle alone does not know: fake tensors, symbolic sizes, operators.

A graph module by itself is pickled as its code, and traced again when it is loaded. Caches of compilers want more: the
nodes with their ``meta``, and fake tensors that belong, when they are loaded, to the mode of whoever loads them. So
``dumps`` describes, and ``loads`` makes anew. Modules of torch.fx, as dynamo hands them to a backend, are saved as
modules of this engine and come back as torch.fx's.
"""

import builtins
import dataclasses
import functools
import importlib
import io
import itertools
import math
import operator
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, cast

import torch
from torch._guards import TracingContext
from torch._library.fake_class_registry import FakeScriptObject
from torch._ops import OperatorBase, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.meta_utils import MetaConverter, MetaTensorDescriber
from torch.utils._mode_utils import no_dispatch

from fxengine._lazy_graph_module import _LazyGraphModule
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.interop import from_torch_fx, to_torch_fx
from fxengine.node import Node, map_aggregate, map_arg
from fxengine.node_text import pretty_target

__all__ = ["GraphPickler", "Options"]

_ROOTS: Final[dict[str, Any]] = {"builtins": builtins, "math": math, "operator": operator, "torch": torch}
"""Where functions are found by name; einops is a root too, where it is installed."""

_NOT_SAVED: Final = ("tracked_fakes", "fake_tensor_cache")
"""What a set of symbolic sizes knows of the mode that it belongs to."""

_CONTEXT_FIELDS: Final = (
    "module_context",
    "frame_summary_stack",
    "loc_in_frame",
    "aot_graph_name",
    "params_flat",
    "params_flat_unwrap_subclasses",
    "params_unwrapped_to_flat_index",
    "output_strides",
    "force_unspec_int_unbacked_size_like",
)
"""What is saved of a compilation's context."""


def _ops_filter_safe(name: str) -> bool:
    """Return whether every torch has the operator of this name."""
    return name.startswith(("torch.ops.aten", "torch.ops.fbgemm"))


def _node_metadata_key_filter_safe(key: str) -> bool:
    """Return whether an entry of ``meta`` can be saved; stacks of modules and sources refer to anything."""
    return key not in {"source_fn_stack", "nn_module_stack", "fwd_source_fn_stack"}


@dataclasses.dataclass
class Options:
    """What may be saved.

    Attributes:
        ops_filter: Says of an operator's name whether that may be saved; None for all.
        node_metadata_key_filter: Says of an entry of ``meta`` whether it is saved; None for all.
        ignore_raw_node: Save a node that belongs to no module that is saved as None instead of refusing it.
    """

    ops_filter: Callable[[str], bool] | None = _ops_filter_safe
    node_metadata_key_filter: Callable[[str], bool] | None = _node_metadata_key_filter_safe
    ignore_raw_node: bool = False


class _Loading:
    """What is known while something is loaded: the mode of its fake tensors, and which are the same."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode
        self.converter: Any = MetaConverter()


class _Place(int):
    """The place of a node in its graph, where the node itself stands in an argument."""

    __slots__ = ()


class GraphPickler(pickle.Pickler):
    """Saves what contains graph modules.

    Example:
        ``GraphPickler.loads(GraphPickler.dumps(module), FakeTensorMode(shape_env=ShapeEnv()))``
    """

    _PASSTHROUGH_TYPES: ClassVar[frozenset[type[Any]]] = frozenset({int, float, str, bytes, bool, type(None)})

    def __init__(self, file: io.BytesIO, options: Options | None = None) -> None:
        super().__init__(file)
        self.options = options or Options()
        self._loading = object()  # Stands for what is known when it is loaded.
        self._describer = MetaTensorDescriber(copy_data=False)

    @classmethod
    def dumps(cls, obj: object, options: Options | None = None) -> bytes:
        """Return ``obj`` as bytes.

        Raises:
            AssertionError: There is a node that belongs to no module.
            NotImplementedError: A function cannot be found by its name.
            Exception: Whatever pickle raises, or the compiler for an operator that may not be saved.
        """
        with io.BytesIO() as stream:
            cls(stream, options).dump(obj)
            return stream.getvalue()

    @staticmethod
    def loads(data: bytes, fake_mode: FakeTensorMode) -> object:
        """Return what was saved as ``data``; its fake tensors and symbolic sizes become those of ``fake_mode``."""
        with io.BytesIO(data) as stream:
            return _Unpickler(stream, _Loading(fake_mode)).load()

    @classmethod
    def debug_dumps(
        cls,
        obj: object,
        options: Options | None = None,
        *,
        max_depth: int = 80,
        max_iter_items: int = 50,
        verbose: bool = True,
    ) -> str | None:
        """Return the way from ``root`` to the first part of ``obj`` that cannot be saved; None if all can.

        Args:
            obj: What is to be saved.
            options: As for ``dumps``.
            max_depth: How deep to search.
            max_iter_items: How many items of an iterator to look at.
            verbose: Print what is looked at.
        """
        search = _Search(cls(io.BytesIO(), options), max_depth, max_iter_items, print if verbose else _silent)
        return search.first_fault(obj, "root", 0)

    def persistent_id(self, obj: Any) -> str | None:
        """Return the name of what is known only when it is loaded; pickle calls this."""
        return "unpickle_state" if obj is self._loading else None

    def reducer_override(self, obj: Any) -> Any:
        """Return how ``obj`` is made anew, or NotImplemented where pickle knows that itself; pickle calls this."""
        if type(obj) in self._PASSTHROUGH_TYPES:
            return NotImplemented
        match obj:
            case FakeTensor():
                return _fake_tensor, (_without_mode(self._describer.describe_tensor(obj)), self._loading)
            case GraphModule():
                return _graph_module, (*self._saved_module(obj), self._loading)
            case OperatorBase() | OpOverloadPacket():
                return _named, (self._name_of(obj),)
            case torch.SymInt():
                node: Any = obj.node
                return _symbolic_size, (type(node), node._expr, node.shape_env, node.pytype, node._hint)
            case TracingContext():
                return _context, ({name: getattr(obj, name) for name in _CONTEXT_FIELDS}, self._loading)
            case weakref.ref():
                referent = obj()
                return (_nothing_left, ()) if referent is None else (weakref.ref, (referent,))
            case _:
                return self._reduce_torchs(obj)

    def _reduce_torchs(self, obj: Any) -> Any:
        """Return how an object is made anew that is of a type that only torch's other parts know."""
        fx: Any = sys.modules["torch.fx"]
        if isinstance(obj, fx.GraphModule):
            return to_torch_fx, (from_torch_fx(obj),)
        if isinstance(obj, _type_in("torch.fx.experimental.symbolic_shapes", "ShapeEnv")):
            assert not obj._translation_validation_enabled, "Translation validation must be disabled for pickling"
            state = {name: value for name, value in vars(obj).items() if name not in _NOT_SAVED}
            return _symbolic_sizes, (state, self._loading)
        if isinstance(obj, FakeScriptObject):
            real = object.__getattribute__(obj, "real_obj")
            is_value: Any = getattr(sys.modules.get("torch._library.opaque_object"), "is_opaque_value_type", bool)
            # What is referred to cannot be saved.
            return NotImplemented if real is not None and is_value(type(real)) else (_nothing, ())
        if isinstance(obj, Node | fx.Node):
            assert self.options.ignore_raw_node, "Unexpected raw Node during pickling"
            return _nothing, ()
        numpy_name = _numpy_name(obj)
        return NotImplemented if numpy_name is None else (_of_numpy, numpy_name)

    def _saved_module(self, module: GraphModule) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the attributes of a module, and its graph as plain data."""
        (module._real_recompile if isinstance(module, _LazyGraphModule) else module.recompile)()
        # A module may have a way of its own to say what of it is saved.
        getstate: Any = getattr(module, "__getstate__", None)
        attributes: dict[str, Any] = dict(getstate() if getstate is not None else vars(module))
        del attributes["_graph"]
        graph = module.graph
        places = {node: _Place(place) for place, node in enumerate(graph.nodes)}
        return attributes, {
            "tracer_cls": graph._tracer_cls,
            "tracer_extras": graph._tracer_extras,
            "codegen": graph._codegen,
            "nodes": [self._saved_node(node, places) for node in graph.nodes],
        }

    def _saved_node(self, node: Node, places: dict[Node, _Place]) -> tuple[Any, ...]:
        wanted = self.options.node_metadata_key_filter
        meta = {key: value for key, value in node.meta.items() if wanted is None or wanted(key)}
        args, kwargs = (map_arg(each, cast("Any", places.__getitem__)) for each in (node.args, node.kwargs))
        return node.op, self._saved_target(node.target), args, kwargs, node.name, node.type, meta

    def _saved_target(self, target: Any) -> Any:
        """Return a target as it is found again: by its name, or as the bytes of what was compiled."""
        if isinstance(target, str):
            return target
        artifact: Any = getattr(target, "__wrapped__", None)
        if isinstance(artifact, _type_in("torch._inductor.standalone_compile", "AOTCompiledArtifact")):
            return _Compiled(artifact.serialize())
        return _Named(self._name_of(target))

    def _name_of(self, function: Any) -> str:
        """Return the name by which a function or operator is found again.

        Raises:
            NotImplementedError: There is none.
        """
        name = pretty_target(function)
        if isinstance(function, OpOverload | OpOverloadPacket):
            if self.options.ops_filter is not None and not self.options.ops_filter(name):
                compiler = importlib.import_module("torch._inductor.codecache")
                raise compiler.BypassFxGraphCache(f"Unable to pickle non-standard op: {name}")
        elif name.partition(".")[0] not in {*_ROOTS, "einops"} or "." not in name:
            raise NotImplementedError(f"TARGET: {type(function)} {function} {name}")
        return name


@dataclasses.dataclass(frozen=True, slots=True)
class _Named:
    """A function, as the name by which it is found."""

    name: str

    def restored(self) -> Any:
        """Return the function."""
        return _named(self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class _Compiled:
    """What the compiler has made, as bytes."""

    contents: bytes

    def restored(self) -> Any:
        """Return a function that runs it."""
        compiler = importlib.import_module("torch._inductor.standalone_compile")
        artifact: Callable[..., Any] = compiler.AOTCompiledArtifact.deserialize(self.contents)

        @functools.wraps(artifact)
        def wrapped(*args: Any) -> Any:
            return artifact(*args)

        return wrapped


class _Unpickler(pickle.Unpickler):
    """Loads what a `GraphPickler` saved."""

    def __init__(self, stream: io.BytesIO, loading: _Loading) -> None:
        super().__init__(stream)
        self._loading = loading

    def persistent_load(self, pid: Any) -> Any:
        """Return what is known while something is loaded; pickle calls this."""
        if pid != "unpickle_state":
            raise pickle.UnpicklingError("Invalid persistent ID")
        return self._loading


def _graph_module(attributes: dict[str, Any], saved: dict[str, Any], _: _Loading) -> GraphModule:
    module = GraphModule.__new__(GraphModule)
    module.__dict__ = attributes
    graph = Graph(None, saved["tracer_cls"], saved["tracer_extras"])
    nodes: list[Node] = []
    for op, target, args, kwargs, name, kind, meta in saved["nodes"]:
        function = target if isinstance(target, str) else target.restored()
        located = [map_aggregate(each, lambda leaf: _at(leaf, nodes)) for each in (args, kwargs)]
        node = graph.create_node(op, function, *located, name, kind)  # type: ignore[arg-type]
        node._name = name
        node.meta = meta
        nodes.append(node)
    graph._codegen = saved["codegen"]
    module._graph = graph
    graph.owning_module = module
    module.recompile()
    return module


def _at(leaf: Any, nodes: list[Node]) -> Any:
    return nodes[leaf] if isinstance(leaf, _Place) else leaf


def _without_mode(description: Any) -> Any:
    """Return the description of a fake tensor without its mode."""
    base = description.base
    return dataclasses.replace(description, fake_mode=None, base=None if base is None else _without_mode(base))


def _with_mode(description: Any, mode: FakeTensorMode) -> Any:
    base = description.base
    return dataclasses.replace(description, fake_mode=mode, base=None if base is None else _with_mode(base, mode))


def _fake_tensor(description: Any, loading: _Loading) -> Any:
    mode = loading.fake_mode

    def make(make_meta: Callable[[], torch.Tensor], device: torch.device | str) -> FakeTensor:
        with no_dispatch():
            return FakeTensor(mode, make_meta(), torch.device(device))

    return loading.converter.meta_tensor(_with_mode(description, mode), mode.shape_env, make, None, None)


def _symbolic_sizes(state: dict[str, Any], loading: _Loading) -> Any:
    """Return the symbolic sizes of the mode, after making them know what was saved."""
    sizes: Any = loading.fake_mode.shape_env
    assert sizes is not None, "fake_mode.shape_env is not set"
    for name, value in state.items():
        setattr(sizes, name, value)
    return sizes


def _symbolic_size(kind: Callable[..., Any], *state: Any) -> torch.SymInt:
    return torch.SymInt(kind(*state))


def _context(state: dict[str, Any], loading: _Loading) -> TracingContext:
    context = TracingContext(loading.fake_mode)
    for name, value in state.items():
        setattr(context, name, value)
    return context


def _named(name: str) -> Any:
    root, _, path = name.partition(".")
    found = _ROOTS[root] if root in _ROOTS else importlib.import_module(root)
    return operator.attrgetter(path)(found)


def _nothing() -> None:
    """What stands for something that cannot be saved."""


def _nothing_left() -> Callable[[], None]:
    """Return what a weak reference to something that is gone does: it gives None."""
    return _nothing


def _numpy_name(function: Any) -> tuple[str, str] | None:
    """Return module and name of the numpy function that a function of torch's numpy stands for; mostly None."""
    known: Any = sys.modules.get("torch._dynamo.variables.misc")
    if known is None or not callable(function):
        return None
    try:
        original = known.get_tnp_to_np_map().get(function)
    except TypeError:  # It has no hash.
        return None
    name = getattr(original, "__name__", None)
    return None if not name else (getattr(original, "__module__", None) or "numpy", name)


def _of_numpy(module: str, name: str) -> Any:
    known: Any = importlib.import_module("torch._dynamo.variables.misc")
    return known.get_np_to_tnp_map()[getattr(importlib.import_module(module), name)]


def _type_in(module: str, name: str) -> Any:
    """Return a type of a module, or no type at all if nobody has loaded that: then there are no instances."""
    return getattr(sys.modules.get(module), name, ())


def _silent(_: str) -> None:
    """Print nothing."""


class _Search:
    """The search for what cannot be saved. Mutable.

    Attributes:
        pickler: Says how objects are reduced.
        seen: The objects that were looked at, by id; kept, so that no other takes the id.
    """

    def __init__(
        self, pickler: GraphPickler, max_depth: int, max_iter_items: int, say: Callable[[str], object]
    ) -> None:
        self.pickler = pickler
        self.seen: dict[int, object] = {}
        self._max_depth = max_depth
        self._max_iter_items = max_iter_items
        self._say = say

    def first_fault(self, obj: Any, path: str, depth: int) -> str | None:
        """Return the way to the first part of ``obj`` that cannot be saved; None if all can, or were seen before."""
        if depth > self._max_depth:
            return f"{path} (depth_limit)"
        if id(obj) in self.seen:
            return None
        self.seen[id(obj)] = obj
        indent = "  " * depth
        self._say(f"{indent}Walking: {path} ({type(obj)})")
        try:
            self.pickler.dumps(obj, self.pickler.options)
        except Exception as error:  # noqa: BLE001 - the user's objects raise whatever they like.
            self._say(f"{indent}[FAIL pickle] {type(obj)} -> {error}")
        else:
            return None
        try:
            faults = (self.first_fault(part, path + name, depth + 1) for name, part in self._parts(obj))
            return next((fault for fault in faults if fault), path)
        except Exception as error:  # noqa: BLE001 - likewise, when they are asked for their state.
            self._say(f"{indent}cannot be looked into: {error}")
            return path

    def _parts(self, obj: Any) -> Iterator[tuple[str, Any]]:
        """Yield what an object is saved as, part by part, with what leads there."""
        if isinstance(obj, dict):
            yield from ((f"[{key!r}]", value) for key, value in cast("dict[Any, Any]", obj).items())
            return
        if isinstance(obj, list | tuple | set | frozenset):
            yield from _numbered(cast("Any", obj), "")
            return
        if hasattr(obj, "__iter__") and type(obj).__name__.endswith("iterator"):
            yield from _numbered(itertools.islice(obj, self._max_iter_items), "")
            return
        reduced = self.pickler.reducer_override(obj)
        if reduced is not NotImplemented:
            yield from _numbered(reduced[1], ".reduce_args")
        if dataclasses.is_dataclass(obj):
            yield from ((f".{each.name}", getattr(obj, each.name)) for each in dataclasses.fields(obj))
            return
        if callable(getattr(obj, "__getstate__", None)):
            yield ".__getstate__()", obj.__getstate__()
        if hasattr(obj, "__dict__"):
            yield from ((f".{name}", value) for name, value in vars(obj).items())
        else:
            parts = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            yield from _numbered(parts if isinstance(parts, tuple) else (), ".__reduce__")


def _numbered(parts: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    return ((f"{prefix}[{place}]", part) for place, part in enumerate(parts))
