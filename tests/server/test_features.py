"""The features: pure functions of a snapshot. Their answers over real traces are tested by the fixtures."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from fxls.features import markdown, wording
from fxls.features.code_actions import code_actions
from fxls.features.code_lens import code_lenses
from fxls.features.diagnostics import diagnostics
from fxls.features.graph_layout import layout
from fxls.features.graph_view import to_dot, to_json, to_svg, to_text
from fxls.features.hover import hover
from fxls.features.inlay_hints import inlay_hints
from fxls.features.listing import listing
from fxls.features.status import status
from fxls.settings import Settings
from fxworker.wire import (
    Construct,
    Edit,
    EnvironmentReport,
    Fix,
    Guard,
    Inputs,
    Location,
    ModuleFacts,
    Problem,
    ProfileReport,
    ProfileRow,
    Related,
    Span,
    TargetReport,
)
from tests.support.snapshots import PATH, edited, location, node, snapshot, span_of

TEXT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(8, dim)

    def forward(self, x):
        y = self.fc(x)
        if y.sum() > 0:
            y = torch.relu(y)
        return y  # é


model = Net(8)
model(torch.randn(2, 8))
"""
LIBRARY = Location("/lib/ops.py", Span(7, 4, 7, 20))


def problem(**changes) -> Problem:
    made = Problem(
        "FX001",
        "error",
        "`y.sum() > 0` decides a branch",
        location(TEXT, "y.sum() > 0"),
        explanation="x → y → y.sum()",
        hint="use `torch.where`",
        original="TraceError: symbolically traced variables",
        target="Net",
        kind="data-dependent",
        related=(Related(location(TEXT, "self.fc(x)"), "y"), Related(LIBRARY, "called here")),
    )
    return replace(made, **changes)


def net(*problems: Problem, **changes) -> TargetReport:
    made = TargetReport(
        "Net",
        "class",
        span_of(TEXT, "Net"),
        "partial" if problems else "complete",
        construct=Construct("Net(8)", "instance", location(TEXT, "Net(8)")),
        inputs=Inputs("torch.randn(2, 8)", "call", location(TEXT, "torch.randn(2, 8)")),
        facts=ModuleFacts("Net", 86_567_656, 346_270_624, 35_100_000_000),
        nodes=(
            node(0, "x", "placeholder", "x", users=(1,), line=None),
            node(1, "fc", "call_module", "fc", location(TEXT, "self.fc(x)"), inputs=(0,), users=(2,), line=2),
            node(2, "relu", "call_function", "torch.relu", location(TEXT, "torch.relu(y)"), inputs=(1,), line=3),
            node(3, "output", "output", "output", inputs=(2,), shape=None, line=4),
        ),
        code="\ndef forward(self, x):\n    fc = self.fc(x);  x = None\n    relu = torch.relu(fc)\n    return relu\n",
        problems=problems,
        reached_end=not problems,
    )
    made = replace(made, nodes=tuple(replace(each, line=each.line and each.line + 1) for each in made.nodes))
    return replace(made, **changes)


def at(shot, piece: str, offset: int = 0) -> lsp.Position:
    line, column = shot.mapper.at_offset(shot.text.index(piece) + offset)
    return shot.mapper.position(line, column)


def hovered(shot, piece: str, offset: int = 0) -> str:
    answer = hover(shot, at(shot, piece, offset))
    return "" if answer is None else answer.contents.value


def everything(shot) -> lsp.Range:
    return lsp.Range(lsp.Position(0, 0), shot.mapper.position(10**6, 0))


# Diagnostics.


def test_a_problem_is_a_diagnostic_on_its_expression():
    shot = snapshot(TEXT, net(problem()))
    (found,) = diagnostics(shot)
    assert shot.mapper.source(shot.mapper.span(found.range)) == "y.sum() > 0"
    assert (found.code, found.source, found.severity) == ("FX001", "fxls", lsp.DiagnosticSeverity.Error)
    assert found.code_description is not None
    assert found.code_description.href.startswith("file:///")
    assert found.code_description.href.endswith("/docs/rules/FX001.md")
    assert [each.message for each in found.related_information or ()] == ["y", "called here"]
    json.dumps(found.data)


def test_a_problem_whose_expression_was_edited_is_not_shown_and_others_move():
    shot = snapshot(TEXT, net(problem()))
    assert diagnostics(edited(shot, "y.sum() > 0", "y.sum() > 1")) == []
    moved = edited(shot, "import torch\n", "import torch\nimport math\n")
    (found,) = diagnostics(moved)
    assert moved.mapper.source(moved.mapper.span(found.range)) == "y.sum() > 0"


def test_the_same_site_in_several_models_is_one_diagnostic():
    shot = snapshot(
        TEXT,
        net(problem()),
        net(problem(target="Other", instances=tuple(f"layers.{i}" for i in range(12))), qualname="Other"),
    )
    (found,) = diagnostics(shot)
    assert found.message.endswith("(in 12 instances: layers.0 … layers.11)")
    assert found.data["targets"] == ["Net", "Other"]


def test_a_problem_in_a_library_is_shown_at_the_model_with_the_place_behind_it():
    (found,) = diagnostics(snapshot(TEXT, net(problem(location=LIBRARY, related=()))))
    assert found.range.start.line == 4
    (related,) = found.related_information or ()
    assert related.location.uri.endswith("/lib/ops.py")


def test_strict_makes_an_error_of_what_shapes_decide():
    warning = problem(severity="warning")
    assert diagnostics(snapshot(TEXT, net(warning)))[0].severity == lsp.DiagnosticSeverity.Warning
    strict = snapshot(TEXT, net(warning), settings=Settings(strict=True))
    assert diagnostics(strict)[0].severity == lsp.DiagnosticSeverity.Error
    other = snapshot(TEXT, net(problem(severity="warning", code="FX301")), settings=Settings(strict=True))
    assert diagnostics(other)[0].severity == lsp.DiagnosticSeverity.Warning


def test_only_what_the_syntax_tells_is_shown_where_nothing_may_run():
    shot = replace(snapshot(TEXT, net(problem())), trusted=False)
    (hint,) = diagnostics(shot)
    assert (hint.severity, hint.message) == (
        lsp.DiagnosticSeverity.Hint,
        "`y.sum() > 0` seems to decide a branch (syntactic)",
    )
    assert code_lenses(shot) == []
    assert inlay_hints(shot, everything(shot)) == []


def test_a_syntax_error_is_shown_unless_the_users_python_is_newer():
    shot = snapshot("class Net(:\n")
    (found,) = diagnostics(shot)
    assert (found.code, found.range.start.line) == ("FX101", 0)
    newer = replace(shot, environment=EnvironmentReport("3.99.0", "", "", ()))
    assert diagnostics(newer) == []


# Hover.


def test_a_class_tells_what_was_captured_how_it_was_built_and_its_code():
    text = hovered(snapshot(TEXT, net()), "Net(nn")
    assert text.startswith("**Net** ✓ captured, 4 nodes · 86.6 M parameters (330 MiB) · 35.1 GFLOPs for `x: f32[2, 8]`")
    assert "built as `Net(8)` ([instance, line 17](file:///project/net.py#L17))" in text
    assert "fed `torch.randn(2, 8)`" in text
    moved = edited(snapshot(TEXT, net()), "import torch\n", "import torch\n# a comment\n")
    assert "built as `Net(8)` ([instance, line 18](file:///project/net.py#L18))" in hovered(moved, "Net(nn")
    assert "command:fxls.showGraph?" in text
    assert "    fc = self.fc(x)        # f32[2, 8]  line 11\n" in text


def test_forward_and_variables_tell_the_same():
    shot = snapshot(TEXT, net())
    assert hovered(shot, "forward", 3) == hovered(shot, "Net(nn") == hovered(shot, "model(torch")


def test_an_expression_tells_its_nodes():
    shot = snapshot(TEXT, net())
    assert hovered(shot, "self.fc(x)", 6) == "call_module `fc` → `f32[2, 8]`, used by `relu`"
    assert hovered(shot, "y = self.fc(x)") == "call_module `fc` → `f32[2, 8]`, used by `relu`"
    assert hovered(shot, "x):") == "placeholder `x` → `f32[2, 8]`, used by `fc`"
    assert hovered(shot, "super") == ""


def test_equal_blocks_are_folded_and_counted():
    place = location(TEXT, "self.fc(x)")
    nodes = tuple(
        node(index, f"blocks_{index}_fc", "call_module", f"blocks.{index}.fc", place, module=f"blocks.{index}")
        for index in range(12)
    )
    other = node(12, "blocks_12_fc", "call_module", "blocks.12.fc", place, module="blocks.12", shape=(2, 9))
    text = hovered(snapshot(TEXT, net(nodes=(*nodes, other))), "self.fc(x)", 6)
    assert text.splitlines() == [
        "call_module `blocks.*.fc` → `f32[2, 8]` ×12, not used  ",
        "call_module `blocks.12.fc` → `f32[2, 9]`, not used",
    ]


def test_a_call_into_other_code_tells_what_is_inside():
    outer, inner = location(TEXT, "torch.relu(y)"), location(TEXT, "self.fc(x)")
    nodes = tuple(
        node(index, f"fc_{index}", "call_module", "fc", outer, inner, shape=(index,), users=(index + 1,))
        for index in range(3)
    )
    assert hovered(snapshot(TEXT, net(nodes=nodes)), "torch.relu(y)").splitlines() == [
        "3 nodes inside → `f32[2]`  ",
        "`fc` ×3",
    ]


def test_a_call_that_leaves_several_values_has_no_shape():
    outer, inner = location(TEXT, "self.fc(x)"), location(TEXT, "torch.relu(y)")
    nodes = tuple(node(index, f"n{index}", "call_function", "f", outer, inner, users=(9,)) for index in range(2))
    shot = snapshot(TEXT, net(nodes=nodes))
    assert [each.position.line for each in inlay_hints(shot, everything(shot))] == []


def test_a_problem_is_explained():
    text = hovered(snapshot(TEXT, net(problem(instances=("a.0", "a.1", "a.2")))), "y.sum() > 0", 2)
    assert "**FX001** · data-dependent · in 3 instances: a\\.0 … a\\.2 · " in text
    assert "`x` → `y` → `y.sum()`" in text
    assert "use `torch.where`" in text
    assert "torch.fx: `TraceError: symbolically traced variables`" in text


def test_what_is_static_in_truth_is_told():
    text = hovered(snapshot(TEXT, net(problem(kind="metadata", value="False", severity="warning"))), "y.sum() > 0", 2)
    assert "for the inputs in use it is `False`, so it is static in truth" in text
    (found,) = diagnostics(snapshot(TEXT, net(problem(value="False", instances=("a.0", "a.1")))))
    assert found.message == (
        "`y.sum() > 0` decides a branch; for the inputs in use it is False (in 2 instances: a.0, a.1)"
    )


def test_what_is_so_whatever_the_inputs_are_is_not_told_of_them():
    shot = snapshot(TEXT, net(problem(code="FX301", value="True", severity="warning")))
    assert "for the inputs in use" not in hovered(shot, "y.sum() > 0", 2)
    assert diagnostics(shot)[0].message == "`y.sum() > 0` decides a branch"


def test_how_many_items_the_inputs_have_is_told():
    loop = problem(code="FX003", kind="metadata", value="2 items", severity="warning")
    shot = snapshot(TEXT, net(loop))
    assert "for the inputs in use it has `2 items`, so it is static in truth" in hovered(shot, "y.sum() > 0", 2)
    assert "; for the inputs in use it has 2 items" in diagnostics(shot)[0].message


def test_a_class_lists_its_problems_errors_first_and_what_its_graph_is_specialised_on():
    other = problem(code="FX002", message="`len(y)` asks for a length", location=location(TEXT, "torch.relu(y)"))
    guard = Guard("x.shape[0] > 4", "False", location(TEXT, "self.fc(x)"))
    report = net(problem(severity="warning"), other, guards=(guard,), reached_end=True, cut="200 runs were not enough")
    text = hovered(snapshot(TEXT, report), "Net(nn")
    assert "**Net** ✗ 1 problem, 1 warning, 4 nodes captured · 86.6 M" in text
    assert text.index("[line 13](file:///project/net.py#L13) **FX002** `len(y)` asks for a length") < text.index(
        "[line 12](file:///project/net.py#L12) **FX001** `y.sum() > 0` decides a branch"
    )
    assert "captured for the case that `x.shape[0] > 4` is `False` ([line 11](file:///project/net.py#L11))" in text
    assert "there may be more problems: 200 runs were not enough" in text
    assert "200 runs" in status(snapshot(TEXT, report)).tooltip


def test_a_model_that_was_captured_with_its_inputs_says_with_how_many_guards():
    guards = (Guard("x.shape", "(2, 8)", location(TEXT, "self.fc(x)")), Guard("x.dtype", "torch.float32"))
    shot = snapshot(TEXT, net(problem(severity="warning"), guards=guards, captured=True))
    assert "captured with 2 guards: `x.shape` is `(2, 8)` ([line 11]" in hovered(shot, "Net(nn")
    assert "1 captured" in status(shot).tooltip
    titles = [lens.command.title for lens in code_lenses(shot) if lens.command is not None]
    assert any("captured with 2 guards" in title for title in titles)
    lenses = code_lenses(snapshot(TEXT, net(problem(severity="warning"), captured=True)))
    assert not any("guard" in lens.command.title for lens in lenses if lens.command is not None)


def test_what_two_models_raise_at_one_place_while_they_are_built_is_one_problem():
    one, other = (
        problem(
            code="FX102", message=f"`{each}()` cannot be built: ValueError: no", original="ValueError: no", target=each
        )
        for each in ("Net", "Other")
    )
    (found,) = diagnostics(snapshot(TEXT, net(one), replace(net(other), qualname="Other")))
    assert found.data["targets"] == ["Net", "Other"]
    assert len(diagnostics(snapshot(TEXT, net(one, replace(other, original="TypeError: no"))))) == 2


def test_of_many_problems_some_are_listed():
    many = [problem(message=f"{number}", location=Location(PATH, Span(11, number, 11, 20))) for number in range(12)]
    text = hovered(snapshot(TEXT, net(*many)), "Net(nn")
    assert "✗ 12 problems" in text
    assert "- … and 4 more" in text


def test_a_report_of_an_older_text_says_so():
    shot = edited(snapshot(TEXT, net()), "import torch\n", "import torch\nimport math\n")
    assert "before the last edit" in hovered(shot, "Net(nn")
    assert "before the last edit" in hovered(shot, "self.fc(x)", 6)


def test_the_last_profile_is_told():
    row = ProfileRow("fc", location(TEXT, "self.fc(x)"), 12e-6, 1e-6, 0.5, 0, 0)
    shot = replace(snapshot(TEXT, net()), profiles=(ProfileReport(1, PATH, "", "Net", "cpu", "complete", rows=(row,)),))
    assert hovered(shot, "self.fc(x)", 6).endswith("; 12.0 µs on cpu (last profile)")
    hints = inlay_hints(shot, everything(shot))
    assert [each.label for each in hints if "µs" in str(each.label)] == ["‹12.0 µs ± 1.00 µs · 50%›"]


def test_why_nothing_is_known_is_told():
    shot = snapshot(TEXT)
    assert "is being traced" in hovered(shot, "Net(nn")
    assert "not trusted" in hovered(replace(shot, trusted=False), "Net(nn")
    broken = EnvironmentReport("3.12.0", "/x", "", (), "the interpreter has no torch")
    assert "the interpreter has no torch" in hovered(replace(shot, environment=broken), "Net(nn")
    inside = net(enclosed_by="Big", module_path="nets.0", nodes=())
    assert hovered(snapshot(TEXT, inside), "Net(nn") == "**Net** is traced within **Big** as `nets.0`"


# Code lenses, hints, actions.


def titles(shot) -> list[str]:
    return [each.command.title for each in code_lenses(shot) if each.command is not None]


def test_lenses_tell_the_verdict_and_offer_views_and_profiles():
    shot = snapshot(TEXT, net())
    expected = ["✓ 4 nodes · 86.6 M · 35.1 GFLOPs · x f32[2,8]", "Graph", "Code", "Profile on cpu", "Profile on cuda:0"]
    assert titles(shot) == expected
    last = code_lenses(shot)[-1].command
    assert last is not None
    assert (last.command, last.arguments) == (
        "fxls.profile",
        [{"uri": "file:///project/net.py", "target": "Net", "device": "cuda:0"}],
    )
    assert titles(snapshot(TEXT, net(), settings=Settings(code_lens=False))) == []


def test_lenses_tell_what_is_wrong():
    assert titles(snapshot(TEXT, net(problem())))[0] == "✗ 1 problem · 4 nodes so far"
    other = problem(code="FX002", location=location(TEXT, "torch.relu(y)"))
    assert titles(snapshot(TEXT, net(problem(), other, reached_end=True)))[0] == "✗ 2 problems · 4 nodes"
    mild = problem(severity="warning", kind="metadata", value="False")
    assert titles(snapshot(TEXT, net(mild, other)))[0] == "✗ 1 problem · 1 warning · 4 nodes so far"
    static = snapshot(TEXT, net(mild, reached_end=True))
    assert titles(static)[0] == "✓ 4 nodes · 86.6 M · 35.1 GFLOPs · x f32[2,8] · 1 warning"
    ignored = replace(static, settings=Settings(ignore=("FX001",)))
    assert titles(ignored)[0] == "✓ 4 nodes · 86.6 M · 35.1 GFLOPs · x f32[2,8] · 1 ignored"
    unknown = net(problem(code="FX103", severity="information"), status="not traced", nodes=(), code="", construct=None)
    assert titles(snapshot(TEXT, unknown)) == ["? no arguments known for Net(dim): give an example…"]
    assert titles(snapshot(TEXT, net(enclosed_by="Big", module_path="a.0", nodes=(), code="", construct=None))) == [
        "✓ within Big (a.0)"
    ]


def test_a_class_inside_another_model_counts_the_problems_on_its_lines():
    inside = net(enclosed_by="Big", module_path="a.0", nodes=(), code="", construct=None, status="partial")
    shot = snapshot(TEXT, inside)
    big = net(problem(target="Big", instances=("a.0", "a.1")), qualname="Big")
    shot = replace(shot, report=replace(shot.report, targets=(big, inside)))
    assert titles(shot)[0] == "✗ within Big (a.0) · 1 problem"


def test_hints_tell_shapes_at_the_end_of_assignments():
    shot = snapshot(TEXT, net())
    hints = inlay_hints(shot, everything(shot))
    assert [(each.position.line, each.label) for each in hints] == [(10, "‹f32[2, 8]›"), (12, "‹f32[2, 8]›")]
    only = lsp.Range(lsp.Position(12, 0), lsp.Position(12, 5))
    assert len(inlay_hints(shot, only)) == 1
    off = snapshot(TEXT, net(), settings=Settings(inlay_hints=False))
    assert inlay_hints(off, everything(off)) == []


def test_a_shape_that_differs_between_instances_is_starred():
    place = location(TEXT, "self.fc(x)")
    nodes = tuple(
        node(index, f"n{index}", "call_module", "fc", place, module=str(index), shape=(2, 8 * index))
        for index in (1, 2)
    )
    shot = snapshot(TEXT, net(nodes=tuple(replace(each, index=i) for i, each in enumerate(nodes))))
    (hint,) = inlay_hints(shot, everything(shot))
    assert (hint.label, hint.tooltip) == ("‹f32[2, *]›", "f32[2, 8], f32[2, 16]")


def actions(shot, piece: str, **context) -> list[lsp.CodeAction]:
    place = at(shot, piece)
    return code_actions(shot, lsp.Range(place, place), lsp.CodeActionContext(diagnostics=[], **context))


def test_actions_fix_problems_in_this_version_of_the_text():
    fix = Fix("torch.where", (Edit(location(TEXT, "y.sum() > 0"), "True"),), verified=True)
    shot = snapshot(TEXT, net(problem(fixes=(fix,))))
    action, _ = actions(shot, "y.sum()", only=[lsp.CodeActionKind.QuickFix])
    assert action.is_preferred
    (change,) = action.edit.document_changes
    assert change.text_document.version == 3
    assert change.edits[0].new_text == "True"
    assert actions(edited(shot, "y.sum() > 0", "y.sum() > 9"), "y.sum()") == []


def test_a_line_that_is_inserted_ends_as_those_of_the_file():
    text = TEXT.replace("\n", "\r\n")
    fix = Fix("Add an import", (Edit(Location(PATH, Span(1, 0, 1, 0)), "import math\n"),), verified=True)
    shot = snapshot(text, net(problem(fixes=(fix,))))
    action, _ = actions(shot, "y.sum()", only=[lsp.CodeActionKind.QuickFix])
    assert action.edit.document_changes[0].edits[0].new_text == "import math\r\n"


def test_what_a_fix_was_proven_to_keep_stands_behind_its_title_and_in_the_hover():
    edit = (Edit(location(TEXT, "y.sum() > 0"), "True"),)
    proof = "traces; same outputs on 5 inputs, both outcomes met"
    shot = snapshot(TEXT, net(problem(fixes=(Fix("torch.where", edit, verified=True, proof=proof),))))
    action, _ = actions(shot, "y.sum()", only=[lsp.CodeActionKind.QuickFix])
    assert action.title == f"torch.where ({proof})"
    text = hover(shot, at(shot, "y.sum()")).contents.value
    assert f" ✓ *{proof}*" in text
    assert "numbers are not compared" not in text


def test_a_fix_of_several_problems_is_one_action():
    fix = Fix("torch.where", (Edit(location(TEXT, "y.sum() > 0"), "True"),), verified=True)
    other = Fix("another", (Edit(location(TEXT, "y.sum() > 0"), "False"),), verified=True)
    shot = snapshot(TEXT, net(problem(fixes=(other, fix)), problem(code="FX003", fixes=(fix,))))
    place = shot.mapper.range(location(TEXT, "y.sum() > 0").span)
    shown = [lsp.Diagnostic(place, "it stops", code=code, source="fxls") for code in ("FX001", "FX003")]
    context = lsp.CodeActionContext(diagnostics=shown, only=[lsp.CodeActionKind.QuickFix])
    one, two, *ignores = code_actions(shot, place, context)
    assert [one.title, two.title] == ["another", "torch.where"]
    assert [each.code for each in two.diagnostics] == ["FX001", "FX003"]
    assert two.is_preferred
    assert len(ignores) == 2


def test_a_hover_does_not_repeat_the_message():
    shot = snapshot(TEXT, net(problem(explanation="")))
    assert problem().message not in hover(shot, at(shot, "y.sum()")).contents.value


def test_actions_insert_a_directive_above_the_class():
    unknown = net(problem(code="FX103", location=location(TEXT, "Net")), nodes=(), code="", construct=None, inputs=None)
    first, second = actions(snapshot(TEXT, unknown), "Net(nn")[:2]
    assert first.kind == lsp.CodeActionKind.QuickFix
    assert first.edit.document_changes[0].edits[0].new_text == "# fx: Net(dim=64)\n"
    assert first.edit.document_changes[0].edits[0].range.start == lsp.Position(4, 0)
    assert second.edit.document_changes[0].edits[0].new_text == "# fx: inputs torch.randn(2, 64)\n"


def test_actions_show_and_measure_at_the_head_of_a_model_and_nowhere_else():
    shot = snapshot(TEXT, net())
    for place in ("class Net", "def forward", "model(torch"):
        found = [each.title for each in actions(shot, place) if each.command is not None]
        assert found == [
            "Profile Net on cpu",
            "Profile Net on cuda:0",
            "Show the graph of Net",
            "Show the generated code of Net",
            "Trace again",
        ], place
    assert actions(shot, "super") == []


# Status.


def test_the_status_tells_how_things_are():
    shot = snapshot(TEXT, net())
    assert status(None).state == "starting"
    assert status(shot).text == "fx ✓"
    assert status(snapshot(TEXT, net(problem()))).text == "fx ✗ 1"
    assert status(shot, tracing=True).text == "fx ⟳ tracing"
    assert status(replace(shot, trusted=False)).state == "restricted"
    broken = replace(shot, environment=EnvironmentReport("3.12", "/x", "", (), "the interpreter /x has no torch"))
    assert status(broken).text == "fx ! no torch"
    assert "torch 2\\.13\\.0 · Python 3\\.11\\.7" in status(shot).tooltip


@pytest.mark.parametrize(
    ("kept", "sandboxed", "said"),
    [
        ((), True, "no sandbox: this system offers none"),
        (("files", "network"), False, "runs outside of the sandbox"),
        (("files", "network"), True, "sandbox: no network, writes to temporary folders only"),
        (("network",), True, "sandbox: no network (this system cannot close its files)"),
    ],
)
def test_the_status_tells_what_the_sandbox_keeps_a_file_from(kept, sandboxed, said):
    shot = snapshot(TEXT, net())
    shot = replace(shot, environment=replace(shot.environment, sandbox=kept), sandboxed=sandboxed)
    assert said in status(shot).tooltip.split("  \n")


# Graphs.


def test_a_graph_is_a_table_json_graphviz_and_a_drawing():
    report = net()
    assert "call_function  relu    torch.relu        f32[2, 8]" in to_text(report)
    document = json.loads(to_json(report))
    assert document["nodes"][1]["source"] == {"path": PATH, "line": 11}
    assert "n1 -> n2;" in to_dot(report)
    drawing = ET.fromstring(to_svg(report))
    groups = drawing.findall("{http://www.w3.org/2000/svg}g")
    assert [each.get("class") for each in groups] == ["node input", "node module", "node function", "node output"]
    assert all(each[0].tag.endswith("rect") for each in groups)


def test_a_drawing_escapes_what_it_shows():
    strange = net(qualname='<"&', nodes=(replace(net().nodes[1], name="<&>", target='"]]>'),))
    ET.fromstring(to_svg(strange))
    assert '\\"]]>' in to_dot(strange)


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=30))
def test_a_layout_puts_inputs_above_and_nothing_upon_another(edges):
    inputs = [[source for source in each if source < index] for index, each in enumerate(edges)]
    drawn = layout([(60.0, 30.0)] * len(inputs), inputs)
    for index, sources in enumerate(inputs):
        for source in sources:
            assert drawn.boxes[source].y + drawn.boxes[source].height < drawn.boxes[index].y
    for index, one in enumerate(drawn.boxes):
        assert one.x - one.width / 2 >= 0
        assert one.x + one.width / 2 <= drawn.width
        for other in drawn.boxes[:index]:
            assert one.y != other.y or abs(one.x - other.x) >= one.width


def test_an_empty_graph_has_a_drawing():
    ET.fromstring(to_svg(net(nodes=())))
    assert to_text(net(nodes=())).startswith("Net: captured, 0 nodes")


def test_a_listing_has_shapes_and_lines_beside_the_code():
    assert listing(net())[1].endswith("# f32[2, 8]  line 11")


def test_a_listing_names_the_lines_where_they_are_now():
    assert listing(net(), line_of=lambda location: location.span.line + 3)[1].endswith("# f32[2, 8]  line 14")
    assert listing(net(), line_of=lambda _: None)[1].endswith("# f32[2, 8]")
    assert listing(net(problem()), line_of=lambda _: None)[-1].endswith("# it ends here")


def test_a_narrow_listing_leaves_out_what_would_be_folded():
    report = net()
    long = report.code.replace("torch.relu(fc)", "torch.relu(fc, with_a_name_that_is_long = 0.0, and_more = None)")
    lines = listing(replace(report, code=long), narrow=True)
    assert lines == [
        "def forward(self, x):",
        "    fc = self.fc(x)                           # f32[2, 8]  line 11",
        "    relu = torch.relu(fc, with_a_name_that_is_long =…  # f32[2, 8]  line 13",
        "    return relu",
    ]
    assert max(map(len, lines)) <= 80


def test_a_listing_of_a_capture_that_stopped_does_not_return():
    lines = listing(net(problem()))
    assert lines[-1].startswith("    …")
    assert lines[-1].endswith(f"# FX001 in line {problem().location.span.line}")
    assert not any("return" in line for line in lines)


# Words and Markdown.


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0"), (999, "999"), (1000, "1.00 k"), (999_999, "1.00 M"), (86_567_656, "86.6 M"), (7e12, "7.00 T")],
)
def test_counts_have_three_figures(number, words):
    assert wording.count(number) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(12e-6, "12.0 µs"), (999.9e-6, "1.00 ms"), (0.00184, "1.84 ms"), (2.5, "2.50 s")]
)
def test_durations_have_three_figures(seconds, words):
    assert wording.duration(seconds) == words


def test_long_ways_are_shortened_in_the_middle():
    assert wording.chain("a → b → b → b → c", 80) == "a → b (×3) → c"
    assert wording.chain(" → ".join("abcdefghij"), 20) == "a → … → h → i → j"
    assert wording.chain("a → " + "b" * 50, 10) == "a → " + "b" * 47 + "…"


@pytest.mark.parametrize(("name", "words"), [("blocks.10.fc", "blocks.*.fc"), ("relu_3", "relu"), ("fc1", "fc1")])
def test_numbers_that_tell_parts_apart_are_left_out(name, words):
    assert wording.pattern(name) == words


@given(st.text(max_size=40))
def test_any_text_can_be_shown(text):
    shown = markdown.code(text)
    assert not text.strip() or shown.count("`") >= 2
    assert "\n" not in markdown.escaped(text)
    markdown.prose(text)
    fenced = markdown.block(text)
    assert fenced.splitlines()[0].startswith("```")


def test_markup_in_text_is_no_markup():
    assert markdown.escaped("a*b_c[d](e)") == "a\\*b\\_c\\[d\\]\\(e\\)"
    assert markdown.prose("use `a*b` and c*d\nthen e") == "use `a*b` and c\\*d  \nthen e"
    assert markdown.code("a `b` c") == "``a `b` c``"
    assert markdown.block("```") == "````python\n```\n````"
