"""What torch.fx promises to keep, and what it marks otherwise, is here: same names, places, kinds and signatures.

Texts are compared after `torch.fx` became `fxengine` in them, so an annotation that is a string there is one here.
"""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import types
from pathlib import Path

import pytest
import torch.fx
from torch.fx._compatibility import _BACK_COMPAT_OBJECTS as PROMISED
from torch.fx._compatibility import _MARKED_WITH_COMPATIBILITY as MARKED

import fxengine
from fxengine._compatibility import _BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY, compatibility

ADDED = {
    "_NodeBase": {"origin", "tensor"},
    "_OnModule": {"submodules"},  # Instances have it there.
    "PartialShapeProp": {"propagate_partial"},
    "Recorder": {"delete_item", "length", "refusals", "refuse", "set_item"},
}
"""What classes inherit from bases that torch.fx's do not have."""
PYTHON_2 = {"__div__", "__rdiv__"}
"""Operators that Python does not have any more; torch.fx's raise when they are called."""
NOT_HERE = {
    "torch.fx.passes._tensorify_python_scalars",
    "torch.fx.passes.regional_inductor",
    "torch.fx.passes.regional_inductor_invoke_subgraph",
}
SHARED = {"torch.fx.traceback"}
"""Modules whose objects are torch's own here: there is one such record in a process."""

for module in pkgutil.walk_packages(torch.fx.__path__, "torch.fx."):
    if ".tests" not in module.name:
        importlib.import_module(module.name)


def place(obj):
    return f"{obj.__module__}:{obj.__qualname__}"


def as_ours(text):
    return text.split(" at 0x")[0].replace("torch.fx", "fxengine")


def here(objects):
    return [obj for obj in objects if obj.__module__.startswith("torch.fx.") and obj.__module__ not in NOT_HERE]


NAMES = sorted(map(place, here(PROMISED)))
CLASSES = sorted(place(obj) for obj in here(PROMISED) if isinstance(obj, type))
OTHERS = sorted({*map(place, here(MARKED))} - {*NAMES})


def both(name):
    return pkgutil.resolve_name(name), pkgutil.resolve_name(as_ours(name))


def signature(obj):
    """The text of an object's signature; of what has none, why."""
    try:
        parts = str(inspect.signature(obj)).split(" at 0x")
    except ValueError as error:
        return as_ours(str(error))
    return as_ours("".join(parts[:1] + [part.partition(">")[1] + part.partition(">")[2] for part in parts[1:]]))


def kind(cls, name):
    """Whether a member is a method, a property, a plain value or only declared; one in C is like one in Python."""
    member = inspect.getattr_static(cls, name)
    if isinstance(member, types.GetSetDescriptorType | types.MemberDescriptorType | property):
        return "property"
    if isinstance(member, types.MethodDescriptorType):
        return "function"
    return type(member).__name__


def own(cls):
    return {name for name in vars(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", NAMES)
def test_same_place_and_signature(name):
    theirs, ours = both(name)
    assert type(ours).__name__ == type(theirs).__name__
    assert place(ours) == as_ours(name)
    assert signature(ours) == signature(theirs)
    assert bool(ours.__doc__) >= bool(theirs.__doc__)


@pytest.mark.parametrize("name", CLASSES)
def test_same_members(name):
    theirs, ours = both(name)
    assert own(ours) == own(theirs)
    added = {member for base in ours.__mro__ for member in ADDED.get(base.__name__, ())}
    assert {member for member in dir(ours) if not member.startswith("_")} - added == {
        member for member in dir(theirs) if not member.startswith("_")
    }
    for member in dir(theirs):
        if not member.startswith("_"):
            assert kind(ours, member) == kind(theirs, member), member


@pytest.mark.parametrize("name", CLASSES)
def test_members_with_same_signatures(name):
    theirs, ours = both(name)
    for member in sorted(own(theirs)):
        function = inspect.getattr_static(theirs, member)
        if isinstance(function, types.FunctionType | classmethod | staticmethod):
            assert signature(getattr(ours, member)) == signature(getattr(theirs, member)), member
            assert bool(getattr(ours, member).__doc__) >= bool(function.__doc__), member


@pytest.mark.parametrize("name", CLASSES)
def test_special_methods_are_there(name):
    theirs, ours = both(name)
    special = {name for name in dir(theirs) if name.startswith("__") and callable(getattr(theirs, name, None))}
    assert special - PYTHON_2 <= {*dir(ours)}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_promised_has_the_same_parameters(name):
    theirs, ours = both(name)
    assert type(ours).__name__ == type(theirs).__name__
    assert place(ours) == (name if theirs.__module__ in SHARED else as_ours(name))
    assert ours in _MARKED_WITH_COMPATIBILITY
    assert parameters(ours) == parameters(theirs)
    if isinstance(theirs, type):
        assert own(theirs) <= {*dir(ours)}
        for member in own(theirs):
            assert kind(ours, member) == kind(theirs, member), member


def parameters(obj):
    try:
        found = inspect.signature(obj).parameters.values()
    except ValueError:
        return None
    return [(each.name, each.kind, as_ours(repr(each.default))) for each in found]


def test_all_is_here():
    assert set(torch.fx.__all__) <= {*fxengine.__all__}
    for name in torch.fx.__all__:
        theirs, ours = getattr(torch.fx, name), getattr(fxengine, name)
        assert type(theirs).__name__ == type(ours).__name__
        assert not callable(theirs) or signature(ours) == signature(theirs)


def test_promised_objects_are_listed():
    assert {place(obj) for obj in _BACK_COMPAT_OBJECTS} == {as_ours(name) for name in NAMES}
    assert {*_BACK_COMPAT_OBJECTS} <= {*_MARKED_WITH_COMPATIBILITY}


def test_the_decorator_notes_objects():
    @compatibility(is_backward_compatible=False)
    def function():
        """Do nothing."""

    assert "not* backward-compatible" in function.__doc__.lower()
    assert function in _MARKED_WITH_COMPATIBILITY
    assert function not in _BACK_COMPAT_OBJECTS
    del _MARKED_WITH_COMPATIBILITY[function]


def test_the_architecture_names_the_modules_that_are_not_here():
    missing = {
        module.name.removeprefix("torch.fx.")
        for module in pkgutil.walk_packages(torch.fx.__path__, "torch.fx.")
        if not exists(as_ours(module.name))
    }
    text = Path(__file__).parents[2].joinpath("docs", "architecture.md").read_text(encoding="utf-8")
    rows = text.partition("| in torch.fx |")[2].partition("\n\n")[0].splitlines()[2:]
    named = {name for row in rows for name in re.findall("`([^`]*)`", row.split("|")[1])}
    assert {name for name in missing if name.rpartition(".")[0] not in missing} == named


def exists(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
