"""Each rule of the intermediate representation: a graph that breaks it, and what is said about that."""

import operator

import pytest
import torch
from torch import nn

from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.verify import RULES, verify


def graph_of_two():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    graph.output(y)
    return graph, x, y


def unknown_opcode(graph, x, y):
    y._op = "compute"


def foreign_node(graph, x, y):
    y.graph = Graph()


def missing_in_the_table(graph, x, y):
    graph._find_nodes_lookup_table.remove(y)


def foreign_input(graph, x, y):
    y.args = (Graph().placeholder("z"),)


def used_before_it_is_defined(graph, x, y):
    y.append(x)


def same_name(graph, x, y):
    y._name = "x"


def missing_user(graph, x, y):
    x.users.clear()


def user_that_is_none(graph, x, y):
    y.users[x] = None


def list_in_the_arguments(graph, x, y):
    y._args = ([x],)


def plain_keyword_arguments(graph, x, y):
    y._kwargs = {}


def late_placeholder(graph, x, y):
    with graph.inserting_after(y):
        graph.placeholder("late")


def after_the_output(graph, x, y):
    graph.call_function(torch.neg, (x,))


BROKEN = {
    unknown_opcode: "opcode",
    foreign_node: "ownership",
    missing_in_the_table: "side table",
    foreign_input: "inputs",
    used_before_it_is_defined: "inputs",
    same_name: "unique name",
    missing_user: "use lists",
    user_that_is_none: "use lists",
    list_in_the_arguments: "immutable arguments",
    plain_keyword_arguments: "immutable arguments",
    late_placeholder: "placeholders first",
    after_the_output: "output last",
}


@pytest.mark.parametrize(("damage", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_rule(damage, rule):
    graph, x, y = graph_of_two()
    assert verify(graph) == []
    damage(graph, x, y)
    violations = verify(graph)
    assert rule in {violation.rule for violation in violations}
    raising = [violation for violation in violations if not own(violation.rule)]
    if raising:
        with pytest.raises(RuntimeError) as caught:
            graph.lint()
        assert str(caught.value) == raising[0].message
    else:
        graph.lint()


def own(name):
    return next(rule for rule in RULES if rule.name == name).own


def test_all_violations_are_reported():
    graph, x, y = graph_of_two()
    after_the_output(graph, x, y)
    same_name(graph, x, y)
    list_in_the_arguments(graph, x, y)
    assert [violation.rule for violation in verify(graph)] == ["unique name", "immutable arguments", "output last"]
    assert [violation.node.name for violation in verify(graph)] == ["x", "x", "neg"]


def test_targets_are_looked_up_in_a_module():
    graph = Graph()
    x = graph.placeholder("x")
    graph.get_attr("missing.weight")
    graph.call_module("linear.weight", (x,))
    call = graph.call_function(torch.relu, (x,))
    call._target = "relu"
    method = graph.call_method("relu", (x,))
    method._target = operator.add
    root = nn.Module()
    root.linear = nn.Linear(1, 1)
    assert verify(graph) == []
    assert [(violation.rule, violation.error) for violation in verify(graph, root)] == [
        ("target exists", RuntimeError),
        ("target exists", RuntimeError),
        ("target type", ValueError),
        ("target type", ValueError),
    ]


def test_every_rule_is_tested_and_says_what_it_is_about():
    assert {rule.name for rule in RULES} == {*BROKEN.values(), "target type", "target exists"}
    assert all(rule.text.endswith(".") for rule in RULES)


def test_a_sound_module_is_sound():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("layers.0", (x, graph.get_attr("layers.0.weight"))))
    module = GraphModule({"layers.0": nn.Linear(1, 1), "layers.0.weight": nn.Parameter(torch.ones(1, 1))}, graph)
    assert verify(graph) == []
    module.graph.lint()
