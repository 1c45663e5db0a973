"""Names that are replaced while traces run: in several namespaces at once, held by several traces, and put back."""

import math

import pytest
import torch

import fxengine
from fxengine.patching import MISSING, Patches
from fxengine.wrapping import _wrapped_fns_to_patch


def stand_in(name, meaning):
    return ("stand-in", name, meaning)


def registered(*places):
    return {(id(namespace), name): namespace for namespace, name in places}


def test_names_are_replaced_and_put_back():
    first, second = {"f": 1, "g": 2}, {"f": 3}
    with Patches() as patches:
        patches.scattered(registered((first, "f"), (second, "f"), (second, "len")), stand_in)
        assert first == {"f": ("stand-in", "f", 1), "g": 2}
        assert second == {"f": ("stand-in", "f", 3), "len": ("stand-in", "len", MISSING)}
    assert first == {"f": 1, "g": 2}
    assert second == {"f": 3}


def test_traces_that_know_more_names_hold_what_is_replaced_already():
    namespace = {"f": 1, "g": 2}
    outer, inner = Patches(), Patches()
    outer.scattered(registered((namespace, "f")), stand_in)
    inner.scattered(registered((namespace, "f"), (namespace, "g")), stand_in)
    assert namespace == {"f": ("stand-in", "f", 1), "g": ("stand-in", "g", 2)}
    outer.__exit__()
    assert namespace == {"f": ("stand-in", "f", 1), "g": ("stand-in", "g", 2)}
    inner.__exit__()
    assert namespace == {"f": 1, "g": 2}


def test_a_trace_that_knows_fewer_names_needs_no_more():
    namespace = {"f": 1, "g": 2}
    with Patches() as outer:
        outer.scattered(registered((namespace, "f"), (namespace, "g")), stand_in)
        with Patches() as inner:
            inner.scattered(registered((namespace, "f")), stand_in)
        assert namespace == {"f": ("stand-in", "f", 1), "g": ("stand-in", "g", 2)}
    assert namespace == {"f": 1, "g": 2}


def all_of(meanings):
    return {name: ("stand-in", value) for name, value in meanings.items()}


@pytest.mark.parametrize("ended_first", [0, 1])
def test_traces_that_replace_the_same_in_their_own_way_may_end_in_any_order(ended_first):
    namespace = {"f": 1, "g": 2}
    both = [Patches(), Patches()]
    both[0].items(namespace, "first", lambda meanings: {"f": ("stand-in", meanings["f"])})
    both[1].items(namespace, "second", all_of)
    assert namespace == {"f": ("stand-in", 1), "g": ("stand-in", 2)}
    both[ended_first].__exit__()
    assert namespace == (
        {"f": ("stand-in", 1), "g": ("stand-in", 2)} if ended_first == 0 else {"f": ("stand-in", 1), "g": 2}
    )
    both[1 - ended_first].__exit__()
    assert namespace == {"f": 1, "g": 2}


def test_registered_names_below_others_are_put_back():
    namespace, other = {"f": 1}, {"g": 2}
    first, second = Patches(), Patches()
    first.scattered(registered((namespace, "f"), (other, "g"), (namespace, "len")), stand_in)
    second.items(namespace, "second", lambda meanings: {"f": ("on top", meanings["f"])})
    first.__exit__()
    assert (namespace, other) == ({"f": ("on top", 1)}, {"g": 2})
    second.__exit__()
    assert namespace == {"f": 1}


def test_a_tracer_made_during_a_trace_knows_the_functions_themselves():
    made = []

    def forward(x):
        made.append(fxengine.Tracer()._autowrap_function_ids)
        return x

    fxengine.symbolic_trace(forward)
    assert made == [fxengine.Tracer()._autowrap_function_ids]


def double(x):
    return x.add(x)


def test_a_function_registered_by_a_trace_inside_of_another(monkeypatch):
    monkeypatch.setattr("fxengine.wrapping._wrapped_fns_to_patch", registry := dict(_wrapped_fns_to_patch))
    registry[id(globals()), "len"] = globals()
    inner = []

    def function(x):
        registry[id(globals()), "double"] = globals()
        inner.append([node.name for node in fxengine.Tracer().trace(lambda y: double(y) + len(y)).nodes])
        return double(x) + len(x) + math.sqrt(x)

    outer = [node.name for node in fxengine.Tracer().trace(function).nodes]
    assert inner == [["y", "double", "len_1", "add", "output"]]
    assert outer == ["x", "add", "len_1", "add_1", "sqrt", "add_2", "output"]
    assert double(torch.ones(1)) == 2
    assert "len" not in globals()


def test_a_name_that_means_nothing(monkeypatch):
    monkeypatch.setattr("fxengine.wrapping._wrapped_fns_to_patch", {(id(globals()), "no_such_name"): globals()})
    with pytest.raises(KeyError):
        fxengine.Tracer().trace(lambda x: x)
