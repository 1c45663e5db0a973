"""Which of the user's code ran in a trace: its functions, the modules that it ran on, and the calls that led there.

This is read off what the trace left behind, so a trace pays nothing for it: the origins of the nodes, and the modules
that were called. A helper that recorded nothing and is no module's forward is found by its name in the code that
mentions it; it may not have run, and what is said about it has to be seen in another run.
"""

import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from fxengine.diagnosis import Observation
from fxengine.silent.reading import names_in
from fxengine.source import ModuleSite, Origin, OriginRecord, SourceFrame, Trail, is_user_file

if TYPE_CHECKING:
    from fxengine.node import Node


class Ran:
    """The user's code that ran in the first run of a diagnosis. What it is asked, it finds once and keeps.

    Attributes:
        nodes: The nodes of the run's graph, by opcode.
        recorded: The code objects on the way to any node, by id.
    """

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self.nodes: defaultdict[str, list[Node]] = defaultdict(list)
        self.recorded: dict[int, CodeType] = {}
        self._records: dict[int, OriginRecord] = {}
        sites: set[int] = set()
        for node in observation.graph.nodes:
            self.nodes[node.op].append(node)
            record = node._origin
            if type(record) is OriginRecord:
                site, trail = record
                # Most nodes come from functions that others come from too.
                if len(trail) != 2 or id(next(iter(trail))) not in self._records:
                    self._note(trail, record)
                if id(site) not in sites:
                    self._note_sites(site, sites)

    def _note(self, trail: Trail, record: OriginRecord) -> None:
        for code in trail[::2]:
            if id(code) not in self._records and isinstance(code, CodeType):
                self.recorded[id(code)] = code
                self._records[id(code)] = record

    def _note_sites(self, site: ModuleSite | None, seen: set[int]) -> None:
        while site is not None and id(site) not in seen:
            seen.add(id(site))
            if site.parent is not None:
                self._note(site.trail, OriginRecord((site.parent, site.trail)))
            site = site.parent

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """The modules that were traced through, by path."""
        root = self._observation.root
        if not isinstance(root, nn.Module):
            return {}
        leaves = {node.target for node in self.nodes["call_module"]}
        found: dict[str, nn.Module] = {"": root}
        for path in self._observation.tracer.num_calls:
            module = None if path in leaves else _submodule(root, path)
            if module is not None:
                found[path] = module
        return found

    def forwards(self) -> Iterator[tuple[str, nn.Module, CodeType]]:
        """The modules whose `forward` is the user's own, by path, with its code."""
        for path, module in self.modules.items():
            found = inspect.getattr_static(type(module), "forward", None)
            forward = inspect.unwrap(found) if isinstance(found, FunctionType) else None
            if isinstance(forward, FunctionType) and is_user_file(forward.__code__.co_filename):
                yield path, module, forward.__code__

    @cached_property
    def root_code(self) -> CodeType | None:
        """The code of the function that was traced."""
        root: Any = self._observation.root
        method = self._observation.tracer.traced_func_name
        function = getattr(type(root), method, None) if isinstance(root, nn.Module) else root
        return getattr(inspect.unwrap(function), "__code__", None) if function is not None else None

    def mentioning(self, *names: str) -> list[CodeType]:
        """The code that ran, or that code that did leads to by name, and that mentions all of some names."""
        return [code for code, mentioned in self._functions.values() if mentioned.issuperset(names)]

    @cached_property
    def _functions(self) -> dict[int, tuple[CodeType, frozenset[str]]]:
        """The user's functions that ran or that those lead to by name, with the names in them, by id."""
        found = {key: (function.code, function.names) for key, (function, _) in self._methods.items()}
        found.update((key, (code, names_in(code))) for key, code in self.recorded.items() if key not in found)
        return found

    def mentioned_objects(self) -> Iterator[Any]:
        """What the code that ran finds under the names that it mentions: globals, and attributes of modules."""
        for code, names in self._functions.values():
            for _, module in self.owners(code):
                attributes, namespace = vars(module), vars(sys.modules.get(type(module).__module__, module))
                yield from (attributes[name] for name in names if name in attributes)
                yield from (namespace[name] for name in names if name in namespace)

    def owners(self, code: CodeType) -> tuple[tuple[str, nn.Module], ...]:
        """The modules, with their paths, that a method may have run on; none for a function that is no method."""
        known = self._methods.get(id(code))
        if known is None:
            return ()
        return tuple((path, module) for path, module in self.modules.items() if type(module) in known[1])

    def origin(self, code: CodeType, frame: SourceFrame) -> Origin:
        """The calls that led to a function, as far as they are known, with a place in it as the innermost."""
        record = self._records.get(id(code))
        if record is None:
            path, module = next(iter(self.owners(code)), ("", None))
            return Origin((frame,), path, type(module) if module is not None else None)
        site, trail = record
        innermost = next(index for index in range(0, len(trail), 2) if trail[index] is code)
        outer = OriginRecord((site, trail[innermost + 2 :])).resolve()
        return Origin((*outer.frames, frame), site.module_path, site.module_type)

    @cached_property
    def _methods(self) -> dict[int, tuple["_Function", set[type]]]:
        """The user's functions that a forward leads to by name, and the types of the modules that they may run on."""
        found: dict[int, tuple[_Function, set[type]]] = {}
        for cls in dict.fromkeys(map(type, self.modules.values())):
            for function in _reachable(cls, self._observation.tracer.traced_func_name):
                found.setdefault(id(function.code), (function, set()))[1].add(cls)
        root = self._observation.root
        if isinstance(root, FunctionType):
            for function in _closed([root], None):
                found.setdefault(id(function.code), (function, set()))
        return found


@dataclass(frozen=True, slots=True)
class _Function:
    """The code of a function, and the names in it."""

    code: CodeType
    names: frozenset[str]


def with_innermost(origin: Origin, frame: SourceFrame) -> Origin:
    """An origin with another place in its innermost function."""
    return Origin((*origin.frames[:-1], frame), origin.module_path, origin.module_type)


def innermost(record: object) -> tuple[CodeType, int] | None:
    """The innermost user function of a node's record, and the instruction that it had come to."""
    if not isinstance(record, OriginRecord):
        return None
    trail = record[1]
    if len(trail) < 2 or not isinstance(trail[0], CodeType) or not isinstance(trail[1], int):
        return None
    return trail[0], trail[1]


def _submodule(root: nn.Module, path: str) -> nn.Module | None:
    module: Any = root
    for name in path.split("."):
        module = module._modules.get(name) if module is not None else None
    return module


@functools.lru_cache(maxsize=1024)
def _reachable(cls: type, forward: str) -> tuple[_Function, ...]:
    """The code of a class's forward and of the user's functions that it leads to."""
    names = dict.fromkeys((forward, "forward", "__call__"))
    return tuple(_closed((function for name in names if (function := _method(cls, name)) is not None), cls))


def _closed(functions: Iterable[FunctionType], cls: type | None) -> Iterator[_Function]:
    """The user's own among some functions, and what they mention: methods of `cls` and functions of their modules."""
    pending = list(functions)
    seen: set[int] = set()
    while pending:
        function = pending.pop()
        code = function.__code__
        if id(code) in seen or not is_user_file(code.co_filename):
            continue
        seen.add(id(code))
        names = names_in(code)
        yield _Function(code, names)
        for name in names:
            if cls is not None and (method := _method(cls, name)) is not None:
                pending.append(method)
            elif isinstance(mentioned := function.__globals__.get(name), FunctionType):
                pending.append(mentioned)


def _method(cls: type, name: str) -> FunctionType | None:
    """The function behind a method or property of a class, whatever decorators have wrapped it."""
    for owner in cls.__mro__:
        if name in vars(owner):
            found: Any = vars(owner)[name]
            found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
            found = inspect.unwrap(found) if isinstance(found, FunctionType) else found
            return found if isinstance(found, FunctionType) else None
    return None
