"""Attributes of nested modules by qualified name: copied, assigned, read, deleted."""

import warnings
from collections.abc import Container, Iterable
from typing import Any, Final, TypeAlias

import torch
from torch.nn.modules.module import _global_module_registration_hooks

__all__ = [
    "_assign_attr",
    "_copy_attr",
    "_del_attr",
    "_get_attr",
    "_get_attr_via_attr_list",
    "_has_attr",
    "attribute",
    "copy_attributes",
]

_Counterparts: TypeAlias = tuple[Any, Any] | None
_OF_EVERY_MODULE: Final = frozenset(dir(torch.nn.Module()))


def attribute(owner: Any, name: str) -> Any:
    """Return ``owner.name``; what is registered with a module without the detour over ``__getattr__``."""
    if isinstance(owner, torch.nn.Module):
        registered: Any = owner._modules
        if name in registered:
            return registered[name]
        registered = owner._parameters
        if name in registered:
            return registered[name]
    return getattr(owner, name)


def copy_attributes(from_module: torch.nn.Module, to_module: torch.nn.Module, targets: Iterable[str]) -> None:
    """Do for each target what ``_copy_attr`` does; the way to a module is walked once."""
    known: dict[str, _Counterparts] = {"": (from_module, to_module)}
    for target in targets:
        path, _, field = target.rpartition(".")
        counterparts = known[path] if path in known else _counterparts(path, known)
        if counterparts is not None:
            source, own = counterparts
            _set_state(own, field, attribute(source, field))


def _counterparts(path: str, known: dict[str, _Counterparts]) -> _Counterparts:
    """Return the module with this path that is copied from, and the one that is copied to, which is made if missing.

    Returns:
        The two; None if they are one, because something above has been copied as a whole.
    """
    above, _, name = path.rpartition(".")
    counterparts = known[above] if above in known else _counterparts(above, known)
    if counterparts is not None:
        source, own = attribute(counterparts[0], name), _present(counterparts[1], name)
        if own is None:
            own = torch.nn.Module()
            _set_state(counterparts[1], name, own)
        counterparts = None if source is own else (source, own)
    known[path] = counterparts
    return counterparts


def _present(module: Any, name: str) -> Any:
    """Return ``getattr(module, name, None)``; quickly for the empty modules that are made on the way."""
    if type(module) is torch.nn.Module and name not in _OF_EVERY_MODULE:
        child = module._modules.get(name)
        if child is not None or not any(name in names for names in _registries(module)):
            return child
    return getattr(module, name, None)


def _registries(module: torch.nn.Module) -> tuple[Container[str], ...]:
    """Return where names of things that are no modules are found in ``module``, apart from its class."""
    return vars(module), module._parameters, module._buffers


def _copy_attr(from_module: torch.nn.Module, to_module: torch.nn.Module, target: str) -> None:
    """Make ``target`` of ``from_module`` an attribute of ``to_module`` too; missing modules on the way are made."""
    *prefix, field = target.split(".")
    for name in prefix:
        source = getattr(from_module, name)
        present = getattr(to_module, name, None)
        if source is present:
            return  # The whole module is there already, and so is the attribute.
        if present is None:
            present = torch.nn.Module()
            setattr(to_module, name, present)
        from_module, to_module = source, present
    _set_state(to_module, field, getattr(from_module, field))


def _assign_attr(from_obj: object, to_module: torch.nn.Module, target: str) -> None:
    """Make ``from_obj`` the attribute ``target`` of ``to_module``; missing modules on the way are made."""
    *prefix, field = target.split(".")
    for name in prefix:
        child = getattr(to_module, name, None)
        if child is None:
            child = torch.nn.Module()
            setattr(to_module, name, child)
        to_module = child
    _set_state(to_module, field, from_obj)


def _get_attr(model: torch.nn.Module, attr_name: str) -> Any:
    """Return the attribute ``attr_name`` of ``model``.

    Raises:
        AssertionError: One of the modules on the way is missing.
        AttributeError: The last of them has no such attribute.
    """
    *prefix, field = attr_name.split(".")
    return getattr(_descend(model, prefix), field)


def _get_attr_via_attr_list(model: torch.nn.Module, attr_list: list[str]) -> Any:
    """Return the attribute of ``model`` with the qualified name ``attr_list``, which is ``model`` itself if empty."""
    return _get_attr(model, ".".join(attr_list)) if attr_list else model


def _del_attr(model: torch.nn.Module, attr_name: str) -> None:
    """Delete the attribute ``attr_name`` of ``model``."""
    *prefix, field = attr_name.split(".")
    delattr(_descend(model, prefix), field)


def _has_attr(model: torch.nn.Module, attr_name: str) -> bool:
    """Return whether ``model`` has the attribute ``attr_name``."""
    owner: Any = model
    for name in attr_name.split("."):
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


def _descend(model: torch.nn.Module, names: list[str]) -> Any:
    owner: Any = model
    for name in names:
        owner = getattr(owner, name, None)
        assert owner is not None, f"Attribute '{name}' not found in model"
    return owner


def _set_state(module: torch.nn.Module, name: str, value: object) -> None:
    """Set an attribute; a tensor that is no parameter becomes a buffer, so that it is part of the state."""
    if isinstance(value, torch.nn.Module) and _takes_modules(module, name):
        module._modules[name] = value
    elif isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _takes_modules(module: torch.nn.Module, name: str) -> bool:
    """Return whether setting ``name`` to a module does no more than to register that."""
    return (
        isinstance(module, torch.nn.Module)  # pyright: ignore[reportUnnecessaryIsInstance] - it may be any object.
        and type(module).__setattr__ is torch.nn.Module.__setattr__
        and not _global_module_registration_hooks
        and not any(name in names for names in _registries(module))
    )


def attribute_exists(root: torch.nn.Module, qualified_name: str) -> bool:
    """Return whether ``root`` has this parameter, buffer or submodule."""
    module_path, _, name = qualified_name.rpartition(".")
    try:
        owner = root.get_submodule(module_path)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {module_path}!", stacklevel=3)
        return False
    value = getattr(owner, name, None)
    return isinstance(value, (torch.nn.Module, torch.nn.Parameter)) or name in owner._buffers
