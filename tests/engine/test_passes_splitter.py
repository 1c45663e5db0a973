"""Splitting for an accelerator: the same parts, code, reports and events as torch.fx's."""

import importlib
import sys

import pytest
import torch
import torch.fx
from torch import nn

import fxengine
from fxengine.passes import splitter_base
from fxengine.passes.operator_support import create_op_support

ENGINES = (torch.fx, fxengine)


def part(engine, module):
    return importlib.import_module(f"{engine.__name__}.passes.{module}")


class Diamond(nn.Module):
    def forward(self, a):
        b = torch.sin(a)
        c = torch.cos(a)
        return b + c


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x, y, unused=None):
        first = torch.relu(self.linear(x) * self.scale)
        rows, columns = first.size(0), first.size(1)
        second = torch.sigmoid(y).reshape(columns, rows)
        third = torch.tanh(second) + torch.ones(1)
        parts = torch.split(torch.cos(third), 2)
        return torch.sin(parts[0]) + parts[1].sum(), second, torch.relu(torch.neg(third)), torch.arange(rows)


class Returned(nn.Module):
    def forward(self, x):
        return torch.sin(x), x


class NonTensors(nn.Module):
    """Numbers from the one to the other and back."""

    def forward(self, x):
        count = x.size(0)
        twice = count * 2
        y = torch.relu(x).view(count, -1)
        z = torch.cos(y) * twice
        rows = z.shape
        return torch.sin(z).view(rows), torch.neg(z) + rows[1]


def supporting(engine, names):
    def is_supported(submodules, node):
        target = node.target if isinstance(node.target, str) else node.target.__name__
        return target in names

    return part(engine, "operator_support").create_op_support(is_supported)


SUPPORT = {
    "unary": {"sin", "cos", "relu", "tanh"},
    "tensors": {"sin", "cos", "relu", "tanh", "neg", "sigmoid", "add", "linear", "reshape", "split", "getitem"},
    "numbers": {"size", "mul", "view", "getattr", "getitem", "relu", "sum", "reshape"},
    "all": {
        *(
            "sin",
            "cos",
            "relu",
            "tanh",
            "neg",
            "sigmoid",
            "add",
            "linear",
            "reshape",
            "split",
            "getitem",
            "size",
            "mul",
        ),
        *("view", "getattr", "sum", "arange", "ones"),
    },
    "nothing": set(),
}
MODELS = {
    Diamond: lambda: (torch.rand(3),),
    Mixed: lambda: (torch.rand(4, 4), torch.rand(4, 4), None),
    Returned: lambda: (torch.rand(2),),
    NonTensors: lambda: (torch.rand(3, 4),),
}


def splitter_of(engine, make, support, settings=None, **options):
    torch.manual_seed(0)
    model, inputs = make(), MODELS[make]()
    base = part(engine, "splitter_base")
    splitter = base._SplitterBase(
        engine.symbolic_trace(model),
        inputs,
        supporting(engine, SUPPORT[support]),
        base._SplitterSettingBase(**(settings or {})),
        **options,
    )
    return model, inputs, splitter


def code_of(module):
    return {path: each.code for path, each in module.named_modules() if hasattr(each, "code")}


def names_of(table):
    return {node.name: {each.name for each in nodes} for node, nodes in table.items() if nodes}


def outcome(engine, capsys, *args, **options):
    model, inputs, splitter = splitter_of(engine, *args, **options)
    split = splitter()
    torch.testing.assert_close(split(*inputs), model(*inputs))
    return (
        code_of(split),
        splitter.tags,
        splitter.get_node_submodule_map(),
        {node.name for node in splitter.acc_nodes},
        names_of(splitter.fusions),
        # In torch.fx what is noted for groups depends on the order of a set.
        None if splitter.fusions else names_of(splitter.deps),
        capsys.readouterr().out,
    )


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("support", SUPPORT)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"min_acc_module_size": 2},
        {"min_acc_module_size": 100},
        {"allow_non_tensor": True},
        {"skip_fusion": True, "allow_non_tensor": True},
        {"allow_non_tensor": True, "move_non_tensor_nodes_on_boundary": True},
    ],
    ids=str,
)
def test_the_same_parts(make, support, settings, capsys):
    outcomes = []
    for engine in ENGINES:
        try:
            outcomes.append(outcome(engine, capsys, make, support, settings))
        except Exception as error:  # noqa: BLE001 - compared.
            outcomes.append((type(error).__name__, str(error).replace("torch.fx", "fxengine")))
            capsys.readouterr()
    assert outcomes[1] == outcomes[0]


def test_names_and_tuples(capsys):
    theirs, ours = (
        outcome(engine, capsys, Mixed, "unary", non_acc_submodule_name="_run_on_gpu_", return_tuple=True)
        for engine in ENGINES
    )
    assert ours == theirs
    assert "_run_on_gpu_0" in ours[1]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("support", ["unary", "tensors", "all"])
def test_the_same_previews(make, support, capsys):
    previews = []
    for engine in ENGINES:
        _, _, splitter = splitter_of(engine, make, support, {"min_acc_module_size": 2})
        previews.append([splitter.node_support_preview(), splitter.split_preview()])
        assert all(not hasattr(node, "tag") for node in splitter.module.graph.nodes)
        previews[-1].append(capsys.readouterr().out)
    # Kinds with several dtypes come in the order of the graph; in torch.fx in that of a set.
    assert [sorted(text.splitlines()) for text in previews[0]] == [sorted(text.splitlines()) for text in previews[1]]


def test_what_cannot_be_lowered_or_run(capsys):
    previews = []
    for engine in ENGINES:
        base = part(engine, "splitter_base")

        class Backend(base._SplitterBase):
            def _lower_model_to_backend(self, mod, inputs):
                if any(node.target is torch.sin for node in mod.graph.nodes):
                    raise RuntimeError("no sine")
                if any(node.target is torch.tanh for node in mod.graph.nodes):
                    return super()._lower_model_to_backend(lambda *_: torch.ones(2) @ torch.ones(3), inputs)
                return mod

            def _find_culprit(self, mod, inputs):
                return super()._find_culprit(mod, inputs) if len(mod.graph.nodes) > 3 else "a culprit"

        module, inputs = engine.symbolic_trace(Mixed()), MODELS[Mixed]()
        support = supporting(engine, SUPPORT["tensors"] - {"add"})
        previews.append(Backend(module, inputs, support, base._SplitterSettingBase()).split_preview())
    assert previews[0] == previews[1]
    for text in ("error during lowering!\nUnable to find", "error during inference!\n", "running succeed!"):
        assert text in previews[1], text


def test_drawings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, _, splitter = splitter_of(fxengine, Mixed, "unary")
    splitter.node_support_preview(dump_graph=True)
    splitter.split_preview(dump_graph=True)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert {"node_support.dot", "preview.dot", "preview__run_on_acc_1.dot"} <= drawn
    support = (tmp_path / "node_support.dot").read_text()
    assert all(color in support for color in ("chartreuse1", "crimson", "AliceBlue"))


def test_parts_are_extended():
    extended = []
    for engine in ENGINES:
        for support in ("unary", "tensors"):
            _, _, splitter = splitter_of(engine, Mixed, support)
            splitter.tag(splitter.put_nodes_into_subgraphs())
            tags = []
            for tag in [each for each in splitter.tags if "acc" in each]:
                parents = {node.name for node in splitter.find_parent_nodes_of_subgraph(tag)}
                users = {
                    node.name: {each.name for each in users}
                    for node, users in splitter.find_reverse_deps(int(tag.rsplit("_", 1)[1])).items()
                }
                splitter.extend_acc_subgraph(tag)
                tags.append(
                    (tag, parents, users, {n.name: n.tag for n in splitter.module.graph.nodes if hasattr(n, "tag")})
                )
            extended.append(tags)
    assert extended[: len(extended) // 2] == extended[len(extended) // 2 :]


def test_results_with_inputs(capsys):
    results = []
    for engine in ENGINES:
        model, inputs, splitter = splitter_of(engine, Mixed, "unary")
        result = splitter.generate_split_results()
        torch.testing.assert_close(result.split_module(*inputs), model(*inputs))
        results.append((result.non_acc_submodule_prefix, result.submodule_inputs))
        _, _, splitter = splitter_of(engine, Mixed, "unary", {"max_acc_splits": 2})
        with pytest.raises(ValueError, match="max_acc_splits"):
            splitter.generate_split_results()
    assert results[0][0] == results[1][0]
    assert list(results[0][1]) == list(results[1][1])
    torch.testing.assert_close(results[1][1], results[0][1])


@pytest.mark.parametrize("engine", ENGINES, ids=["torch.fx", "fxengine"])
class TestEach:
    def test_inputs_of_submodules(self, engine):
        class InPlace(nn.Module):
            def forward(self, x):
                return x.add_(1)

        model = nn.Sequential(InPlace(), nn.ReLU())
        generate = part(engine, "splitter_base").generate_inputs_for_submodules
        copied = generate(model, [torch.zeros(2)], ["0", "1"], deepcopy=True)
        shared = generate(model, [torch.zeros(2)], ["0"])
        assert [copied["0"][0].tolist(), copied["1"][0].tolist(), shared["0"][0].tolist()] == [[0, 0], [1, 1], [1, 1]]
        with pytest.raises(TypeError):
            generate(model, [], ["0"])
        assert all(not module._forward_pre_hooks for module in model.modules())

    def test_tags_are_given_once(self, engine):
        _, _, splitter = splitter_of(engine, Diamond, "unary")
        parts = splitter.put_nodes_into_subgraphs()
        splitter.tag(parts)
        with pytest.raises(part(engine, "splitter_base").FxNetSplitterInternalError, match="was already tagged"):
            splitter.tag(parts)
        splitter.tags = ["_run_on_acc_0", "_run_on_cpu_1"]
        splitter.split(remove_tag=True)
        splitter.tag(parts)

    def test_circles(self, engine):
        _, _, splitter = splitter_of(engine, Diamond, "unary")
        sine, cosine = (
            splitter.module.graph.find_nodes(op="call_function", target=each)[0] for each in (torch.sin, torch.cos)
        )
        splitter.deps[sine].add(cosine)
        splitter.deps[cosine].add(sine)
        with pytest.raises(part(engine, "splitter_base").FxNetSplitterInternalError, match="can't be empty"):
            splitter()

    def test_nothing_to_split(self, engine):
        graph = engine.Graph()
        graph.output(None)
        base = part(engine, "splitter_base")
        module = engine.GraphModule(nn.Module(), graph)
        splitter = base._SplitterBase(module, (), supporting(engine, ()), base._SplitterSettingBase())
        with pytest.raises(base.FxNetSplitterInternalError, match="Couldn't create subgraphs"):
            splitter()

    def test_options_of_the_command_line(self, engine, monkeypatch):
        options = ["--min_acc_module_size", "7", "--skip-fusion", "--allow_non_tensor", "--other", "--max-acc-splits=3"]
        monkeypatch.setattr(sys, "argv", ["program", *options])
        settings = part(engine, "splitter_base")._SplitterSettingBase(2)
        assert vars(settings) == {
            "min_acc_module_size": 7,
            "skip_fusion": True,
            "allow_non_tensor": True,
            "max_acc_splits": -1,
            "move_non_tensor_nodes_on_boundary": False,
        }

    def test_overlapping_groups(self, engine, monkeypatch):
        _, _, splitter = splitter_of(engine, Mixed, "all", {"allow_non_tensor": True})
        calls = [node for node in splitter.module.graph.nodes if node.op.startswith("call")]
        first, second, third = set(calls[:3]), set(calls[2:4]), set(calls[5:7])
        groups = {
            calls[0]: first,
            calls[1]: first,
            calls[2]: second,
            calls[3]: second,
            calls[5]: third,
            calls[6]: third,
        }
        splitter.fusions = dict(groups)
        splitter._merge_overlapping_fusions()
        assert splitter.fusions == groups
        monkeypatch.setenv("_SPLITTER_MERGE_OVERLAPPING_FUSIONS", "1")
        splitter._merge_overlapping_fusions()
        assert [splitter.fusions[calls[place]] for place in (0, 3, 6)] == [first | second, first | second, third]


class TestEvents:
    def finders(self, support, **options):
        for engine in ENGINES:
            module = engine.symbolic_trace(NonTensors())
            part(engine, "shape_prop").ShapeProp(module).propagate(*MODELS[NonTensors]())
            base = part(engine, "splitter_base")
            yield base.FxNetAccNodesFinder(module, supporting(engine, SUPPORT[support]), options.get("allow", False))

    @pytest.mark.parametrize("support", SUPPORT)
    @pytest.mark.parametrize("allow", [True, False])
    def test_the_same_events(self, support, allow):
        theirs, ours = self.finders(support, allow=allow)
        assert {node.name for node in theirs()} == {node.name for node in ours()}
        told = [
            {name: sorted(events) for name, events in finder.tracker.to_dict().items()} for finder in (theirs, ours)
        ]
        assert told[0] == told[1]

    def test_what_is_written(self, tmp_path, monkeypatch):
        monkeypatch.setenv(splitter_base.ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES, "relu,b,unknown")
        texts = {}
        for engine in ENGINES:
            base = part(engine, "splitter_base")
            graph = engine.Graph()
            a = graph.placeholder("a")
            b, c = graph.call_function(torch.relu, (a,)), graph.call_function(torch.sin, (a,), name="b")
            for mode in range(4):
                prefix = str(tmp_path / f"{engine.__name__}{mode}")
                tracker = base.NodeEventTracker(mode, prefix)
                tracker.add(a, "first|one")
                tracker.add(b, "second|two", a)
                tracker.add(c, "third|three", b)
                tracker.add(c, "fourth|four")
                tracker.dump()
                lines = []
                tracker.print_node("b", recursive=True, writer=lines.append)
                tracker.writer = lines.append
                tracker.print_all()
                tracker.print_node("relu", tab="> ")
                files = [
                    (tmp_path / (prefix + suffix)).read_text() if (tmp_path / (prefix + suffix)).exists() else None
                    for suffix in (base.ALL_SUFFIX, base.NODES_SUFFIX)
                ]
                texts.setdefault(engine.__name__, []).append((lines, files, tracker.to_dict()))
        assert texts["fxengine"] == texts["torch.fx"]
        assert [[text is not None for text in files] for _, files, _ in texts["fxengine"]] == [
            [False, False],
            [True, False],
            [True, True],
            [True, True],
        ]

    def test_the_mode_of_a_finder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(splitter_base, "TRACKER_MODE", "1")
        monkeypatch.setattr(splitter_base, "DUMP_PREFIX", str(tmp_path / "events"))
        *_, ours = self.finders("all")
        ours()
        assert (tmp_path / "events_all.txt").read_text().startswith("Node: x:\n  x: init_cpu|not_callable #\n")


def test_a_finder_of_the_users():
    class Finder(splitter_base.FxNetAccNodesFinder):
        def __call__(self):
            return {node for node in super().__call__() if node.target is not torch.cos}

    module = fxengine.symbolic_trace(Diamond())
    support = create_op_support(lambda submodules, node: node.op == "call_function")
    settings = splitter_base._SplitterSettingBase()
    finder = Finder(module, support, settings.allow_non_tensor)
    splitter = splitter_base._SplitterBase(module, (torch.rand(2),), support, settings, nodes_finder=finder)
    assert splitter().graph.find_nodes(op="call_module")[0].target == "_run_on_cpu_0"


def test_many_nodes_are_sorted_quickly():
    graph = fxengine.Graph()
    x = graph.placeholder("x")
    nodes = [x]
    for place in range(3000):
        nodes.append(graph.call_function((torch.sin, torch.cos)[place % 2], (nodes[-1],)))
        nodes[-1].meta["type"] = torch.Tensor
    graph.output(nodes[-1])
    module = fxengine.GraphModule(nn.Module(), graph)
    support = create_op_support(lambda submodules, node: node.target is torch.sin)
    settings = splitter_base._SplitterSettingBase(skip_fusion=True)
    splitter = splitter_base._SplitterBase(module, (torch.rand(1),), support, settings)
    assert len(splitter.put_nodes_into_subgraphs()) == 3000
