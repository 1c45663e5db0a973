"""What only reads graphs takes those of torch.fx, from export and dynamo."""

import importlib

import pytest
import torch
import torch.export
import torch.fx
from torch import nn

import fxengine


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 5)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Pattern(nn.Module):
    def forward(self, x, weight, bias):
        linear = nn.functional.linear(x, weight, bias)
        relu = torch.relu(linear)
        return relu, {"linear": linear, "relu": relu}


def exported(module, *shapes):
    return torch.export.export(module, tuple(map(torch.rand, shapes))).module()


@pytest.fixture(params=["torch.fx", "fxengine"])
def passes(request):
    return lambda name: importlib.import_module(f"{request.param}.passes.utils.{name}")


def test_patterns_in_exported_graphs(passes):
    target = exported(Net(), (2, 3))
    pattern = exported(Pattern(), (2, 3), (3, 3), (3,))
    found = passes("matcher_utils").SubgraphMatcher(pattern.graph).match(target.graph)
    assert [match.nodes_map[match.anchors[0]].name for match in found] == ["relu"]


def test_named_nodes_in_exported_graphs(passes):
    target = exported(Net(), (2, 3))
    pattern = exported(Pattern(), (2, 3), (3, 3), (3,))
    matcher = passes("matcher_with_name_node_map_utils").SubgraphMatcherWithNameNodeMap(pattern)
    (found,) = matcher.match(target.graph)
    assert {name: node.name for name, node in found.name_node_map.items()} == {"linear": "linear", "relu": "relu"}


def test_a_pattern_without_structure_cannot_name_nodes():
    matcher = importlib.import_module("fxengine.passes.utils.matcher_with_name_node_map_utils")
    with pytest.raises(AssertionError, match="pytree signature"):
        matcher.SubgraphMatcherWithNameNodeMap(torch.fx.symbolic_trace(Pattern()))


def test_own_patterns_in_exported_graphs():
    def pattern(x):
        return torch.ops.aten.relu.default(x)

    matcher = importlib.import_module("fxengine.passes.utils.matcher_utils").SubgraphMatcher(
        fxengine.symbolic_trace(pattern).graph
    )
    assert len(matcher.match(exported(Net(), (2, 3)).graph)) == 1
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        matcher.match(3)


def test_sources_of_exported_nodes(passes):
    graph = exported(Net(), (2, 3)).graph
    sources = passes("source_matcher_utils")
    linear, relu = (sources.get_source_partitions(graph, [wanted]) for wanted in (nn.Linear, "relu"))
    found = [
        [[node.name for node in nodes] for nodes in (each.nodes, each.input_nodes, each.output_nodes, each.params)]
        for partitions in (linear, relu)
        for group in partitions.values()
        for each in group
    ]
    assert found == [
        [["linear"], ["x"], ["linear"], []],
        [["linear_1"], ["relu"], ["linear_1"], []],
        [["relu"], ["linear"], ["relu"], []],
    ]
    first, second = linear[nn.Linear]
    assert not sources.check_subgraphs_connected(first, second)
