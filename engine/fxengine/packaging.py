"""Generated code outside the process: the imports that it needs, and a package on disk that contains it."""

import warnings
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.module import _addindent
from torch.package.importer import Importer

from fxengine.names import _custom_builtins, _is_from_torch

__all__ = ["_format_import_block", "_format_import_statement", "write_package"]

_WRITTEN_AS_REPR: Final = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)
"""Modules whose ``repr`` is an expression that makes them."""


def _format_import_statement(name: str, obj: object, importer: Importer) -> str:
    """Return the statement that binds ``name`` to ``obj``."""
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    if _is_from_torch(name):
        return "import torch"
    module_name, attr_name = importer.get_name(obj)
    return f"from {module_name} import {attr_name} as {name}"


def _format_import_block(globals: dict[str, Any], importer: Importer) -> str:  # noqa: A002 - torch.fx's name.
    """Return the statements that bind ``globals``, sorted, so that the same code is always the same text."""
    return "\n".join(sorted({_format_import_statement(name, obj, importer) for name, obj in globals.items()}))


def write_package(module: nn.Module, code: str, folder: Path, module_name: str) -> None:
    """Write a package from which ``module_name`` can be imported: a module class with ``code`` as its body.

    Args:
        module: The module whose children, parameters and buffers the class has.
        code: The source of ``forward``.
        folder: Where the package goes; made if it is not there.
        module_name: The name of the class.
    """
    folder.mkdir(exist_ok=True)
    torch.save(module.state_dict(), folder / "state_dict.pt")
    pickled: list[str] = []
    lines: list[str] = []
    for name, child in module.named_children():
        if type(child) in _WRITTEN_AS_REPR:
            lines.append(f"setattr(self, '{name}', {child!r})")
            continue
        path = folder / f"{name}.pt"
        torch.save(child, path)
        pickled.append(name)
        comment = repr(child).replace("\r", " ").replace("\n", " ")
        lines.append(f"setattr(self, '{name}', torch.load(r'{path}', weights_only=False)) # {comment}")
    lines += [
        f"self.register_buffer('{name}', {_empty(buffer)})"
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    lines += [
        f"setattr(self, '{name}', torch.nn.Parameter({_empty(parameter)}))"
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
    (folder / "module.py").write_text(_module_source(module_name, lines, code))
    (folder / "__init__.py").write_text("from .module import *")
    if pickled:
        warnings.warn(
            f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
            stacklevel=3,
        )


def _empty(tensor: torch.Tensor) -> str:
    return f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"


def _module_source(module_name: str, initialisation: list[str], code: str) -> str:
    imports = "\n".join([builtin.import_str for builtin in _custom_builtins.values()])
    body = "".join([f"        {line}\n" for line in initialisation])
    return f"""
import torch
{imports}

from torch.nn import *
class {module_name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
{body}{_addindent(code, 4)}
"""
