"""The search for what a back end gets wrong: the same culprits, reports and results as torch.fx's."""

import importlib

import pytest
import torch
import torch.fx
from torch import nn

import fxengine

ENGINES = (torch.fx, fxengine)


def part(engine, module):
    return importlib.import_module(f"{engine.__name__}.passes.{module}")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, y):
        a = torch.relu(x)
        b = torch.sigmoid(a) + y
        c = self.linear(b)
        rows = c.size(0)
        d = torch.tanh(c).reshape(rows, -1)
        return torch.neg(d) + torch.cos(a), d


WRONG = {
    "nothing": (),
    "one": ("sigmoid",),
    "two": ("sigmoid", "neg"),
    "first": ("relu",),
    "last": ("cos",),
    "all": None,
}


def minimizer_of(engine, settings, wrong=(), *, failing=(), exclusion=None, exported=None):
    base = part(engine, "net_min_base")

    class Minimizer(base._MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            return mod(*inputs)

        def run_b(self, mod, inputs, report_idx=-1):
            names = {
                getattr(node.target, "__name__", node.target) for node in mod.graph.nodes if node.op.startswith("call")
            }
            if names & set(failing):
                raise ValueError("the back end fails")
            result = mod(*inputs)
            if wrong is None or names & set(wrong):
                return tuple(each + 1 for each in result) if isinstance(result, tuple) else result + 1
            return result

    def compare(a, b, names):
        pairs = list(zip(a, b, strict=True)) if isinstance(a, tuple) else [(a, b)]
        return float(len(names)), all(torch.equal(torch.as_tensor(x), torch.as_tensor(y)) for x, y in pairs)

    def export(inputs, module, name):
        exported.append((len(inputs), name, len(module.graph.nodes)))

    torch.manual_seed(0)
    return Minimizer(
        engine.symbolic_trace(Net()),
        (torch.rand(2, 3), torch.rand(2, 3)),
        compare,
        base._MinimizerSettingBase(**settings),
        module_exporter=None if exported is None else export,
        exclusion_fn=exclusion,
    )


def outcome(engine, capsys, settings, wrong=(), arguments=None, **options):
    exported = [] if options.pop("export", False) else None
    minimizer = minimizer_of(engine, settings, wrong, exported=exported, **options)
    try:
        found = {node.name for node in minimizer.minimize(**(arguments or {}))}
    except Exception as error:  # noqa: BLE001 - compared.
        found = (type(error).__name__, str(error))
    # Of several culprits the reports tell in the order of a set.
    reports = [[line for line in report if "{" not in line] for report in minimizer.reports]
    printed = [line for line in capsys.readouterr().out.splitlines() if "{" not in line]
    return found, reports, minimizer.results, minimizer.iteration, sorted(minimizer.a_outputs), exported, printed


def both(capsys, *args, **options):
    theirs, ours = (outcome(engine, capsys, *args, **options) for engine in ENGINES)
    return theirs, ours


@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate", "block"])
@pytest.mark.parametrize("wrong", ["nothing", "two", "last"])
@pytest.mark.parametrize("more", [{}, {"accumulate_error": True}, {"all_outputs": True}], ids=str)
def test_the_same_culprits(method, wrong, more, capsys):
    theirs, ours = both(capsys, {"traverse_method": method, **more}, WRONG[wrong])
    assert ours == theirs


@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate", "block"])
def test_runs_that_fail(method, capsys):
    theirs, ours = both(capsys, {"traverse_method": method}, failing=("tanh",))
    assert ours == theirs


@pytest.mark.parametrize("find_last", [True, False])
@pytest.mark.parametrize("wrong", WRONG)
def test_one_end_of_a_block(find_last, wrong, capsys):
    theirs, ours = both(capsys, {"traverse_method": "block"}, WRONG[wrong], {"find_last_node": find_last})
    assert ours == theirs


@pytest.mark.parametrize("arguments", [{"start": "sigmoid"}, {"end": "linear"}, {"start": "relu", "end": "add"}])
@pytest.mark.parametrize("method", ["sequential", "binary"])
def test_a_part_of_the_graph(arguments, method, capsys):
    theirs, ours = both(
        capsys, {"traverse_method": method, "find_all": method == "sequential"}, ("neg", "sigmoid"), arguments
    )
    assert ours == theirs


@pytest.mark.parametrize("skipped", [["sigmoid"], ["add", "tanh"], ["add_1"], []])
def test_between_nodes_that_are_skipped(skipped, capsys):
    theirs, ours = both(capsys, {"traverse_method": "skip"}, (), {"skip_nodes": skipped})
    assert ours == theirs
    theirs, ours = both(capsys, {"traverse_method": "skip"}, ("cos",), {"skip_nodes": skipped})
    assert ours == theirs


@pytest.mark.parametrize("method", ["sequential", "binary", "defined"])
def test_exclusions(method, capsys):
    def without(name):
        def exclude(nodes, start, end):
            nodes[:] = [node for node in nodes if node.name not in name]

        return exclude

    for names in (("relu",), ("sigmoid", "add"), ("relu", "sigmoid", "add", "linear", "size", "tanh")):
        theirs, ours = both(
            capsys,
            {"traverse_method": method, "find_all": method == "sequential"},
            ("nothing",),
            exclusion=without(names),
        )
        assert ours == theirs


@pytest.mark.parametrize("method", ["sequential", "block"])
def test_exports(method, capsys):
    theirs, ours = both(capsys, {"traverse_method": method}, ("neg",), export=True)
    assert ours == theirs
    assert ours[5]


@pytest.mark.parametrize("settings", [{}, {"return_intermediate": True}])
@pytest.mark.parametrize("ends", [(None, None), ("sigmoid", "linear"), ("tanh", None)])
def test_one_run(settings, ends, capsys):
    seen = []
    for engine in ENGINES:
        minimizer = minimizer_of(engine, settings, ("neg",))
        minimizer.run_nodes(*ends)
        minimizer.print_reports()
        seen.append((minimizer.results, minimizer.reports, capsys.readouterr().out))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("engine", ENGINES, ids=["torch.fx", "fxengine"])
class TestEach:
    def test_refusals(self, engine, capsys):
        assert outcome(engine, capsys, {"traverse_method": "skip"})[0][0] == "RuntimeError"
        assert "Unknown traverse method" in outcome(engine, capsys, {"traverse_method": "other"})[0][1]
        assert "not supported" in "".join(
            outcome(engine, capsys, {"traverse_method": "accumulate", "find_all": True})[-1]
        )

    def test_both_ways_are_the_users(self, engine):
        base = part(engine, "net_min_base")
        module = engine.symbolic_trace(Net())
        minimizer = base._MinimizerBase(
            module, (torch.rand(2, 3),) * 2, lambda a, b, names: (0.0, True), base._MinimizerSettingBase()
        )
        for way in ("run_a", "run_b"):
            with pytest.raises(RuntimeError, match=rf"{way}\(\) is not implemented"):
                getattr(minimizer, way)(module, ())
        with pytest.raises(AssertionError, match="does not match"):
            base._MinimizerBase(module, (torch.rand(2, 3),) * 3, None, base._MinimizerSettingBase())

    def test_settings_as_text(self, engine):
        text = str(part(engine, "net_min_base")._MinimizerSettingBase(find_all=True))
        assert text.startswith("FX Minimizer Settings:\n\taccumulate_error: False\n")
        assert "\tfind_all: True\n" in text


def test_all_culprits_are_found():
    """Where torch.fx forgets those that it found before."""
    binary = minimizer_of(fxengine, {"traverse_method": "binary", "find_all": True}, ("sigmoid", "cos"))
    assert {node.name for node in binary.minimize()} == {"sigmoid", "cos"}
    skipping = minimizer_of(fxengine, {"traverse_method": "skip"}, ("sigmoid",))
    assert "sigmoid" in {node.name for node in skipping.minimize(skip_nodes=["add"])}
    defined = minimizer_of(fxengine, {"traverse_method": "defined"}, ("sigmoid",))
    assert {node.name for node in defined.minimize(start="sigmoid", end="add")} == {"sigmoid", "add"}
