"""What user code has replaced of Python and torch, when something here fails that never fails.

A worker shares its interpreter with the code that it runs. Code that takes `len` out of `builtins`, or puts another
class in the place of `nn.Module`, breaks whoever comes after it, and is told so.

Nothing here may call a built-in function: it may be gone.
"""

import builtins
import sys
from typing import Final

import torch
from torch import nn

_BUILTINS: Final = dict(vars(builtins))
_METHODS: Final = """
__call__ __getattr__ __setattr__ buffers children modules named_buffers named_children named_modules named_parameters
parameters
"""
_TORCH: Final = (
    ("torch.nn.Module", nn, "Module", nn.Module),
    *((f"torch.nn.Module.{name}", nn.Module, name, vars(nn.Module)[name]) for name in _METHODS.split()),
    ("torch.Tensor", torch, "Tensor", torch.Tensor),
    (
        "torch.Tensor.__torch_function__",
        torch.Tensor,
        "__torch_function__",
        torch.Tensor.__dict__["__torch_function__"],
    ),
)
_WATCHED: Final = ("ast", "dataclasses", "itertools", "json", "json.decoder", "json.encoder", "linecache", "re", "time")
"""Modules that nobody can do without, and whose functions are replaced by nobody else here."""

_FUNCTIONS: Final = tuple(
    (name, vars(sys.modules[name]), attribute, value)
    for name in _WATCHED
    if name in sys.modules
    for attribute, value in vars(sys.modules[name]).items()
    if callable(value)
)
_MODULES: Final = ("builtins", "json", "os", "re", "sys", "torch", "torch.nn", "warnings", "fxengine", "fxworker")
_LOADED: Final = {name: sys.modules.get(name) for name in _MODULES}
_dispatch_modes: Final = torch._C._len_torch_dispatch_stack
_leave_mode: Final = torch._C._pop_torch_dispatch_stack
_module_table: Final = sys.modules


def expect(name: str, value: object) -> None:
    """Put something of ours in the place of a built-in function."""
    _BUILTINS[name] = value
    builtins.__dict__[name] = value


def undo() -> str:
    """Put back what is known to be replaced, and return the name of the first such thing, "" if there is none."""
    found = ""
    namespace = builtins.__dict__
    for name, value in _BUILTINS.items():
        if name != "_" and namespace.get(name) is not value:
            namespace[name] = value
            found = found or f"builtins.{name}"
    for name, holder, attribute, value in _TORCH:
        if holder.__dict__.get(attribute) is not value:
            setattr(holder, attribute, value)
            found = found or name
    for name, attributes, attribute, value in _FUNCTIONS:
        if attributes.get(attribute) is not value:
            attributes[attribute] = value
            found = found or f"{name}.{attribute}"
    # What runs here has left its own modes when this is asked.
    while _dispatch_modes():
        _leave_mode(None)
        found = found or "torch.utils._python_dispatch.TorchDispatchMode"
    for name, module in _LOADED.items():
        if module is not None and _module_table.get(name) is not module:
            _module_table[name] = module
            found = found or f"sys.modules['{name}']"
    return found
