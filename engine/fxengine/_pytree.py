"""Flattening by a known structure: what generated code calls to take nested arguments apart.

``tree_flatten_spec`` follows a ``TreeSpec`` instead of discovering the structure, so that an argument may be a proxy
where the specification says leaf. Containers are registered by type, here and, where that is loaded, with
``torch.fx._pytree``.
"""

import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torch.return_types
from torch.utils._pytree import PyTree, TreeSpec, tree_flatten

__all__ = [
    "SUPPORTED_NODES",
    "SUPPORTED_NODES_EXACT_MATCH",
    "FlattenFnExactMatchSpec",
    "FlattenFnSpec",
    "FlattenFuncExactMatchSpec",
    "FlattenFuncSpec",
    "_deregister_pytree_flatten_spec",
    "_dict_flatten_spec",
    "_dict_flatten_spec_exact_match",
    "_list_flatten_spec",
    "_list_flatten_spec_exact_match",
    "_namedtuple_flatten_spec",
    "_namedtuple_flatten_spec_exact_match",
    "_tuple_flatten_spec",
    "_tuple_flatten_spec_exact_match",
    "register_pytree_flatten_spec",
    "tree_flatten_spec",
]

FlattenFnSpec: TypeAlias = Callable[[PyTree, TreeSpec], list[Any]]
FlattenFnExactMatchSpec: TypeAlias = Callable[[PyTree, TreeSpec], bool]
FlattenFuncSpec = FlattenFnSpec
FlattenFuncExactMatchSpec = FlattenFnExactMatchSpec

SUPPORTED_NODES: dict[type[Any], FlattenFnSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type[Any], FlattenFnExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: FlattenFnSpec,
    flatten_fn_exact_match_spec: FlattenFnExactMatchSpec | None = None,
) -> None:
    """Make ``tree_flatten_spec`` take instances of ``cls`` apart with ``flatten_fn_spec``.

    Args:
        cls: A container type; exact, not its subclasses.
        flatten_fn_spec: Returns the children of a container in the order of the specification.
        flatten_fn_exact_match_spec: Says whether a container has the specification's structure and nothing more.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type[Any]) -> None:
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """Return the leaves of ``pytree`` as ``spec`` orders them; whatever stands where ``spec`` has a leaf is one.

    Raises:
        RuntimeError: The container's type is not registered and its structure is not that of ``spec``.
    """
    if spec.is_leaf():
        return [pytree]
    flatten = _flatten_function(spec.type)
    if flatten is not None:
        leaves: list[Any] = []
        for child, child_spec in zip(flatten(pytree, spec), _children(spec), strict=False):
            leaves += tree_flatten_spec(child, child_spec)
        return leaves
    leaves, real_spec = tree_flatten(pytree)
    if spec != real_spec:
        raise RuntimeError(f"Real spec {real_spec} of object {pytree} is different from expected spec {spec}.")
    return leaves


def _flatten_function(cls: Any) -> FlattenFnSpec | None:
    own = SUPPORTED_NODES.get(cls)
    if own is not None:
        return own
    theirs = sys.modules.get("torch.fx._pytree")
    return None if theirs is None else theirs.SUPPORTED_NODES.get(cls)


def _children(spec: TreeSpec) -> Sequence[TreeSpec]:
    """Return the children of ``spec``: a method in newer torch, an attribute before."""
    any_spec: Any = spec
    return any_spec.children() if callable(getattr(spec, "children", None)) else any_spec.children_specs


def _dict_flatten_spec(d: Mapping[Any, Any], spec: TreeSpec) -> list[Any]:
    """Return the values of a mapping in the order of the specification; others register it for mappings of theirs."""
    return [d[key] for key in spec.context]


def _list_flatten_spec(d: Sequence[Any], spec: TreeSpec) -> list[Any]:
    """Return as many items as the specification has."""
    return [d[index] for index in range(spec.num_children)]


def _dict_flatten_spec_exact_match(d: Sequence[Any] | Mapping[Any, Any], spec: TreeSpec) -> bool:
    """Return whether a container has as many items as the specification."""
    return len(d) == spec.num_children


_tuple_flatten_spec = _namedtuple_flatten_spec = _list_flatten_spec
_list_flatten_spec_exact_match = _tuple_flatten_spec_exact_match = _dict_flatten_spec_exact_match
_namedtuple_flatten_spec_exact_match = _dict_flatten_spec_exact_match

register_pytree_flatten_spec(dict, _dict_flatten_spec, _dict_flatten_spec_exact_match)
# `namedtuple` itself is the type that torch's specifications give for every named tuple.
for _sequence in (list, tuple, namedtuple, *torch.return_types.all_return_types):  # noqa: PYI024 - as a value.
    register_pytree_flatten_spec(_sequence, _list_flatten_spec, _dict_flatten_spec_exact_match)  # type: ignore[arg-type]
