"""The names that a root module has for what it holds: submodules, parameters, buffers, and plain tensor attributes.

torch finds a name by walking the whole hierarchy; a trace asks often, so the walks are made once and kept as tables by
identity. A table that lacks an object is made anew before the answer is no, for a module may register things while it
runs.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch.utils import _pytree as pytree

CONSTANT_TYPES: Final = (torch.Tensor, torch.ScriptObject, FakeScriptObject, pytree.TreeSpec)
"""What a graph cannot print and therefore refers to as an attribute of the root."""

_NEVER_CONSTANT: Final[frozenset[type[Any]]] = frozenset({
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
})
"""The types of nearly all attributes of modules, none of which is a constant."""


class _Names:
    """The names of one kind of object in the hierarchy."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[int, tuple[str, object]] | None = None

    def find(self, wanted: object, walk: Iterable[tuple[str, object]]) -> str | None:
        """The first name that `walk`, torch's own way through the hierarchy, has for `wanted`."""
        table = self._table
        if table is None or id(wanted) not in table:
            table = self._table = {}
            for name, found in walk:
                table.setdefault(id(found), (name, found))
        entry = table.get(id(wanted))
        return None if entry is None else entry[0]


class Hierarchy:
    """Names of what is in `root`; each is asked for by identity."""

    __slots__ = ("_buffers", "_modules", "_parameters", "root")

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self._parameters = _Names()
        self._buffers = _Names()
        self._modules = _Names()

    def parameter_name(self, parameter: nn.Parameter) -> str | None:
        """The qualified name of a parameter, or None if the root has no such parameter."""
        return self._parameters.find(parameter, self.root.named_parameters())

    def buffer_name(self, buffer: torch.Tensor) -> str | None:
        """The qualified name of a buffer, or None if the root has no such buffer."""
        return self._buffers.find(buffer, self.root.named_buffers())

    def module_name(self, module: nn.Module) -> str | None:
        """The qualified name of a submodule, or None if it is not part of the root."""
        return self._modules.find(module, self.root.named_modules())


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
