"""The names that a root module has for what it holds: submodules, parameters, buffers, and plain tensor attributes.

torch finds a name by walking the whole hierarchy; a trace asks often, so the walks are made once and kept as tables by
identity.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
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


class Hierarchy:
    """Names of what is in `root`; each is asked for by identity.

    What is not in a table is new, or not in the root: then it is looked for, and the table is made anew if it is found.
    """

    def __init__(self, root: nn.Module, paths: Mapping[nn.Module, str] | None = None) -> None:
        self.root = root
        self._tables: dict[str, dict[int, tuple[str, object]]] = {}
        self._know(survey(root)[0] if paths is None else paths)

    def parameter_name(self, parameter: nn.Parameter) -> str | None:
        """The qualified name of a parameter, or None if the root has no such parameter."""
        return self._find("_parameters", parameter)

    def buffer_name(self, buffer: torch.Tensor) -> str | None:
        """The qualified name of a buffer, or None if the root has no such buffer."""
        return self._find("_buffers", buffer)

    def module_name(self, module: nn.Module) -> str | None:
        """The qualified name of a submodule, or None if it is not part of the root."""
        return next((name for name, found in self.root.named_modules() if found is module), None)

    def _know(self, paths: Mapping[nn.Module, str]) -> None:
        """Take note of the modules that there are, and of the dicts in which they keep what is registered."""
        self._paths = paths
        self._registries: dict[str, list[dict[str, object]]] = {
            kind: [getattr(module, kind) for module in paths] for kind in ("_parameters", "_buffers", "_modules")
        }
        self._child_count = self._count_children()

    def _count_children(self) -> int:
        return sum(map(len, self._registries["_modules"]))

    def _find(self, kind: str, wanted: object) -> str | None:
        table = self._tables.get(kind)
        entry = table.get(id(wanted)) if table is not None else None
        if entry is None and (table is None or self._is_registered(kind, wanted)):
            table = self._tables[kind] = self._table_of(kind)
            entry = table.get(id(wanted))
        return entry[0] if entry is not None and entry[1] is wanted else None

    def _is_registered(self, kind: str, wanted: object) -> bool:
        """Whether a module of the root has an object among its parameters or buffers; much quicker than to name it."""
        if self._count_children() != self._child_count:
            self._know(survey(self.root)[0])
        registered = chain.from_iterable(map(dict.values, filter(None, self._registries[kind])))
        return id(wanted) in set(map(id, registered))

    def _table_of(self, kind: str) -> dict[int, tuple[str, object]]:
        """The names of all parameters or buffers, as torch has them: the first of those that an object has."""
        table: dict[int, tuple[str, object]] = {}
        name_of = "named_parameters" if kind == "_parameters" else "named_buffers"
        if getattr(type(self.root), name_of) is not getattr(nn.Module, name_of):
            named: Iterable[tuple[str, object]] = getattr(self.root, name_of)()
        else:
            named = (
                (f"{path}.{name}" if path else name, value)
                for path, registry in zip(self._paths.values(), self._registries[kind], strict=True)
                if registry
                for name, value in registry.items()
            )
        for name, value in named:
            if value is not None:
                table.setdefault(id(value), (name, value))
        return table


def survey(root: nn.Module) -> tuple[dict[nn.Module, str], dict[Any, str]]:
    """The paths of all modules, and the names of the tensors and script objects that are plain attributes of modules.

    A module that is reached in several ways has the first path, as in `named_modules`; a constant has the last name.
    """
    paths: dict[nn.Module, str] = {}
    constants: dict[Any, str] = {}
    _visit(root, "", paths, constants)
    ordinary = nn.Module.named_modules
    if any(kind.named_modules is not ordinary for kind in set(map(type, paths))):
        paths = {module: path for path, module in root.named_modules()}
    return paths, constants


def _visit(module: nn.Module, path: str, paths: dict[nn.Module, str], constants: dict[Any, str]) -> None:
    paths.setdefault(module, path)
    attributes = module.__dict__
    prefix = f"{path}." if path else ""
    if not _NEVER_CONSTANT.issuperset(map(type, attributes.values())):
        for name, value in attributes.items():
            if type(value) not in _NEVER_CONSTANT and isinstance(value, CONSTANT_TYPES):
                constants[value] = f"{prefix}{name}"
    children = module._modules
    if children:
        # A child with two names in one module counts once, under the first.
        for name, child in children.items():
            if child is not None and (child not in paths or _is_first_name(children, name, child)):
                _visit(child, f"{prefix}{name}", paths, constants)


def _is_first_name(children: Mapping[str, nn.Module | None], name: str, child: nn.Module) -> bool:
    return next(key for key, value in children.items() if value is child) == name
