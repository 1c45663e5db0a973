"""What lowering needs of leaf modules: parameters and settings, read once and kept on the nodes that call them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fxengine.graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:  # noqa: ARG001 - the signature of what may take its place.
    """Return the attribute's name in a newer version of the module: the same."""
    return name


module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (
        1,
        ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"],
        default_matching,
    ),
    nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (
        1,
        ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
        default_matching,
    ),
    nn.ReLU: (1, ["inplace"], default_matching),
}
"""For each type its version, the attributes to read, and how they are called in other versions. May be added to."""


def extract_attrs_for_lowering(mod: nn.Module) -> dict[str, Any]:
    """Return the attributes of ``mod`` that ``module_fetch_book`` lists, and its type's name as ``name``.

    Raises:
        RuntimeError: The book does not have its type, or not its version.
    """
    name = torch.typename(mod)
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{name} is not in the module_fetch_book yet, please add it to the module_fetch_book")
    version, attributes, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {name} version {mod._version}, "
            "please upgrade the module_fetch_book"
        )
    return {"name": name, **{each: getattr(mod, matching(each, mod._version)) for each in attributes}}


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Give each call of a leaf module an attribute ``attrs_for_lowering``, in graph modules inside this one too.

    Raises:
        RuntimeError: A leaf module's type is not in ``module_fetch_book``.
    """
    submodules: dict[str, nn.Module] = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        submodule = submodules[str(node.target)]
        if isinstance(submodule, GraphModule):
            lift_lowering_attrs_to_nodes(submodule)
        else:
            setattr(node, "attrs_for_lowering", extract_attrs_for_lowering(submodule))  # noqa: B010 - not one of Node's own.
