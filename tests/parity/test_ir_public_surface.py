"""The names that torch.fx promises to keep are here, with the same parameters."""

import inspect
import pkgutil

import pytest
import torch.fx
from torch.fx._compatibility import _BACK_COMPAT_OBJECTS as PROMISED
from torch.fx._compatibility import _MARKED_WITH_COMPATIBILITY as MARKED

import fxengine
from fxengine._compatibility import _BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY, compatibility

NOT_HERE = {
    "passes.reinplace:reinplace",  # About functionalised graphs of ATen operators.
    "passes.runtime_assert:insert_deferred_runtime_asserts",  # About symbolic shapes.
}
MODULES = (
    "immutable_collections",
    "node",
    "graph",
    "graph_module",
    "operator_schemas",
    "_lazy_graph_module",
    "tensor_type",
)


def place(obj):
    return f"{obj.__module__.removeprefix('torch.fx.')}:{obj.__qualname__}"


def names():
    marked = [obj for obj in MARKED if obj.__module__.removeprefix("torch.fx.") in MODULES]
    return sorted({place(obj) for obj in (*PROMISED, *marked)} - NOT_HERE)


@pytest.mark.parametrize("name", names())
def test_same_parameters(name):
    ours = pkgutil.resolve_name(f"fxengine.{name}")
    theirs = pkgutil.resolve_name(f"torch.fx.{name}")
    if isinstance(theirs, type):
        assert isinstance(ours, type)
        return
    assert parameters(ours) == parameters(theirs)


def parameters(function):
    return [
        (parameter.name, parameter.kind, repr(parameter.default).split(" at 0x")[0].replace("torch.fx", "fxengine"))
        for parameter in inspect.signature(function).parameters.values()
    ]


def test_promised_names_are_listed():
    for name in {place(obj) for obj in PROMISED} - NOT_HERE:
        assert pkgutil.resolve_name(f"fxengine.{name}") in _BACK_COMPAT_OBJECTS, name
    assert set(torch.fx.__all__) <= {*fxengine.__all__}


def test_the_decorator_notes_objects():
    @compatibility(is_backward_compatible=False)
    def function():
        pass

    assert function in _MARKED_WITH_COMPATIBILITY
    assert function not in _BACK_COMPAT_OBJECTS
    del _MARKED_WITH_COMPATIBILITY[function]
