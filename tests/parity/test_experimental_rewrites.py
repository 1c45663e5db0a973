"""The rewrites in `experimental`: the same graphs, annotations and numbers as torch.fx's."""

import copy
import importlib
import operator
import sys
import typing

import pytest
import torch
import torch.fx
from torch import nn
from torch.nn import functional

import fxengine
import fxengine.experimental.mkldnn_layout
from fxengine.experimental.merge_matmul import merge_matmul, split_result_tensors
from fxengine.experimental.normalize import NormalizeArgs
from tests.support import corpus
from tests.support.parity import _described, neutral

ENGINES = (torch.fx, fxengine)


def their(engine, module):
    return importlib.import_module(f"{engine.__name__}.{module}")


def described(module):
    code = module.code.replace("fxengine_experimental_merge_matmul_", "torch.fx.experimental.merge_matmul.")
    return [_described(node) for node in module.graph.nodes], neutral(code)


@pytest.fixture(params=ENGINES, ids=["torch.fx", "fxengine"])
def engine(request):
    return request.param


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.ones(4, 1, 1))
        self.own = Own()

    def forward(self, x, y: torch.Tensor):
        x = functional.relu(self.norm(self.conv(x)), inplace=True) * self.scale
        x = functional.max_pool2d(x, 2, return_indices=False)
        x = functional.dropout(x, training=False) + torch.clamp(y, min=0.0)
        x = torch.mul(x, 2) - torch.add(x, y)
        return self.own(x.flatten(1), mode="sum"), torch.cat([x, y], 1), torch.div(x, 2, rounding_mode="floor")


class Own(nn.Module):
    def forward(self, x, mode):
        return getattr(x, mode)(1)


class Functions(nn.Module):
    def forward(self, x, y):
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        x = functional.layer_norm(x, (4,)) if y is None else functional.gelu(x)
        x = functional.adaptive_max_pool2d(x, 2)
        values = functional.max_pool2d(x, 1, return_indices=True)
        return functional.pad(values[0], (1, 1)), functional.cross_entropy(x.flatten(1), y), torch.stack((x, x))


class Operators(nn.Module):
    def forward(self, x, y):
        names = ["add", "mul", "sub", "div", "floor_divide", "remainder", "eq", "ne", "lt", "le", "gt", "ge"]
        results = [getattr(torch, name)(x, y) for name in names]
        return [
            *results,
            torch.add(x, y, alpha=2),
            torch.add(x, 1),
            torch.sub(input=x, other=y),
            torch.neg(x),
            x + y,
            torch.trapezoid(x, x),
        ]


MODELS = (Net, Functions, Operators)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("only_kwargs", [True, False])
def test_arguments_are_normalized_alike(model, only_kwargs):
    results = []
    root = model()
    for engine in ENGINES:
        traced = engine.symbolic_trace(root)
        for node in traced.graph.nodes:
            node.meta["type"] = torch.Tensor
            if node.target in {"relu", torch.mul}:
                node.type = torch.Tensor
        make = their(engine, "experimental.normalize").NormalizeArgs
        result = make(traced, normalize_to_only_use_kwargs=only_kwargs).transform()
        assert all(node.meta["type"] is torch.Tensor for node in result.graph.nodes if node.op != "output")
        results.append(described(result))
    assert results[0] == results[1]


def test_the_map_of_nodes(engine):
    traced = engine.symbolic_trace(Operators())
    normalizer = their(engine, "experimental.normalize").NormalizeArgs(traced)
    result = normalizer.transform()
    assert {old.name for old in normalizer.node_map.values()} == {
        node.name for node in traced.graph.nodes if node.op != "output"
    }
    assert {new.node for new in normalizer.node_map} == {node for node in result.graph.nodes if node.op != "output"}


@pytest.mark.parametrize("model", MODELS)
def test_operators_are_normalized_alike(model):
    root = model()
    results = [
        described(their(engine, "experimental.normalize").NormalizeOperators(engine.symbolic_trace(root)).transform())
        for engine in ENGINES
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("flags", [(True, True, True), (False, True, True), (True, False, True), (True, True, False)])
def test_annotations_are_alike(model, flags):
    root = model()
    results = []
    for engine in ENGINES:
        annotate = their(engine, "experimental.schema_type_annotation").AnnotateTypesWithSchema
        results.append(described(annotate(engine.symbolic_trace(root), *flags).transform()))
    assert results[0] == results[1]


def test_annotations_of_attributes(engine):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = {"a": 1}

    graph = engine.Graph()
    graph.output((graph.get_attr("table"), graph.get_attr("table")))
    annotate = their(engine, "experimental.schema_type_annotation").AnnotateTypesWithSchema
    result = annotate(engine.GraphModule(Holder(), graph)).transform()
    assert [node.type for node in result.graph.find_nodes(op="get_attr")] == [typing.Dict[str, int]] * 2  # noqa: UP006


def test_an_attribute_that_is_not_there(engine):
    graph = engine.Graph()
    graph.output(graph.get_attr("a.b"))
    module = engine.GraphModule({"a": nn.Module(), "a.b": torch.ones(1)}, graph)
    del module.a.b
    annotate = their(engine, "experimental.schema_type_annotation").AnnotateTypesWithSchema
    with pytest.raises(RuntimeError, match=r"nonexistent target|nonextent target a"):
        annotate(module).transform()


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.right = nn.Parameter(torch.rand(4, 5))
        self.other = nn.Parameter(torch.rand(4, 4))

    def forward(self, a, b, c):
        first = torch.matmul(a, self.right)
        second = torch.matmul(torch.relu(b), self.right)
        alone = torch.matmul(c, self.other)
        return first.sum() + second.mean(), torch.matmul(alone, self.right)


class Dependent(nn.Module):
    def forward(self, a, square):
        return torch.matmul(torch.matmul(a, square), square)


class Chain(nn.Module):
    """Far apart: within the depth of the search it is not certain that they are independent."""

    def forward(self, a, b, square):
        first = torch.matmul(a, square)
        for _ in range(8):
            b = torch.relu(b)
        return first, torch.matmul(b, square)


@pytest.mark.parametrize("model", [Products, Dependent, Chain, Operators])
def test_products_are_merged_alike(model):
    root = model()
    modules = [their(engine, "experimental.merge_matmul").merge_matmul(root) for engine in ENGINES]
    results = [described(module) for module in modules]
    assert results[0] == results[1]


def test_merged_products_are_the_same_numbers():
    model = Products()
    inputs = (torch.rand(2, 4), torch.rand(3, 4), torch.rand(6, 4))
    merged = merge_matmul(model)
    assert len(merged.graph.find_nodes(op="call_function", target=torch.matmul)) == 2
    torch.testing.assert_close(merged(*inputs), model(*inputs))
    assert [part.shape[0] for part in split_result_tensors(torch.rand(5, 1), list(inputs[:2]))] == [2, 3]


def test_several_groups_of_products_are_merged():
    class Groups(nn.Module):
        def forward(self, a, b, left, right):
            first, second = torch.matmul(a, left), torch.matmul(b, left)
            return torch.matmul(first, right) + torch.matmul(second, right), torch.matmul(a, right)

    model, inputs = Groups(), tuple(torch.rand(3, 3) for _ in range(4))
    merged = merge_matmul(model)
    assert len(merged.graph.find_nodes(op="call_function", target=torch.matmul)) == 2
    torch.testing.assert_close(merged(*inputs), model(*inputs))


def test_groups_that_would_depend_on_each_other_are_not_both_merged():
    class Crossed(nn.Module):
        def forward(self, a, b, left, right):
            first = torch.matmul(a, left)
            fourth = torch.matmul(b, right)
            second = torch.matmul(fourth, left)
            third = torch.matmul(first, right)
            return second, third

    model, inputs = Crossed(), tuple(torch.rand(3, 3) for _ in range(4))
    merged = merge_matmul(model)
    assert len(merged.graph.find_nodes(op="call_function", target=torch.matmul)) == 3
    torch.testing.assert_close(merged(*inputs), model(*inputs))


def test_dependence(engine):
    module = their(engine, "experimental.merge_matmul")
    graph = engine.Graph()
    x, other = graph.placeholder("x"), graph.placeholder("y")
    chain = [x]
    for _ in range(8):
        chain.append(graph.call_function(torch.relu, (chain[-1],)))
    assert module.may_depend_on(chain[3], x)
    assert not module.may_depend_on(chain[3], other)
    assert module.may_depend_on(chain[8], other)
    assert not module.may_depend_on(chain[8], other, search_depth=9)
    assert module.are_nodes_independent([chain[2], other])
    assert not module.are_nodes_independent([chain[2], other, chain[1]])


def test_a_breakpoint(engine, monkeypatch):
    stops = []
    monkeypatch.setattr("pdb.set_trace", lambda: stops.append(sys._getframe(1).f_code.co_name))
    traced = engine.symbolic_trace(Operators())
    assert their(engine, "experimental.debug").set_trace(traced) is traced
    traced(torch.ones(2), torch.ones(2))
    assert stops == ["forward"]
    assert "import pdb; pdb.set_trace()" in traced.code
    traced.recompile()
    assert "pdb" not in traced.code


def test_equalities(engine):
    equality = their(engine, "experimental.refinement_types").Equality
    assert str(equality("a", 3)) == repr(equality("a", 3)) == "a = 3"
    assert equality("a", 3) == equality("a", 3) != equality(3, "a")
    assert equality("a", 3) != "a = 3"
    with pytest.raises(TypeError):
        hash(equality("a", 3))


class TestInference:
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout()
            )
            self.side = nn.Conv2d(8, 8, 1)
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            x = self.body(x)
            x = functional.relu(self.side(x) + x) * torch.sigmoid(x)
            return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))

    def both(self, **options):
        torch.manual_seed(0)
        model = self.Small().eval()
        return model, [
            their(engine, "experimental.optimization").optimize_for_inference(copy.deepcopy(model), **options)
            for engine in ENGINES
        ]

    @pytest.mark.parametrize(
        "config",
        [
            None,
            {"mkldnn_layout_optimize": False},
            {"conv_bn_fuse": False},
            {"remove_dropout": False, "conv_bn_fuse": False},
            {"mkldnn_layout_optimize": {"heuristic": lambda region: False}},
            {"mkldnn_layout_optimize": {"heuristic": lambda region: True}},
            {"mkldnn_layout_optimize": {"heuristic": lambda region: len(region.start_nodes) == 1}},
        ],
    )
    def test_alike(self, config):
        model, (theirs, ours) = self.both(pass_config=config)
        assert described(theirs) == described(ours)
        modules = [
            {name: type(part).__name__ for name, part in each.named_modules() if name} for each in (theirs, ours)
        ]
        assert modules[0] == modules[1]
        example = torch.rand(2, 3, 16, 16)
        torch.testing.assert_close(ours(example), model(example), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("config", [None, {"heuristics": None}, 3])
    def test_a_wrong_configuration(self, engine, config):
        with pytest.raises(RuntimeError, match="mkldnn_layout_optimize config"):
            their(engine, "experimental.optimization").optimize_for_inference(
                self.Small().eval(), {"mkldnn_layout_optimize": config}
            )

    def test_regions_are_alike(self):
        seen = {}
        for engine in ENGINES:
            regions = seen[engine.__name__] = []

            def note(region, regions=regions):
                regions.append(
                    [[str(node) for node in nodes] for nodes in (region.start_nodes, region.nodes, region.end_nodes)]
                )
                return True

            optimize = their(engine, "experimental.optimization").optimize_for_inference
            optimize(self.Small().eval(), {"mkldnn_layout_optimize": {"heuristic": note}})
        assert seen["fxengine"] == seen["torch.fx"]

    def test_the_faster_layout_is_chosen(self, monkeypatch):
        times = iter([0.0, 1.0, 1.0, 9.0] * 10)
        monkeypatch.setattr(fxengine.experimental.mkldnn_layout.time, "perf_counter", lambda: next(times))
        optimization = their(fxengine, "experimental.optimization")
        model, example = self.Small().eval(), torch.rand(1, 3, 16, 16)
        heuristic = optimization.gen_mkl_autotuner([example], iters=2)
        chosen = optimization.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": heuristic}})
        assert chosen.graph.find_nodes(op="call_method", target="to_mkldnn")
        torch.testing.assert_close(chosen(example), model(example), rtol=1e-4, atol=1e-5)

        times = iter([0.0, 9.0, 9.0, 10.0] * 10)
        left = optimization.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": heuristic}})
        assert not left.graph.find_nodes(op="call_method", target="to_mkldnn")
        assert not any(type(part).__name__.startswith("Mkldnn") for part in left.modules())
        torch.testing.assert_close(left(example), model(example))

    def test_sets_that_are_joined(self, engine):
        sets = their(engine, "experimental.optimization").UnionFind(6)
        for member in range(5):
            sets.make_set(member)
        assert [sets.join(0, 1), sets.join(1, 2), sets.join(3, 4), sets.join(4, 3)] == [None, None, None, 3]
        assert [sets.find(member) for member in range(5)] == [0, 0, 0, 3, 3]
        with pytest.raises(AssertionError, match="Parent is None"):
            sets.find(5)

    def test_the_name_of_a_parent(self, engine):
        parent_name = their(engine, "experimental.optimization")._parent_name
        assert [parent_name(name) for name in ("a.b.c", "a")] == [("a.b", "c"), ("", "a")]


@pytest.mark.corpus
def test_a_module_of_torchvision():
    corpus.prepare()
    import torchvision.models

    model = torchvision.models.resnet18().eval()
    results = [
        described(their(engine, "experimental.normalize").NormalizeArgs(engine.symbolic_trace(model)).transform())
        for engine in ENGINES
    ]
    assert results[0] == results[1]
    normalized = NormalizeArgs(fxengine.symbolic_trace(model)).transform()
    example = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(normalized(example), model(example))
    assert all(not node.args for node in normalized.graph.find_nodes(op="call_function", target=operator.add)) is False


class TestInlining:
    class Inner(nn.Module):
        def forward(self, x, y):
            return torch.relu(x) + y, torch.neg(y)

    class OneResult(nn.Module):
        def forward(self, x, y):
            return torch.relu(x) * y

    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            a = self.inner(x, y=torch.sigmoid(x))
            return (a[0] + a[1], torch.tanh(x)) if isinstance(self.inner, TestInlining.Inner) else a + 1

    def inlined(self, engine, inner, **options):
        class Leaves(engine.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return True

        outer = self.Outer(inner)
        graph = Leaves().trace(outer)
        outer.inner = engine.symbolic_trace(inner)
        module = engine.GraphModule(outer, graph)
        for node in module.inner.graph.nodes:
            node.meta["note"] = node.name
        mapping = their(engine, "experimental.const_fold")._inline_module(module, "inner", **options)
        module.graph.lint()
        module.recompile()
        notes = [node.meta.get("note") for node in module.graph.nodes]
        return module, described(module), {key.name: value.name for key, value in mapping.items()}, notes

    @pytest.mark.parametrize("inner", [Inner, OneResult])
    @pytest.mark.parametrize("run_dce", [True, False])
    def test_alike(self, inner, run_dce):
        theirs, ours = (self.inlined(engine, inner(), run_dce=run_dce) for engine in ENGINES)
        assert ours[1:] == theirs[1:]
        example = torch.rand(3)
        torch.testing.assert_close(ours[0](example), self.Outer(inner())(example))

    def test_nothing_to_inline(self, engine):
        module = engine.symbolic_trace(self.Outer(self.OneResult()))
        module.add_submodule("other", nn.ReLU())
        module.add_submodule("uncalled", engine.symbolic_trace(self.OneResult()))
        inline = their(engine, "experimental.const_fold")._inline_module
        with pytest.raises(AssertionError, match="Expected GraphModule"):
            inline(module, "other")
        with pytest.raises(AssertionError, match="Could not find call_module node for uncalled"):
            inline(module, "uncalled")
