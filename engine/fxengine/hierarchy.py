"""The names that a root module has for what it holds: submodules, parameters, buffers, and plain tensor attributes.

torch finds a name by walking the whole hierarchy; a trace asks often, so the walks are made once and kept as tables by
identity.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch.utils import _pytree as pytree

CONSTANT_TYPES: Final = (torch.Tensor, torch.ScriptObject, FakeScriptObject, pytree.TreeSpec)
"""What a graph cannot print and therefore refers to as an attribute of the root."""

_NEVER_CONSTANT: Final[frozenset[type[Any]]] = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        str,
        tuple,
        list,
        dict,
        set,
        type,
        FunctionType,
        MethodType,
        BuiltinFunctionType,
        partial,
        torch.dtype,
        torch.device,
        torch.Size,
        *(type(value) for value in vars(nn.Module()).values()),
    }
)
"""The types of nearly all attributes of modules, none of which is a constant."""

_FIRST_ATTRIBUTE: Final = next(iter(vars(nn.Module())))
_ATTRIBUTES: Final = len(vars(nn.Module()))
"""The attributes that every module has, and has first, are none either."""


class Hierarchy:
    """Names of what is in `root`; each is asked for by identity.

    What is not in a table is new, or not in the root: then it is looked for, and the table is made anew if it is found.
    """

    def __init__(self, root: nn.Module, known: "Survey | None" = None) -> None:
        self.root = root
        self._survey = survey(root) if known is None else known
        self._tables: dict[str, dict[int, tuple[str, str, object]]] = {}

    def parameter_name(self, parameter: nn.Parameter) -> str | None:
        """The qualified name of a parameter, or None if the root has no such parameter."""
        return self._find("_parameters", parameter)

    def buffer_name(self, buffer: torch.Tensor) -> str | None:
        """The qualified name of a buffer, or None if the root has no such buffer."""
        return self._find("_buffers", buffer)

    def module_name(self, module: nn.Module) -> str | None:
        """The qualified name of a submodule, or None if it is not part of the root."""
        path = self._survey.paths.get(module)
        if path is not None and _at(self.root, path) is module:
            return path
        return next((name for name, found in self.root.named_modules() if found is module), None)

    @cached_property
    def _registries(self) -> dict[str, list[dict[str, object]]]:
        """The dicts in which modules keep what is registered, by the attribute that holds them."""
        kinds = ("_parameters", "_buffers", "_modules")
        return {kind: [getattr(module, kind) for module in self._survey.paths] for kind in kinds}

    def _find(self, kind: str, wanted: object) -> str | None:
        table = self._tables.get(kind)
        entry = table.get(id(wanted)) if table is not None else None
        if table is None:
            self._look_again()
        if entry is None and (table is None or self._is_registered(kind, wanted)):
            table = self._tables[kind] = self._table_of(kind)
            entry = table.get(id(wanted))
        if entry is None or entry[2] is not wanted:
            return None
        path, name, _ = entry
        return f"{path}.{name}" if path else name

    def _is_registered(self, kind: str, wanted: object) -> bool:
        """Whether a module of the root has an object among its parameters or buffers; much quicker than to name it."""
        self._look_again()
        registered = chain.from_iterable(registry.values() for registry in self._registries[kind] if registry)
        return id(wanted) in set(map(id, registered))

    def _look_again(self) -> None:
        """Walk through the hierarchy once more if it has new modules."""
        if sum(map(len, self._registries["_modules"])) != self._survey.children:
            self._survey = survey(self.root)
            del self._registries

    def _table_of(self, kind: str) -> dict[int, tuple[str, str, object]]:
        """The places of all parameters or buffers, as torch names them: the first of those that an object has."""
        name_of = "named_parameters" if kind == "_parameters" else "named_buffers"
        table: dict[int, tuple[str, str, object]] = {}
        if getattr(type(self.root), name_of) is not getattr(nn.Module, name_of):
            for name, value in getattr(self.root, name_of)():
                table.setdefault(id(value), ("", name, value))
            return table
        for path, registry in zip(self._survey.paths.values(), self._registries[kind], strict=True):
            for name, value in registry.items():
                if value is not None:
                    table.setdefault(id(value), (path, name, value))
        return table


@dataclass(slots=True)
class Survey:
    """What one walk through the hierarchy finds.

    Attributes:
        paths: The path of every module; the first one for a module that is reached in several ways.
        constants: The names of tensors and script objects that are plain attributes of modules; the last one of each.
        children: How many children all modules have together.
    """

    paths: dict[nn.Module, str]
    constants: dict[Any, str]
    children: int


def modules_of(root: nn.Module) -> list[nn.Module]:
    """All modules in `root`, each once, in no particular order. torch's own walk names each, which takes long."""
    found: dict[nn.Module, None] = {}
    pending = [root]
    while pending:
        module = pending.pop()
        if module not in found:
            found[module] = None
            # One that has not called the constructor of its base has no parts.
            pending += [child for child in vars(module).get("_modules", {}).values() if child is not None]
    return [*found]


def survey(root: nn.Module) -> Survey:
    """Walk through the hierarchy of `root`, in the order of torch's own walks."""
    paths: dict[nn.Module, str] = {}
    visits: list[tuple[str, dict[str, Any]]] = []
    count = 0

    def visit(module: nn.Module, path: str) -> None:
        nonlocal count
        children = module._modules
        visits.append((path, module.__dict__))
        if module not in paths:
            paths[module] = path
            count += len(children)
        if children:
            prefix = f"{path}." if path else ""
            # A child with two names in one module counts once, under the first.
            for name, child in children.items():
                if child is not None and (child not in paths or _is_first_name(children, name, child)):
                    visit(child, prefix + name)

    visit(root, "")
    constants = _constants(visits)
    ordinary = nn.Module.named_modules
    if any(kind.named_modules is not ordinary for kind in set(map(type, paths))):
        paths = {module: path for path, module in root.named_modules()}
    return Survey(paths, constants, count)


def _constants(visits: Sequence[tuple[str, dict[str, Any]]]) -> dict[Any, str]:
    """The names of tensors and script objects among the attributes of modules, given by their paths; the last one each.

    There are mostly none, which the types of all values together tell.
    """
    values = chain.from_iterable([own_values(attributes) for _, attributes in visits])
    if not any(issubclass(kind, CONSTANT_TYPES) for kind in set(map(type, values)) - _NEVER_CONSTANT):
        return {}
    return {
        value: f"{path}.{name}" if path else name
        for path, attributes in visits
        for name, value in attributes.items()
        if type(value) not in _NEVER_CONSTANT and isinstance(value, CONSTANT_TYPES)
    }


def own_values(attributes: dict[str, Any]) -> Iterator[object]:
    """The values of the attributes that not every module has, and nothing else is touched."""
    values = reversed(attributes.values())
    if next(iter(attributes), None) != _FIRST_ATTRIBUTE:
        return values
    return islice(values, max(len(attributes) - _ATTRIBUTES, 0))


def _at(root: nn.Module, path: str) -> nn.Module | None:
    """The module at a path, or None if there is none any more."""
    module: nn.Module | None = root
    for name in path.split(".") if path else ():
        module = module._modules.get(name) if module is not None else None
    return module


def _is_first_name(children: Mapping[str, nn.Module | None], name: str, child: nn.Module) -> bool:
    return next(key for key, value in children.items() if value is child) == name
