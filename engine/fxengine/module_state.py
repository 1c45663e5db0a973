"""Attributes of nested modules by qualified name: copied, assigned, read, deleted."""

from typing import Any

import torch

__all__ = ["_assign_attr", "_copy_attr", "_del_attr", "_get_attr", "_get_attr_via_attr_list", "_has_attr"]


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
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)
