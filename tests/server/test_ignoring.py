"""Comments that ignore problems, and the configuration that does: what is left, what is idle, what the fixes do."""

import textwrap
from dataclasses import replace

import pytest
from lsprotocol import types as lsp

from fxls.discovery import discover
from fxls.discovery.configuration import parse_configuration
from fxls.discovery.ignores import without_ignored
from fxls.discovery.index import Ignore
from fxls.document import Document, Effect
from fxls.features.code_actions import code_actions
from fxls.features.diagnostics import diagnostics
from fxls.features.problems import problems
from fxls.features.status import status
from fxls.settings import Settings
from fxls.snapshot import Snapshot
from fxls.text.mapper import Mapper
from fxworker.wire import Frame, Location, Origin, Problem, Span, TargetReport
from tests.support.snapshots import PATH, location, node, snapshot, span_of

TEXT = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.max() > 1:{first}
            x = x - 1
        y = torch.relu(x){second}
        return torch.where(
            y > 0,{third}
            y, x
        )
"""
BRANCH = "x.max() > 1"
RELU = "torch.relu(x)"


def text_with(first: str = "", second: str = "", third: str = "") -> str:
    return TEXT.format(
        **{key: value and f"  {value}" for key, value in {"first": first, "second": second, "third": third}.items()}
    )


def problem(text: str, piece: str = BRANCH, code: str = "FX001", **changes) -> Problem:
    made = Problem(code, "error", f"`{piece}` is no good", location(text, piece), target="Net")
    return replace(made, **changes)


def shot(text: str, *found: Problem, settings: Settings | None = None, **changes) -> Snapshot:
    """A snapshot whose model was captured to its end: each of its three statements left a node."""
    nodes = tuple(
        node(number, f"n{number}", "call_function", "f", location(text, piece), users=(9,))
        for number, piece in enumerate((BRANCH, RELU, "y > 0"))
    )
    report = TargetReport("Net", "class", span_of(text, "Net"), "complete", nodes=nodes, problems=found)
    return snapshot(text, replace(report, **changes), settings=settings)


def said(shot: Snapshot) -> list[tuple[str, int]]:
    return [(each.problem.code, each.span.line) for each in problems(shot)]


def ignores(text: str) -> tuple[Ignore, ...]:
    return discover(PATH, textwrap.dedent(text)).ignores


# What a comment speaks of.


@pytest.mark.parametrize(
    "comment",
    [
        "# fx: ignore",
        "# fx: ignore[FX001]",
        "# fx:ignore [ FX001 ]",
        "#fx: ignore[FX301,FX001]",
        "# noqa: E501  # fx: ignore[FX001]  # more",
        "# fx: ignore[FX001] because it only runs eagerly",
        "# fx: ignore[FX0]",
    ],
)
def test_a_comment_ignores_what_is_on_its_line(comment):
    text = text_with(comment)
    assert ("FX001", 7) not in said(shot(text, problem(text)))


@pytest.mark.parametrize(
    "comment", ["# fx: ignore[FX002]", "# see `# fx: ignore`", "# fx: ignored", "# fx: ignore: FX001", "# fx: Net()"]
)
def test_a_comment_that_says_something_else_ignores_nothing(comment):
    text = text_with(comment)
    assert ("FX001", 7) in said(shot(text, problem(text)))


def test_a_comment_on_any_line_of_an_expression_ignores_it():
    text = text_with(third="# fx: ignore[FX006]")
    whole = text[text.index("torch.where") : text.rindex(")") + 1]
    assert said(shot(text, problem(text, whole, "FX006"))) == []
    text = text_with(second="# fx: ignore[FX006]")
    whole = text[text.index("torch.where") : text.rindex(")") + 1]
    assert ("FX006", 10) in said(shot(text, problem(text, whole, "FX006")))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("y = 1 + \\\n  2 + \\\n  3  # fx: ignore\n", 1),
        ('y = f("""a\n  # fx: ignore\n""", 2)  # fx: ignore\n', 1),
        ("y = (1 +\n  2)  # fx: ignore\n", 2),
        ("# a \\\ny = 1  # fx: ignore\n", 2),
    ],
)
def test_lines_that_cannot_end_with_a_comment_belong_to_the_one_that_can(text, first):
    (found,) = ignores(text)
    assert found.first_line == first


def test_what_stands_in_a_string_is_no_comment():
    assert ignores('x = "# fx: ignore"\ny = """\n# fx: ignore[FX001]\n"""\n') == ()


def test_places_are_those_of_cpython_whatever_the_line_holds():
    (found,) = ignores("x = '😀é'  # fx: ignore[FX001, FX009]\r\n")
    assert found.span == Span(1, 14, 1, 40)
    assert [each.span for each in found.codes] == [Span(1, 27, 1, 32), Span(1, 34, 1, 39)]


def test_a_syntax_error_cannot_be_ignored():
    text = "def (  # fx: ignore\n"
    broken = replace(snapshot("x = 1\n"), text=text, mapper=Mapper(text), index=discover(PATH, text), report=None)
    assert said(broken) == [("FX101", 1)]


def test_ignored_problems_are_gone_everywhere():
    text = text_with("# fx: ignore[FX001]")
    found = shot(text, problem(text))
    assert diagnostics(found) == []
    assert status(found).problems == 0
    place = found.mapper.range(span_of(text, BRANCH))
    assert code_actions(found, place, lsp.CodeActionContext([])) == []


# Comments of no use.


def idle(shot: Snapshot) -> list[tuple[str, str]]:
    """What is said of comments, with the text that it is said of."""
    return [
        (shot.mapper.source(each.span), each.problem.message) for each in problems(shot) if each.problem.code == "FX106"
    ]


def test_an_idle_comment_is_greyed_out():
    text = text_with("# fx: ignore[FX001]", "# fx: ignore[FX006]  # noqa")
    (found,) = diagnostics(shot(text, problem(text)))
    assert (found.code, found.severity) == ("FX106", lsp.DiagnosticSeverity.Hint)
    assert found.tags == [lsp.DiagnosticTag.Unnecessary]
    assert found.message == "FX006 is not reported here, so this comment ignores nothing"
    assert found.range.start == lsp.Position(8, text.splitlines()[8].index("# fx"))


def test_one_idle_code_among_others_is_named():
    text = text_with("# fx: ignore[FX002, FX001, FX009]")
    assert idle(shot(text, problem(text))) == [
        ("FX002", "FX002 is not reported here"),
        ("FX009", "FX009 is not reported here"),
    ]


def test_an_idle_comment_without_codes_is_idle_as_a_whole():
    text = text_with(second="# fx: ignore")
    assert idle(shot(text)) == [("# fx: ignore", "nothing is reported here that this comment could ignore")]


@pytest.mark.parametrize(
    "changes",
    [{"cut": "after 2 s"}, {"status": "not traced"}, {"nodes": ()}],
    ids=["the search was cut", "not traced", "the line did not run"],
)
def test_a_comment_that_may_be_needed_is_left_alone(changes):
    text = text_with(second="# fx: ignore[FX001]")
    assert idle(shot(text, **changes)) == []


def test_a_comment_is_left_alone_while_the_text_is_edited():
    text = text_with(second="# fx: ignore[FX001]")
    assert idle(replace(shot(text), current=False)) == []


def test_a_comment_is_left_alone_where_the_file_failed():
    text = text_with(second="# fx: ignore[FX001]")
    made = shot(text)
    for code, left in (("FX101", []), ("FX104", []), ("FX105", [])):
        failure = Problem(code, "error", "no", Location(PATH, Span(1, 0, 1, 6)))
        assert idle(replace(made, report=replace(made.report, problems=(failure,)))) == left
    mild = Problem("FX101", "warning", "`apex` is not installed", Location(PATH, Span(1, 0, 1, 6)))
    assert len(idle(replace(made, report=replace(made.report, problems=(mild,))))) == 1


def test_a_comment_for_a_code_that_is_off_is_left_alone():
    text = text_with(second="# fx: ignore[FX001]")
    assert idle(shot(text, settings=Settings(ignore=("FX0",)))) == []
    assert idle(shot(text, settings=Settings(severity=(("FX001", "off"),)))) == []
    assert len(idle(shot(text, settings=Settings(ignore=("FX009",))))) == 1


def test_a_problem_that_is_off_counts_for_a_comment_without_codes():
    text = text_with("# fx: ignore")
    assert idle(shot(text, problem(text), settings=Settings(ignore=("FX001",)))) == []


@pytest.mark.parametrize(
    ("comment", "place", "message"),
    [
        ("# fx: ignore[FX999]", "FX999", "`FX999` is no code of fxls"),
        ("# fx: ignore[bool]", "bool", "`bool` is no code of fxls"),
        ("# fx: ignore: FX001", "# fx: ignore: FX001", "the codes to ignore stand in brackets: `# fx: ignore[FX001]`"),
        ("# fx: ignore[FX001", "# fx: ignore[FX001", "the codes to ignore stand in brackets: `# fx: ignore[FX001]`"),
        ("# fx: ignore[]", "# fx: ignore[]", "the codes to ignore stand in brackets: `# fx: ignore[FX001]`"),
    ],
)
def test_what_cannot_ignore_anything_is_a_warning_even_without_a_trace(comment, place, message):
    text = text_with(comment)
    untraced = replace(shot(text), report=None)
    assert idle(untraced) == [(place, message)]
    assert problems(untraced)[0].problem.severity == "warning"


def test_a_comment_alone_on_its_line_is_a_warning():
    text = text_with().replace("        y = ", "        # fx: ignore[FX001]\n        y = ")
    ((_, message),) = idle(shot(text))
    assert "at the end of the line" in message


def test_fx106_is_switched_off_like_any_other():
    text = text_with(second="# fx: ignore[FX001]")
    assert problems(shot(text, settings=Settings(ignore=("FX106",)))) == []


# Fixes.


def applied(shot: Snapshot, title: str, piece: str) -> str:
    """The text after the one action of that title at an expression."""
    place = shot.mapper.range(span_of(shot.text, piece))
    context = lsp.CodeActionContext(diagnostics(shot))
    (action,) = (each for each in code_actions(shot, place, context) if each.title == title)
    assert action.diagnostics
    (change,) = action.edit.document_changes
    (edit,) = change.edits
    first, last = shot.mapper.point(edit.range.start), shot.mapper.point(edit.range.end)
    return shot.text[: shot.mapper.offset(*first)] + edit.new_text + shot.text[shot.mapper.offset(*last) :]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "# fx: ignore[FX001]"),
        ("# noqa: E501", "# noqa: E501  # fx: ignore[FX001]"),
        ("# fx: ignore[FX002]", "# fx: ignore[FX002, FX001]"),
        ("# fx: ignore[FX002, FX009] why  # noqa", "# fx: ignore[FX002, FX009, FX001] why  # noqa"),
    ],
)
def test_a_problem_can_be_ignored_and_other_comments_stay(before, after):
    text = text_with(before)
    assert applied(shot(text, problem(text)), "Ignore FX001 on this line", BRANCH) == text_with(after)


def test_a_problem_on_joined_lines_is_ignored_where_a_comment_fits():
    text = text_with().replace("x.max() > 1:", "x.max() > 1 \\\n                and True:")
    ignored = applied(shot(text, problem(text)), "Ignore FX001 on this line", BRANCH)
    assert ignored == text.replace("and True:", "and True:  # fx: ignore[FX001]")
    assert said(shot(ignored, problem(ignored))) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# fx: ignore[FX006]", ""),
        ("# fx: ignore[FX006] mended long ago", ""),
        ("# noqa: E501  # fx: ignore[FX006]", "# noqa: E501"),
        ("# fx: ignore[FX006]  # noqa", "# noqa"),
    ],
)
def test_an_idle_comment_is_removed_and_others_stay(before, after):
    text = text_with(second=before)
    assert applied(shot(text), "Remove the comment", "FX006") == text_with(second=after)


def test_an_idle_code_is_removed_from_its_comment():
    text = text_with("# fx: ignore[FX002, FX001]")
    made = applied(shot(text, problem(text)), "Remove FX002 from the comment", "FX002")
    assert made == text_with("# fx: ignore[FX001]")


def test_a_comment_alone_on_its_line_goes_with_the_line():
    text = text_with().replace("        y = ", "        # fx: ignore[FX001]\n        y = ")
    assert applied(shot(text), "Remove the comment", "# fx: ignore") == text_with()


# Severity and configuration.


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({}, "warning"),
        ({"strict": True}, "error"),
        ({"severity": {"FX001": "hint"}}, "hint"),
        ({"severity": {"FX0": "hint", "FX001": "information"}}, "information"),
        ({"severity": {"FX001": "hint"}, "strict": True}, "hint"),
        ({"ignore": ["FX0"], "severity": {"FX001": "error"}}, "error"),
        ({"ignore": ["FX001"], "severity": {"FX0": "error"}}, None),
        ({"severity": {"FX0": "off"}}, None),
    ],
)
def test_a_code_is_as_severe_as_the_person_says(settings, severity):
    text = text_with()
    read, bad = Settings.read(settings)
    assert not bad
    found = problems(shot(text, problem(text, severity="warning"), settings=read))
    assert [each.problem.severity for each in found] == ([severity] if severity else [])


def test_the_project_says_what_is_ignored_and_the_person_how_severe_the_rest_is():
    configuration = parse_configuration(
        "/project/pyproject.toml",
        '[tool.fxls]\nignore = ["FX009"]\nstrict = true\nseverity = { FX001 = "hint", FX002 = "hint" }\n'
        'per-file-ignores = { "tests/*" = ["FX0"], "net_?.py" = ["FX201"] }\n',
    )
    assert configuration.problems == ()
    person = Settings(ignore=("FX103",), severity=(("FX001", "error"),))
    here = configuration.applied(person, "/project/models/net.py")
    assert (here.ignore, here.strict) == (("FX103", "FX009"), True)
    assert (here.level("FX001"), here.level("FX002"), here.level("FX003")) == ("error", "hint", None)
    assert configuration.applied(person, "/project/tests/deep/net.py").level("FX003") == "off"
    assert configuration.applied(person, "/project/models/net_1.py").level("FX201") == "off"


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("[tool.fxls]\nignroe = []\n", "unknown key 'ignroe'", Span(2, 0, 2, 6)),
        ('[tool.fxls]\nignore = "FX001"\n', "ignore is a list of codes", Span(2, 0, 2, 6)),
        (
            '[tool.fxls]\nignore = [\n  "FX001",\n  "FX999",\n]\n',
            "names 'FX999', which is no code",
            Span(4, 3, 4, 8),
        ),
        ("[tool.fxls]\nseverity = 3\n", "severity is a table", Span(2, 0, 2, 8)),
        (
            '[x]\nFX001 = 1\n[tool.fxls.severity]\nFX001 = "loud"\n',
            "is one of error, warning, information, hint, off, not 'loud'",
            Span(4, 0, 4, 5),
        ),
        ("[tool.fxls]\nstrict = 1\n", "strict is true or false", Span(2, 0, 2, 6)),
        ("[tool.fxls]\nper-file-ignores = []\n", "per-file-ignores is a table", Span(2, 0, 2, 16)),
        ('[tool.fxls.per-file-ignores]\n"*" = ["FX"]\n"a.py" = ["B"]\n', "names 'B'", Span(3, 11, 3, 12)),
        ("[tool]\nfxls = 3\n", "tool.fxls is a table", Span(1, 0, 1, 6)),
    ],
)
def test_a_mistake_in_the_configuration_is_shown_where_it_stands(text, message, place):
    (found,) = parse_configuration("/p/pyproject.toml", text).problems
    assert message in found.message
    assert (found.code, found.location.span) == ("FX107", place)


# Several problems.


def met(text: str, target: str, *paths: str, piece: str = BRANCH, **changes) -> Problem:
    """A problem as a model meets it: through frames that end at the expression."""
    origin = Origin((Frame("forward", location(text, piece)),), paths[0], "Net")
    return problem(text, piece, target=target, instances=paths, origin=origin, **changes)


def test_a_site_that_several_models_reach_is_one_problem_with_what_is_known_of_it():
    text = text_with()
    alone = met(text, "Net", "", message="`x.max() > 1` decides a branch; unknown")
    inside = met(text, "Big", "layers.0", "layers.1", value="False", kind="metadata", severity="warning")
    made = shot(text, alone)
    other = TargetReport("Big", "class", span_of(text, "Net"), "partial", problems=(inside,))
    (found,) = problems(replace(made, report=replace(made.report, targets=(*made.report.targets, other))))
    assert found.targets == ("Net", "Big")
    assert (found.problem.value, found.problem.severity, found.problem.count) == ("False", "warning", 2)


def test_values_that_differ_between_models_are_both_told():
    text = text_with()
    made = shot(text, met(text, "Net", "", value="True"))
    other = TargetReport(
        "Big", "class", span_of(text, "Net"), "partial", problems=(met(text, "Big", "", value="False"),)
    )
    (found,) = problems(replace(made, report=replace(made.report, targets=(*made.report.targets, other))))
    assert found.problem.value == "True in Net, False in Big"


def test_two_lines_of_a_library_below_one_call_are_two_problems():
    text = text_with()
    found = [
        replace(
            problem(text, RELU),
            origin=Origin((Frame("relu", Location("/lib/ops.py", Span(line, 0, line, 4))),), "", "Net"),
        )
        for line in (3, 9)
    ]
    assert said(shot(text, *found)) == [("FX001", 9), ("FX001", 9)]


# Edits.


def typed(document: Document, line: int, text: str) -> Effect:
    end = document.mapper.end_of_line(line)
    return document.change(2, [lsp.TextDocumentContentChangePartial(lsp.Range(end, end), text)])


def test_a_comment_takes_effect_without_a_trace():
    document = Document("file:///project/net.py", 1, text_with(), "utf-16")
    document.saved = document.digest
    assert document.indexed(discover(document.path, document.text)) is Effect.CODE
    assert typed(document, 7, "  # fx: ignore[FX001") is Effect.LAYOUT
    assert typed(document, 7, "]") is Effect.LAYOUT
    (ignore,) = document.index.ignores
    assert [each.code for each in ignore.codes] == ["FX001"]
    assert typed(document, 1, "\n# more") is Effect.LAYOUT
    (ignore,) = document.index.ignores
    assert (ignore.span.line, ignore.first_line) == (8, 8)


def test_a_directive_is_code_all_the_same():
    document = Document("file:///project/net.py", 1, text_with(), "utf-16")
    document.indexed(discover(document.path, document.text))
    assert typed(document, 4, "\n# fx: Net()") is Effect.TEXT


def test_comments_in_other_files_are_heeded(tmp_path):
    other = tmp_path / "blocks.py"
    other.write_text(
        "def f(x):\n    if x > 0:  # fx: ignore[FX001]\n        x = len(x)  # fx: ignore[FX004]\n    return x\n"
    )
    text = text_with()
    branch = problem(text, code="FX001")
    there = replace(branch, location=Location(str(other), Span(2, 7, 2, 12)))
    other_code = replace(branch, code="FX002", location=Location(str(other), Span(3, 12, 3, 18)))
    elsewhere = replace(branch, location=Location(str(tmp_path / "missing.py"), Span(2, 7, 2, 12)))
    report = shot(text, branch, there, other_code, elsewhere).report
    assert report is not None
    (target,) = without_ignored(report).targets
    assert target.problems == (branch, other_code, elsewhere)


def test_a_file_without_comments_that_ignore_leaves_the_report_as_it_is(tmp_path):
    other = tmp_path / "blocks.py"
    other.write_text("x = 'no syntax\n# fx: ignore\n")
    text = text_with()
    report = shot(text, replace(problem(text), location=Location(str(other), Span(2, 0, 2, 1)))).report
    assert report is not None
    assert without_ignored(report) is report
