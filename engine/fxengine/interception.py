"""Standing between modules and whoever calls them: calls and reads of attributes go to the tracer that is running.

`nn.Module.__call__` and `nn.Module.__getattr__` run other code while anything is traced. That code asks the context
which tracer is running and does what torch does if there is none, so it harms nobody else.
"""

from collections import OrderedDict
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any, Final

from torch import nn

from fxengine.patching import Patches, code_with, copied
from fxengine.running import running_tracer

_orig_module_call: Final[Any] = nn.Module.__call__
_orig_module_getattr: Final[Any] = nn.Module.__getattr__

call_as_torch_does: Final[Any] = copied(_orig_module_call)
"""What `nn.Module.__call__` does when nothing is traced."""


def intercept_modules(patches: Patches) -> None:
    """Let calls of modules and reads of their attributes come to us first, as long as the patches are held."""
    for name, original, hook, hook_in_place in (
        ("__getattr__", _orig_module_getattr, _GETATTR, _GETATTR_IN_PLACE),
        ("__call__", _orig_module_call, _CALL, _CALL_IN_PLACE),
    ):
        if getattr(nn.Module, name) is original and isinstance(original, FunctionType):
            # The function's code, not the attribute: for that CPython would visit every subclass of `nn.Module`.
            patches.code(original, hook_in_place)
        else:
            function = FunctionType(code_with(hook, ours=None), globals(), name)
            patches.attribute(nn.Module, name, lambda _, function=function: function)


def leave_out_backward_hooks(patches: Patches, modules: Iterable[nn.Module]) -> None:
    """Let modules have no hooks of the backward pass, as long as the patches are held.

    They change nothing on the way forward, but torch hangs them on the functions of gradients, which a value of a graph
    has not.
    """
    for module in modules:
        state = vars(module)
        for name in ("_backward_hooks", "_backward_pre_hooks"):
            if hooks := state.get(name):
                patches.item(state, name, hooks, lambda _: OrderedDict[Any, Any]())


def _module_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What `nn.Module.__call__` does while anything is traced.

    The code runs as torch's function, so it has none of our globals but brings along what it needs.
    """
    running: Any = "<running>"
    torch_module: Any = "<torch_module>"
    ours: Any = "<ours>"
    original: Any = "<original>"
    tracer = running()
    # Somebody else's function in our place, such as that of a torch.fx trace inside of ours, has the say.
    if tracer is None or (ours is not None and torch_module.__call__ is not ours):
        return original(self, *args, **kwargs)
    return tracer._intercept_call(self, args, kwargs)


def _module_getattr(self: Any, name: str) -> Any:
    """What `nn.Module.__getattr__` does while anything is traced; likewise."""
    running: Any = "<running>"
    torch_module: Any = "<torch_module>"
    ours: Any = "<ours>"
    original: Any = "<original>"
    tracer = running()
    if tracer is None or tracer._reads_plainly:
        # Submodules are what is asked for most, and here they are themselves; `original` finds them last.
        state = self.__dict__
        submodules = state.get("_modules", ())
        if name in submodules and name not in state["_parameters"] and name not in state["_buffers"]:
            return submodules[name]
    value = original(self, name)
    if tracer is None or (ours is not None and torch_module.__getattr__ is not ours):
        return value
    return tracer.getattr(name, value, tracer._parameter_proxies)


def _hook(template: FunctionType, original: Any) -> CodeType:
    constants = {"running": running_tracer.get, "torch_module": nn.Module, "original": copied(original)}
    return code_with(template.__code__, **constants)


_CALL: Final = _hook(_module_call, _orig_module_call)
_GETATTR: Final = _hook(_module_getattr, _orig_module_getattr)
_CALL_IN_PLACE: Final = code_with(_CALL, ours=_orig_module_call)
_GETATTR_IN_PLACE: Final = code_with(_GETATTR, ours=_orig_module_getattr)
