"""The names that a root module has for what it holds: submodules, parameters, buffers, and plain tensor attributes.

torch finds a name by walking the whole hierarchy; a trace asks often, so the walks are made once and kept as tables by
identity.
"""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, TypeAlias

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


_Registry: TypeAlias = dict[str, list[dict[str, object]]]


class Hierarchy:
    """Names of what is in `root`; each is asked for by identity.

    Tables are made by torch's own walks, so they have its order. Whoever is not in one is new, or not in the root: then
    it is looked for, and the table is made anew if it is found.
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self._tables: dict[str, dict[int, tuple[str, object]]] = {}
        self._registries: _Registry = {"_modules": []}
        self._child_count = -1

    def parameter_name(self, parameter: nn.Parameter) -> str | None:
        """The qualified name of a parameter, or None if the root has no such parameter."""
        return self._find("_parameters", parameter)

    def buffer_name(self, buffer: torch.Tensor) -> str | None:
        """The qualified name of a buffer, or None if the root has no such buffer."""
        return self._find("_buffers", buffer)

    def module_name(self, module: nn.Module) -> str | None:
        """The qualified name of a submodule, or None if it is not part of the root."""
        return next((name for name, found in self.root.named_modules() if found is module), None)

    def _find(self, kind: str, wanted: object) -> str | None:
        entry = self._tables.get(kind, {}).get(id(wanted))
        if entry is None and (kind not in self._tables or self._is_registered(kind, wanted)):
            walk = self.root.named_parameters() if kind == "_parameters" else self.root.named_buffers()
            self._tables[kind] = {id(found): (name, found) for name, found in walk}
            entry = self._tables[kind].get(id(wanted))
        return entry[0] if entry is not None and entry[1] is wanted else None

    def _is_registered(self, kind: str, wanted: object) -> bool:
        """Whether a module of the root has an object among its parameters or buffers; much quicker than to name it."""
        children = self._registries["_modules"]
        if sum(map(len, children)) != self._child_count:
            self._registries, self._child_count = _registries_of(self.root)
        registered = chain.from_iterable(map(dict.values, filter(None, self._registries[kind])))
        return id(wanted) in set(map(id, registered))


def _registries_of(root: nn.Module) -> tuple[_Registry, int]:
    """The dicts in which the modules keep what is registered, by the attribute that holds them.

    Also how many children they have: when that changes there are new modules.
    """
    modules = list(root.modules())
    kinds = ("_parameters", "_buffers", "_modules")
    registries: _Registry = {kind: [getattr(module, kind) for module in modules] for kind in kinds}
    return registries, sum(map(len, registries["_modules"]))


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
            if isinstance(value, CONSTANT_TYPES):
                constants[value] = f"{prefix}{name}"
    children = module._modules
    if children:
        # A child with two names in one module counts once, under the first.
        for name, child in children.items():
            if child is not None and (child not in paths or _is_first_name(children, name, child)):
                _visit(child, f"{prefix}{name}", paths, constants)


def _is_first_name(children: Mapping[str, nn.Module | None], name: str, child: nn.Module) -> bool:
    return next(key for key, value in children.items() if value is child) == name
