"""What a worker answers about files as people write them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fxworker.texts import digest
from fxworker.wire import (
    LATER,
    Construct,
    EarlyReport,
    EnvironmentReport,
    Inputs,
    Limits,
    Overlay,
    Span,
    TraceReport,
    TraceTarget,
)
from tests.worker.harness import Worker, all_problems, marked, of, only_problem

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        y = self.fc(x)
        return y.relu()
"""


def test_the_first_message_says_what_the_worker_runs_on(worker):
    assert worker.environment.problem == ""
    assert worker.environment.executable == sys.executable
    assert worker.environment.torch
    assert worker.environment.devices[0] == "cpu"


def test_a_model_is_captured_with_code_shapes_and_origins(worker, model):
    path = model(NET)
    report = worker.trace(path)
    assert report.status == "complete"
    assert report.digest == digest(NET)
    assert report.problems == ()
    net = of(report, "Net")
    assert net.construct == Construct("Net()", "no arguments")
    assert net.facts is not None
    assert net.facts.parameters == 72
    assert [node.op for node in net.nodes] == ["placeholder", "call_module", "call_method", "output"]
    assert [node.name for node in net.nodes] == ["x", "fc", "relu", "output"]
    fc = net.nodes[1]
    assert fc.tensor is not None
    assert fc.tensor.shape[-1] == 8
    assert fc.origin is not None
    assert marked(NET, fc.origin.frames[-1].location) == "self.fc(x)"
    assert fc.line is not None
    assert "self.fc(x)" in net.code.split("\n")[fc.line - 1]
    assert net.inputs is not None
    assert net.inputs.source == "inferred"


def test_what_is_traced_is_the_text_of_the_request(worker, model):
    path = model("raise SystemExit\n")
    report = worker.trace(path, NET)
    assert report.status == "complete"


def test_a_dynamic_branch_is_a_problem_on_its_condition(worker, model):
    text = NET.replace(
        "        return y.relu()\n", "        if y.sum() > 0:\n            return y\n        return y.relu()\n"
    )
    report = worker.trace(model(text))
    assert report.status == "partial"
    problem = only_problem(report)
    assert problem.code == "FX001"
    assert problem.target == "Net"
    assert marked(text, problem.location) == "y.sum() > 0"
    assert problem.original.startswith("TraceError: symbolically traced variables cannot be used as inputs")
    assert [node.name for node in of(report, "Net").nodes][:2] == ["x", "fc"]


def test_a_class_inside_another_traced_model_needs_no_instance(worker, model):
    text = (
        NET
        + """

class Outer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner = Inner(width)

    def forward(self, x):
        return self.inner(x)


class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)
"""
    )
    report = worker.trace(model(text))
    inner = of(report, "Inner")
    assert (inner.enclosed_by, inner.module_path, inner.status) == ("Outer", "inner", "complete")
    assert inner.nodes == ()
    assert of(report, "Outer").enclosed_by == ""


def test_a_class_that_only_calls_its_part_is_inside_a_model_that_torch_fx_cannot_trace(worker, model):
    text = (
        NET
        + """

class Outer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.head, self.unused = Head(Inner()), Unused(width)

    def forward(self, x):
        if x.sum() > 0:
            x = -x
        return self.head(x)


class Head(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


class Inner(nn.Module):
    def forward(self, x):
        return 2 * x


class Unused(Head):
    def forward(self, x):
        return x
"""
    )
    report = worker.trace(model(text))
    assert of(report, "Outer").status == "partial"
    head = of(report, "Head")
    assert (head.enclosed_by, head.module_path) == ("Outer", "head")
    assert of(report, "Unused").enclosed_by == ""


def test_the_ways_to_build_are_tried_in_order(worker, model):
    text = NET.replace("dim=8", "dim")
    request = worker.request(model(text))
    (target,) = request.targets
    ways = (Construct("Net(unknown_name)", "call"), Construct("Net(6)", "call"))
    report = worker.trace(model(text), targets=(replace(target, constructs=ways),))
    assert of(report, "Net").construct == ways[1]
    assert report.status == "complete"


def test_what_a_node_yields_is_said_when_it_is_no_tensor(worker, model):
    text = NET.replace(
        "        return y.relu()\n", "        a, b = y.chunk(2, dim=-1)\n        return a * x.size(0), b\n"
    )
    report = worker.trace(model(text))
    values = {node.name: node.value for node in of(report, "Net").nodes}
    assert values["chunk"].startswith("(f32[")
    assert values["size"] == "int"
    assert values["fc"] == ""
    assert values["output"].startswith("(f32[")


def test_inputs_that_somebody_wrote_and_that_do_not_fit_are_a_problem(worker, model):
    text = NET.replace("class Net", "# fx: inputs torch.randn(2, 3, 5)\nclass Net")
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert problem.code == "FX201"
    assert marked(text, problem.location) == "self.fc(x)"
    assert of(report, "Net").status == "complete"


def test_what_stops_a_graph_where_the_model_stops_elsewhere_is_no_problem_of_shapes(worker, model):
    text = NET.replace("class Net", "# fx: inputs torch.randn(2, 5)\nclass Net").replace(
        "        y = self", "        if isinstance(x, torch.Tensor):\n            x = x.decoded()\n        y = self"
    )
    assert [each.code for each in all_problems(worker.trace(model(text)))] == ["FX306"]


def test_inputs_of_the_request_are_used_before_inferred_ones(worker, model):
    request = worker.request(model(NET))
    inputs = Inputs("torch.randn(5, 8)", "directive")
    report = worker.trace(model(NET), targets=(replace(request.targets[0], inputs=(inputs,)),))
    net = of(report, "Net")
    assert net.inputs == inputs
    assert net.nodes[0].tensor is not None
    assert net.nodes[0].tensor.shape == (5, 8)


def test_a_constructor_that_raises_is_told_on_its_line(worker, model):
    text = NET.replace("        self.fc = nn.Linear(dim, dim)\n", "        self.fc = nn.Linear(dim, 'a')\n")
    problem = only_problem(worker.trace(model(text)))
    assert problem.code == "FX102"
    assert marked(text, problem.location) == "nn.Linear(dim, 'a')"


def test_a_constructor_that_forgets_the_one_it_inherits_is_told_and_hides_no_other(worker, model):
    forgetful = (
        "class Forgetful(nn.Module):\n"
        "    def __init__(self, p):\n        self.p = p\n"
        "    def forward(self, x):\n        return x\n"
    )
    report = worker.trace(model(f"{NET}{forgetful}"))
    assert of(report, "Net").status == "complete"
    problem = only_problem(report)
    assert problem.code == "FX102"
    assert "`Forgetful` does not call `super().__init__()`" in problem.message


LEFT_OUT = """
from torch import nn


class Wrapped(nn.Module):
    def __init__(self, encoder=None, width=8):
        super().__init__()
        self.encoder = encoder
        self.fc = nn.Linear(width, 2)

    def forward(self, x):
        return self.fc(self.encoder(x))


class Loaded(nn.Module):
    def __init__(self, modules=None):
        super().__init__()
        self.mods = nn.ModuleDict(modules)

    def forward(self, x):
        return self.mods.encoder(x)


class Mistaken(nn.Module):
    def __init__(self, encoder=None):
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.encoded(x)
"""


def test_what_nobody_gave_a_model_that_may_be_needed_is_no_error(worker, model):
    report = worker.trace(model(LEFT_OUT))
    told = {each.qualname: each.problems[0] for each in report.targets}
    assert [told[each].severity for each in ("Wrapped", "Loaded", "Mistaken")] == ["warning", "warning", "error"]
    assert told["Wrapped"].explanation == "built as `Wrapped()`, where `encoder` is None"
    assert "# fx: Loaded(modules=…)" in told["Loaded"].hint


def test_a_class_that_looks_like_a_model_and_is_none_is_not_spoken_of(worker, model):
    model("class RandomTransformer: ...\n", "base.py")
    looks = "class Act(RandomTransformer):\n    def forward(self, x):\n        return 2 * x\n"
    report = worker.trace(model(f"from base import RandomTransformer\n{NET}\n\n{looks}"))
    assert [each.qualname for each in report.targets] == ["Net"]
    assert report.status == "complete"


def test_a_directive_that_fails_is_told_and_nothing_else_is_tried(worker, model):
    text = "import torch\nfrom torch import nn\n\n\n# fx: Net(1, 2, 3)\n" + NET.partition("\n\n\n")[2]
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert problem.code == "FX102"
    assert problem.location.span.line == 5
    assert of(report, "Net").construct is not None


def test_arguments_are_inferred(worker, model):
    text = NET.replace("dim=8", "dim, num_heads: int, dropout: float").replace(
        "super().__init__()", "super().__init__()\n        assert dim % num_heads == 0"
    )
    report = worker.trace(model(text))
    net = of(report, "Net")
    assert net.construct is not None
    assert net.construct.source == "inferred"
    assert report.status == "complete"


def test_what_was_inferred_gives_way_to_what_is_said(worker, model):
    path = model(NET.replace("dim=8", "dim"))
    assert of(worker.trace(path), "Net").construct.source == "inferred"
    assert of(worker.trace(path), "Net").construct.source == "inferred"
    assert of(worker.trace(path, NET), "Net").construct == Construct("Net()", "no arguments")
    said = NET.replace("class Net", "# fx: Net(5)\nclass Net")
    assert of(worker.trace(path, said), "Net").construct.expression == "Net(5)"


def test_what_a_stand_in_lacks_is_no_problem_of_the_model(worker, model):
    asking = "        for each in (self.thing,):\n            x = x * each.vocab_size.weird().linear(1)['x']\n"
    text = (
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, thing):\n        super().__init__()\n"
        f"        self.thing = thing\n    def forward(self, x):\n{asking}        return self.thing(x)\n"
    )
    net = of(worker.trace(model(text)), "Net")
    (problem,) = net.problems
    assert (problem.code, problem.severity) == ("FX103", "information")
    assert problem.message == "no arguments are known for `Net(thing)`"
    assert "'Identity' object has no attribute 'vocab_size'" in problem.explanation
    # An argument that the file names is no stand-in.
    named = of(worker.trace(model(text + "net = Net(nn.Identity())\n")), "Net")
    assert [each.code for each in named.problems] == ["FX009"]


UNEXPECTED = """from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        x = x + 1
        if str(self.width)[::-1] != "zyx":
            raise ValueError("not so")
        return x
"""


def test_an_exception_is_in_doubt_where_the_arguments_were_inferred(worker, model):
    path = model(UNEXPECTED)
    net = of(worker.trace(path), "Net")
    (problem,) = net.problems
    assert (problem.code, problem.severity, problem.message) == ("FX009", "warning", "ValueError: not so")
    assert f"built as `{net.construct.expression}`" in problem.explanation
    assert problem.hint == "say how it is built in a comment above the class: `# fx: Net(…)`"
    (said,) = of(worker.trace(path, UNEXPECTED.replace("class Net", "# fx: Net(5)\nclass Net")), "Net").problems
    assert (said.code, said.severity) == ("FX009", "error")
    misspelled = UNEXPECTED.replace('raise ValueError("not so")', "return x * self.wdith")
    (problem,) = of(worker.trace(path, misspelled), "Net").problems
    assert (problem.code, problem.severity) == ("FX009", "error")


def test_a_name_that_is_not_defined_is_told_behind_what_cannot_be_traced_and_inputs_are_known(worker, model):
    text = NET.replace("y = self.fc(x)", "y = self.fc(x)\n        y = other(y, x)\n        y = y + scael").replace(
        "class Net", "def other(y, x):\n    return torch.zeros(len(y), 1, device=x.device) + y\n\n\nclass Net"
    )
    net = of(worker.trace(model(text)), "Net")
    assert ("FX009", "scael") in {(each.code, marked(text, each.location)) for each in net.problems}
    assert {each.code for each in net.problems} <= {"FX002", "FX006", "FX009"}
    assert net.inputs is not None
    assert net.inputs.expression == "torch.randn(2, 8)"
    (fc,) = (node for node in net.nodes if node.op == "call_module")
    assert fc.tensor is not None
    assert fc.tensor.shape == (2, 8)


def test_what_is_drawn_is_the_same_in_every_process(model):
    path = model(
        NET.replace("import torch\n", "import random\n\nimport torch\n", 1).replace(
            "y.relu()", "y.relu() * random.random() + torch.rand(()).item()"
        )
    )
    codes = set[str]()
    for _ in range(2):
        worker = Worker()
        codes.add(of(worker.trace(path), "Net").code)
        assert worker.close() == 0
    assert len(codes) == 1


def test_a_class_that_cannot_be_built_is_a_quiet_matter(worker, model):
    text = NET.replace("dim=8", "schema").replace("nn.Linear(dim, dim)", "{}[schema.weird().linear(1)['x']]")
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert (problem.code, problem.severity) == ("FX103", "information")
    assert marked(text, problem.location) == "Net"


def test_a_syntax_error_is_told_where_it_is(worker, model):
    text = NET + "def broken(:\n    pass\n"
    report = worker.trace(model(NET), text, targets=worker.request(model(NET)).targets)
    problem = only_problem(report)
    assert problem.code == "FX101"
    assert problem.location.span.line == text.count("\n") - 1
    assert report.status == "not traced"


def test_a_missing_import_is_told_on_the_statement_and_the_rest_goes_on(worker, model):
    text = (
        "import no_such_module_of_ours as nsm\n"
        + NET
        + """

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nsm.Thing()

    def forward(self, x):
        return self.x(x).relu()
"""
    )
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert (problem.code, problem.severity) == ("FX101", "error")
    assert marked(text, problem.location) == "import no_such_module_of_ours as nsm"
    assert of(report, "Net").status == "complete"
    other = of(report, "Other")
    assert (other.status, [each.name for each in other.nodes]) == ("complete", ["x", "x_1", "relu", "output"])


def test_a_missing_import_that_no_model_needs_is_a_warning(worker, model):
    text = "import no_such_module_of_ours as nsm\n" + NET + "\n\ndef train():\n    nsm.fit(Net())\n"
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert (problem.code, problem.severity) == ("FX101", "warning")
    assert of(report, "Net").status == "complete"


PACKAGED = """\
import torch
from torch import nn
from no_such_module_of_ours import Rescale, rescale
from pack.helpers import rescaled


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = Rescale(2)

    def forward(self, x):
        return rescale(self.x(x))


class Other(nn.Module):
    def forward(self, x):
        return rescaled(x)
"""


def test_a_missing_import_that_the_package_around_has_asked_for_before_is_told_all_the_same(worker, model, tmp_path):
    model("from pack.helpers import rescaled\n", "pack/__init__.py")
    helpers = model(
        "from no_such_module_of_ours import rescale\n\n\ndef rescaled(x):\n    return rescale(x)\n",
        "pack/helpers.py",
    )
    path = model(PACKAGED, "pack/nets.py")
    report = worker.trace(path, roots=(str(tmp_path),))
    problem = only_problem(report)
    assert (problem.code, problem.severity) == ("FX101", "error")
    assert marked(PACKAGED, problem.location) == "from no_such_module_of_ours import Rescale, rescale"
    # Where nothing of the file's own is missing, it is told at the call that wants it, and where that is.
    text = PACKAGED.replace("from no_such_module_of_ours import Rescale, rescale\n", "")
    (problem,) = of(worker.trace(path, text, roots=(str(tmp_path),)), "Other").problems
    assert (problem.code, marked(text, problem.location)) == ("FX009", "rescaled(x)")
    assert (
        problem.message == "ModuleNotFoundError: No module named 'no_such_module_of_ours', in `rescaled` (helpers.py:5)"
    )
    assert (str(helpers), 5) in [(each.location.path, each.location.span.line) for each in problem.related]


def test_a_training_script_is_not_run(worker, model, tmp_path):
    sentinel = tmp_path / "ran"
    text = (
        NET.replace("import torch\n", "import argparse\nimport pathlib\nimport torch\n")
        + f"""
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
args = parser.parse_args()
pathlib.Path({str(sentinel)!r}).write_text("yes")
model = Net(4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10**9):
    loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""
    )
    report = worker.trace(model(text))
    assert report.problems == ()
    assert report.status == "complete"
    assert not sentinel.exists()


def test_sys_exit_at_import_is_a_problem_on_its_line(worker, model):
    text = "import sys\nimport torch\nsize = sys.exit(3)\n" + NET.replace("dim=8", "dim=size")
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert problem.code == "FX101"
    assert marked(text, problem.location) == "sys.exit(3)"


def test_a_project_with_names_of_ours_and_pythons(worker, model, tmp_path):
    for name in ("types.py", "logging.py", "wire.py", "serve.py", "torch_helper.py"):
        model("VALUE = 8\n", name)
    model("", "engine/__init__.py")
    model("WIDTH = 8\n", "engine/config.py")
    text = "from engine.config import WIDTH\nfrom wire import VALUE\n" + NET.replace("dim=8", "dim=WIDTH + VALUE")
    report = worker.trace(model(text))
    assert report.status == "complete"
    assert str(tmp_path / "engine" / "config.py") in report.dependencies
    assert str(tmp_path / "wire.py") in report.dependencies


def test_a_file_named_like_a_module_of_pythons_own(worker, model):
    assert worker.trace(model(NET, "types.py")).status == "complete"
    assert worker.trace(model(NET, "token.py")).status == "complete"


def test_relative_imports(worker, model):
    model("", "pkg/__init__.py")
    model("from .deep.widths import WIDTH\n", "pkg/sizes.py")
    model("", "pkg/deep/__init__.py")
    model("WIDTH = 12\n", "pkg/deep/widths.py")
    path = model(
        "from . import sizes\nfrom .deep import widths\n" + NET.replace("dim=8", "dim=sizes.WIDTH"), "pkg/net.py"
    )
    report = worker.trace(path)
    assert report.status == "complete"
    net = of(report, "Net")
    assert net.facts is not None
    assert net.facts.parameters == 12 * 13


def test_relative_imports_without_an_init_file(worker, model, tmp_path):
    model("WIDTH = 12\n", "src/bare/sizes.py")
    path = model("from .sizes import WIDTH\n" + NET.replace("dim=8", "dim=WIDTH"), "src/bare/net.py")
    report = worker.trace(path, roots=(tmp_path, tmp_path / "src"))
    assert report.status == "complete"


def test_relative_imports_that_lead_out_of_the_package_around_them(worker, model, tmp_path):
    model("", "elsewhere/patch/__init__.py")
    model("WIDTH = 8\n", "elsewhere/patch/net/sizes.py")
    model("from .sizes import WIDTH\n", "elsewhere/patch/net/__init__.py")
    text = NET.replace("import torch\n", "import torch\nfrom . import WIDTH\nfrom ...helpers import logged\n")
    path = model(text.replace("dim=8", "dim=WIDTH"), "elsewhere/patch/net/net.py")
    report = worker.trace(path, roots=(str(tmp_path),))
    assert report.status == "complete"
    net = of(report, "Net")
    assert net.facts is not None
    assert net.facts.parameters == 8 * 8 + 8


def test_a_package_whose_init_fails_hides_no_model(worker, model):
    model("raise RuntimeError('half done')\n", "pkg/__init__.py")
    model("WIDTH = 12\n", "pkg/sizes.py")
    path = model("from .sizes import WIDTH\n" + NET.replace("dim=8", "dim=WIDTH"), "pkg/net.py")
    assert worker.trace(path).status == "complete"


def test_a_package_that_cannot_be_imported_has_what_could_be_executed_of_it(worker, model, tmp_path):
    model(
        "from pack.constants import WIDTH\nimport pack.broken\nNAME = 'net'\nclass Settings:\n    depth = undefined\n"
        "def scaled(x):\n    return x * 2\n",
        "pack/__init__.py",
    )
    model("WIDTH = 5\n", "pack/constants.py")
    model("raise RuntimeError('no licence')\n", "pack/broken.py")
    text = NET.replace("import torch\n", "import torch\nfrom pack import NAME, WIDTH, scaled\n").replace(
        "nn.Linear(dim, dim)", "nn.Linear(dim, WIDTH)"
    )
    text = text.replace("y.relu()", "scaled(y).relu()")
    report = worker.trace(model(text, "pack/net.py"), roots=(str(tmp_path),))
    assert (report.status, all_problems(report)) == ("complete", [])
    net = of(report, "Net")
    assert net.facts is not None
    assert net.facts.parameters == 8 * 5 + 5


def test_it_has_its_modules_that_were_imported_before_it_failed(worker, model, tmp_path):
    model("from . import sizes, broken\n", "torn/__init__.py")
    model("WIDTH = 5\n", "torn/sizes.py")
    model("raise RuntimeError('no licence')\n", "torn/broken.py")
    text = NET.replace("import torch\n", "import torch\nimport torn.sizes\n").replace("dim=8", "dim=torn.sizes.WIDTH")
    report = worker.trace(model(text, "torn/net.py"), roots=(str(tmp_path),))
    assert (report.status, all_problems(report)) == ("complete", [])


def test_an_import_sees_the_unsaved_text_of_another_file(worker, model, tmp_path):
    model("WIDTH = 4\n", "sizes.py")
    path = model("from sizes import WIDTH\n" + NET.replace("dim=8", "dim=WIDTH"))

    def width(*overlays: Overlay) -> int:
        facts = of(worker.trace(path, overlays=overlays), "Net").facts
        assert facts is not None
        return facts.parameters

    assert width() == 4 * 5
    assert width(Overlay(str(tmp_path / "sizes.py"), "WIDTH = 6\n")) == 6 * 7
    assert width(Overlay(str(tmp_path / "sizes.py"), "WIDTH = 7\n")) == 7 * 8
    assert width() == 4 * 5


def test_an_import_of_a_file_that_exists_only_in_the_editor(worker, model, tmp_path):
    path = model("from brand_new import WIDTH\n" + NET.replace("dim=8", "dim=WIDTH"))
    report = worker.trace(path, overlays=(Overlay(str(tmp_path / "brand_new.py"), "WIDTH = 6\n"),))
    assert report.status == "complete"


def test_a_change_on_disk_is_seen_by_the_next_trace(worker, model):
    sizes = model("WIDTH = 4\n", "sizes.py")
    path = model("from sizes import WIDTH\n" + NET.replace("dim=8", "dim=WIDTH"))
    assert of(worker.trace(path), "Net").facts.parameters == 4 * 5
    sizes.write_text("WIDTH = 16\n")
    assert of(worker.trace(path), "Net").facts.parameters == 16 * 17


def test_a_failing_dependency_is_named_and_located(worker, model, tmp_path):
    model("x = 1\nraise ValueError('broken helper')\n", "helper.py")
    text = "from helper import x\n" + NET.replace("dim=8", "dim=x")
    report = worker.trace(model(text))
    problem = only_problem(report)
    assert problem.code == "FX101"
    assert marked(text, problem.location) == "from helper import x"
    assert "broken helper" in problem.message
    assert problem.related[0].location.path == str(tmp_path / "helper.py")
    assert problem.related[0].location.span.line == 2
    # The file that is to be mended is watched although its import failed.
    assert report.dependencies == (str(tmp_path / "helper.py"),)


def test_a_function_is_traced_as_it_is(worker, model):
    text = "import torch\n\n\ndef mix(a, b):\n    return torch.relu(a) + b\n"
    target = TraceTarget("mix", "function", Span(4, 4, 4, 7))
    report = worker.trace(model(text), targets=(target,))
    mix = of(report, "mix")
    assert mix.status == "complete"
    assert mix.facts is None
    assert [node.name for node in mix.nodes] == ["a", "b", "relu", "add", "output"]


def test_a_nested_class_is_found_by_its_qualified_name(worker, model):
    text = NET.replace("class Net", "class Outer:\n  class Net").replace("\n    ", "\n      ")
    target = TraceTarget("Outer.Net", "class", Span(6, 8, 6, 11))
    assert worker.trace(model(text), targets=(target,)).status == "complete"


def test_a_target_that_is_not_there_is_told(worker, model):
    target = TraceTarget("Missing", "class", Span(1, 0, 1, 6))
    problem = only_problem(worker.trace(model(NET), targets=(target,)))
    assert problem.code == "FX102"


def test_what_the_program_prints_comes_with_the_report(worker, model):
    text = NET.replace("        y = self", "        print('hello from forward')\n        y = self")
    report = worker.trace(model(text))
    assert report.status == "complete"
    assert "hello from forward" in report.output


def test_torchs_compiler_is_not_loaded_before_somebody_asks_for_it(worker, model):
    text = """\
import sys
import torch

class Net(torch.nn.Module):
    print("compiler", "torch._dynamo" in sys.modules)

    def forward(self, x):
        return x.mean(1)[:, None].softmax(-1)
"""
    assert "compiler False" in worker.trace(model(text)).output


def test_a_module_level_instance_is_a_model(worker, model):
    text = NET.replace("dim=8", "dim") + "\n\nmodel = Net(16)\nmodel.eval()\n"
    report = worker.trace(model(text))
    assert report.status == "complete"
    assert any(target.nodes for target in report.targets)


def test_values_that_are_read_while_building(worker, model):
    text = NET.replace(
        "        self.fc",
        "        self.rates = [rate.item() for rate in torch.linspace(0, 0.5, 3)]\n        self.fc",
    )
    assert worker.trace(model(text)).status == "complete"


def test_weights_are_not_downloaded(worker, model):
    text = NET.replace(
        "        self.fc = nn.Linear(dim, dim)\n",
        "        self.fc = nn.Linear(dim, dim)\n"
        "        state = torch.hub.load_state_dict_from_url('https://example.invalid/w.pt')['model']\n"
        "        self.load_state_dict(state)\n",
    )
    report = worker.trace(model(text))
    assert report.problems == ()
    assert report.status == "complete"


def test_a_wrapped_function_is_a_node(worker, model):
    text = """\
import torch
from torch import nn


def helper(x):
    return x if x.sum() > 0 else -x


torch.fx.wrap("helper")


class Net(nn.Module):
    def forward(self, x):
        return helper(x)
"""
    report = worker.trace(model(text))
    assert report.status == "complete"
    assert "helper" in of(report, "Net").code


def test_limits_of_the_request_reach_the_child(worker, model):
    report = worker.trace(model(NET), limits=Limits(seconds=30.0, memory=1 << 30))
    assert report.status == "complete"


def test_requests_for_several_files_are_all_answered(worker, model):
    paths = [model(NET.replace("dim=8", f"dim={size}"), f"net{size}.py") for size in range(3, 13)]
    sent = [worker.start(path) for path in paths]
    reports = {report.id: report for report in (worker.receive() for _ in sent)}
    assert {request.id for request in sent} == set(reports)
    assert {report.status for report in reports.values()} == {"complete"}


def test_a_profile_tells_how_far_it_is_and_what_it_found(worker, model):
    progress, report = worker.profile(model(NET), "Net")
    assert report.status == "complete", report.problems
    assert progress
    assert [each.percentage for each in progress] == sorted(each.percentage for each in progress)
    assert {row.name for row in report.rows} >= {"fc", "relu"}
    assert "Net" in report.markdown
    assert json.loads(report.trace)["traceEvents"]
    _, again = worker.profile(model(NET), "Net", previous=report.data)
    assert again.status == "complete"


WINDOWED = """
import torch
from torch import nn
from no_such_package import get_window

class Windowed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.from_numpy(get_window("hann", 16)).float())

    def forward(self, x):
        return x * self.window

Windowed()(torch.randn(2, 16))
"""


def test_a_model_with_an_array_of_a_package_that_is_absent_is_measured_with_another_one(worker, model):
    _, report = worker.profile(model(WINDOWED), "Windowed")
    assert report.status == "complete", report.problems


@pytest.mark.parametrize(
    ("end", "names"),
    [
        ("return y.relu() if len(y) > 1 else y", ["fc", "relu"]),
        ("return y.relu() if y.sum() > 0 else y", ["fc", "sum_1", "gt", "_rest0"]),
    ],
    ids=["decided by shapes", "decided by data"],
)
def test_a_model_that_only_its_inputs_capture_is_measured_too(worker, model, end, names):
    _, report = worker.profile(model(NET.replace("return y.relu()", end)), "Net")
    assert report.status == "complete", report.problems
    assert [row.name for row in report.rows] == names
    assert {row.location.span.line for row in report.rows if row.location is not None} == {11, 12}


def test_a_device_is_known_by_its_number_or_by_its_kind():
    environment = EnvironmentReport("", "", "", ("cpu", "cuda:0", "cuda:1", "mps"))
    assert not any(map(environment.lacks, ("cpu", "cuda", "cuda:1", "mps", "mps:0")))
    assert environment.lacks("cuda:2") == "there is no device cuda:2; torch sees cpu, cuda:0, cuda:1, mps"
    assert environment.lacks("xpu")


def test_a_profile_of_what_nothing_captures_says_why(worker, model):
    text = NET.replace("        return y.relu()\n", "        return y.no_such_method(int(y.sum()))\n")
    _, report = worker.profile(model(text), "Net")
    assert report.status == "failed"
    assert report.problems


BRANCHED = NET.replace("return y.relu()", "return y if y.sum() > 0 else torch.zeros(3) + y")


def test_what_stops_a_trace_is_told_before_the_rest_if_that_is_asked_for(worker, model):
    path = model(BRANCHED)
    request = replace(worker.request(path), early=True)
    worker.send(request)
    early, report = worker.receive(), worker.receive()
    assert isinstance(early, EarlyReport)
    assert isinstance(report, TraceReport)
    assert early.id == report.id == request.id
    assert early.report.digest == report.digest
    before, after = of(early.report, "Net"), of(report, "Net")
    assert (before.nodes, before.code, bool(after.nodes), bool(after.code)) == ((), "", True, True)
    assert [each.code for each in before.problems] == ["FX001"]
    assert before.problems == tuple(each for each in after.problems if not each.code.startswith(LATER))
    assert before.status == after.status == "partial"


def test_nothing_is_told_early_of_a_text_without_a_model_or_that_is_no_program(worker, model):
    path = model(NET)
    for text in ("x = 1\n", "def (\n"):
        worker.send(replace(worker.request(path, text), early=True))
        assert isinstance(worker.receive(), TraceReport)


def test_an_interpreter_without_torch_refuses_each_request(tmp_path, model):
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    )
    worker = Worker(env={"PYTHONPATH": str(tmp_path / "blocked")})
    assert "no torch" in worker.environment.problem
    report = worker.trace(model(NET))
    assert (report.status, report.problems) == ("not traced", ())
    assert worker.close() == 0


def test_a_torch_that_fails_to_import_is_reported(tmp_path, model):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open')\n")
    worker = Worker(env={"PYTHONPATH": str(tmp_path)})
    assert "libtorch.so" in worker.environment.problem
    assert worker.close() == 0


def test_the_worker_starts_by_path_from_any_folder(tmp_path):
    for name in ("types.py", "wire.py", "torch.py", "fxengine.py"):
        (tmp_path / name).write_text("raise AssertionError('shadowed')\n")
    main = Path(__file__).parents[2] / "engine" / "fxworker" / "__main__.py"
    ended = subprocess.run(
        [sys.executable, str(main)], input=b"", cwd=tmp_path, capture_output=True, timeout=60, check=True
    )
    assert b"EnvironmentReport" in ended.stdout
    assert ended.stdout.count(b"\n") == 1


QUEUE = """\
import torch
from torch import nn


class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(64, 4))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))
        self.register_buffer("full", torch.full((), False))
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        at = int(self.pointer)
        if not self.full:
            x = x + self.keys[at]
        return self.fc(x)
"""


def test_counters_and_flags_have_values_while_weights_have_none(worker, model):
    queue = of(worker.trace(model(QUEUE)), "Queue")
    assert queue.status == "complete"
    assert not queue.problems
    assert "_tensor_constant0" in queue.code
