"""Patterns found and replaced, as torch.fx finds and replaces them: the same matches, the same code."""

import operator

import pytest
import torch
import torch.fx
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.fx import subgraph_rewriter as their_rewriter
from torch.fx.passes.utils import matcher_utils as their_matcher

from fxengine import subgraph_rewriter
from fxengine._symbolic_trace import symbolic_trace, wrap
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.passes.utils import compare_graphs
from fxengine.passes.utils.matcher_utils import SubgraphMatcher


@wrap
def wrapped_gemm_bias_mul(a, b, bias):
    return F.linear(a, b, bias=bias) * 2


torch.fx.wrap("wrapped_gemm_bias_mul")


class Net(nn.Module):
    """Holds what the functions below use."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU()

    def forward(self, x, y):
        a = torch.neg(x) + torch.relu(x)
        b = torch.cat([a, y]).sum()
        c = self.relu(self.linear(x)) * b
        d = torch.neg(y) + torch.relu(y)
        return torch.matmul(c, self.weight), d, torch.add(x, 3)


def single(x):
    return torch.neg(x) + torch.relu(x)


def gelu_of(x):
    return F.gelu(x)


def twice(x):
    return torch.mul(x, 2)


def chain(x):
    return torch.relu(torch.relu(x))


def two_in(w1, w2):
    return torch.cat([w1, w2]).sum()


def stacked(w1, w2):
    return torch.stack([w1, w2]).sum()


def adds_three(x):
    return torch.add(x, 3)


def adds_any(x, y):
    return torch.add(x, y)


def subtracts(x, y):
    return torch.sub(x, y)


def two_out(x):
    return torch.neg(x), torch.relu(x)


def two_other(x):
    return torch.sin(x), torch.cos(x)


def never(x):
    return torch.tan(x)


def identity(x):
    return x


def overlapping(x):
    return torch.relu(torch.relu(torch.relu(torch.relu(torch.relu(x)))))


def leaking(x):
    y = torch.relu(x)
    return torch.relu(y) + y


def unused_result(x):
    torch.relu(torch.relu(x))
    return x + 1


def method_calls(x, y):
    return x.view(2, -1).sum(dim=1) + y.view(2, -1).sum(dim=1)


def view_sum(x):
    return x.view(2, -1).sum(dim=1)


def flat_sum(x):
    return x.flatten(1).sum(1)


def calls_wrapped(a, b, bias):
    return torch.relu(wrapped_gemm_bias_mul(a, b, bias))


def gemm(a, b, bias):
    return wrapped_gemm_bias_mul(a, b, bias)


def plain_gemm(a, b, bias):
    return torch.addmm(bias, a, b) * 2


CASES = {
    "single": (Net, single, gelu_of),
    "two inputs": (Net, two_in, stacked),
    "constant": (Net, adds_three, twice),
    "literal for a placeholder": (Net, adds_any, subtracts),
    "several results": (Net, two_out, two_other),
    "never": (Net, never, twice),
    "by identity": (lambda: overlapping, chain, identity),
    "overlapping": (lambda: overlapping, chain, twice),
    "leaking": (lambda: leaking, chain, twice),
    "no users": (lambda: unused_result, chain, twice),
    "methods": (lambda: method_calls, view_sum, flat_sum),
    "wrapped": (lambda: calls_wrapped, gemm, plain_gemm),
}


@pytest.mark.parametrize("name", CASES)
def test_the_code_is_that_of_torch_fx(name):
    make, pattern, replacement = CASES[name]
    root = make()
    ours, theirs = symbolic_trace(root), torch.fx.symbolic_trace(root)
    found = subgraph_rewriter.replace_pattern(ours, pattern, replacement)
    expected = their_rewriter.replace_pattern(theirs, pattern, replacement)
    assert ours.code == theirs.code
    assert [match.anchor.name for match in found] == [match.anchor.name for match in expected]
    assert [[(a.name, getattr(b, "name", b)) for a, b in match.nodes_map.items()] for match in found] == [
        [(a.name, getattr(b, "name", b)) for a, b in match.nodes_map.items()] for match in expected
    ]
    ours.graph.lint()


def test_a_replacement_brings_its_modules():
    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.relu(self.linear(x))

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.fused = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())
            self.bias = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return self.fused(x) + self.bias

    root = Net()
    ours, theirs = symbolic_trace(root), torch.fx.symbolic_trace(root)
    subgraph_rewriter.replace_pattern(ours, symbolic_trace(Pattern()), symbolic_trace(Replacement()))
    their_rewriter.replace_pattern(theirs, torch.fx.symbolic_trace(Pattern()), torch.fx.symbolic_trace(Replacement()))
    assert ours.code == theirs.code
    assert isinstance(ours.get_submodule("fused.1"), nn.Sigmoid)
    assert not hasattr(ours, "linear")
    ours(torch.randn(3, 4), torch.randn(1, 4))


def test_a_name_that_leads_nowhere_is_told():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("gone", (x,)))
    holder = nn.Module()
    holder.gone = nn.ReLU()
    replacement = GraphModule(holder, graph)
    del replacement.gone
    with pytest.raises((RuntimeError, Warning)):
        subgraph_rewriter.replace_pattern(symbolic_trace(Net()), single, replacement)


def test_filters_and_callbacks():
    def only_y(match, original, pattern):
        return match.placeholder_nodes[0].name == "y"

    root = Net()
    ours, theirs = symbolic_trace(root), torch.fx.symbolic_trace(root)
    (found,) = subgraph_rewriter.replace_pattern_with_filters(ours, single, gelu_of, [only_y])
    (expected,) = their_rewriter.replace_pattern_with_filters(theirs, single, gelu_of, [only_y])
    assert ours.code == theirs.code
    assert [node.name for node in found.replacements] == [node.name for node in expected.replacements]

    ours = symbolic_trace(root)
    seen = []

    def by_match(match, original, pattern):
        seen.append(match.placeholder_nodes[0].name)
        return symbolic_trace(twice).graph

    subgraph_rewriter.replace_pattern_with_filters(ours, single, replacement_callback=by_match)
    assert seen == ["x", "y"]
    with pytest.raises(AssertionError, match="Must provide"):
        subgraph_rewriter.replace_pattern_with_filters(symbolic_trace(root), single)


def test_literals_can_be_ignored():
    def adds_seven(x):
        return torch.add(x, 7)

    ours, theirs = symbolic_trace(Net()), torch.fx.symbolic_trace(Net())
    assert subgraph_rewriter.replace_pattern_with_filters(ours, adds_seven, twice) == []
    assert len(subgraph_rewriter.replace_pattern_with_filters(ours, adds_seven, twice, ignore_literals=True)) == 1
    their_rewriter.replace_pattern_with_filters(theirs, adds_seven, twice, ignore_literals=True)
    assert ours.code == theirs.code


def test_parameters_and_results_must_correspond():
    with pytest.raises(AssertionError, match="Placeholder count mismatch"):
        subgraph_rewriter.replace_pattern(symbolic_trace(Net()), single, stacked)
    with pytest.raises(AssertionError, match="Returning nodes count mismatch"):
        subgraph_rewriter.replace_pattern(symbolic_trace(Net()), single, two_other)


PATTERNS = {
    "diamond": (lambda x: torch.relu(torch.neg(x) + torch.abs(x)), lambda x: torch.neg(x) + torch.abs(x)),
    "two anchors": (
        lambda x, y: (torch.relu(x) + torch.neg(y), torch.relu(x) - torch.neg(y)),
        lambda a, b: (torch.relu(a), torch.neg(b)),
    ),
    "shared input": (lambda x: (x * x) + (x * 2), lambda a: a * a),
    "cycle": (lambda x: torch.relu(x) + torch.sin(torch.relu(x)), lambda a, b: (torch.relu(a), torch.relu(a) + b)),
    "nested lists": (lambda x, y: torch.cat([x, y, x], 1), lambda a, b: torch.cat([a, b, a], 1)),
    "keywords": (lambda x: F.relu(x, inplace=False).clamp(min=0), lambda a: a.clamp(min=0)),
    "items": (lambda x: operator.add(x.split(2)[0], x.split(2)[1]), lambda a: a.split(2)),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("overlapping_too", [False, True])
def test_the_matches_are_those_of_torch_fx(name, overlapping_too):
    graph, pattern = PATTERNS[name]

    def matches(trace, matcher):
        found = matcher(trace(pattern).graph, remove_overlapping_matches=not overlapping_too)
        return [
            (
                {a.name: b.name for a, b in match.nodes_map.items()},
                [node.name for node in match.placeholder_nodes],
                [node.name for node in match.returning_nodes],
            )
            for match in found.match(trace(graph).graph)
        ]

    expected = matches(torch.fx.symbolic_trace, their_matcher.SubgraphMatcher)
    assert matches(symbolic_trace, SubgraphMatcher) == expected


def test_patterns_that_cannot_be_found():
    with pytest.raises(ValueError, match="empty pattern"):
        SubgraphMatcher(Graph())
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.relu, (x,))
    graph.output(x)
    with pytest.raises(AssertionError, match="dead code"):
        SubgraphMatcher(graph)


def test_graphs_are_compared():
    assert compare_graphs(symbolic_trace(chain).graph, symbolic_trace(chain).graph)
    assert not compare_graphs(symbolic_trace(chain).graph, symbolic_trace(overlapping).graph)
    assert not compare_graphs(symbolic_trace(single).graph, symbolic_trace(twice).graph)
