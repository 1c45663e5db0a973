"""Fixes: what is proposed for a text, and that only what holds when it is tried out is kept."""

import ast
import asyncio
import textwrap
from dataclasses import replace

import pytest

from fxls.discovery import discover
from fxls.features.wording import ways_out
from fxls.fixes.proposing import proposals
from fxls.fixes.source import Source
from fxls.fixes.verifying import changed, is_worthwhile, with_fixes
from fxls.text.mapper import Mapper
from fxworker.texts import digest
from fxworker.wire import Fix, Location, Misfit, Problem, Related, Size, Span, TargetReport, TraceReport
from tests.support.snapshots import PATH

HEAD = """import math
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, y):
"""


def model(body: str) -> tuple[str, Span]:
    """A file whose forward is the body, and the span between « and »."""
    text = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "        ")
    start, end = text.index("«"), text.index("»") - 1
    text = text.replace("«", "").replace("»", "")
    mapper = Mapper(text)
    return text, Span(*mapper.at_offset(start), *mapper.at_offset(end))


def proposed(body: str, code: str, **changes) -> list[tuple[str, str]]:
    """What is proposed for a body: titles, and the file after each."""
    text, span = model(body)
    problem = replace(Problem(code, "error", "no", Location(PATH, span), kind="data-dependent"), **changes)
    source = Source.of(PATH, text)
    assert source is not None
    found = [(each.title, changed(source.mapper, each)[0]) for each in proposals(source, problem)]
    for _, after in found:
        ast.parse(after)
    return found


def body_of(text: str) -> str:
    return textwrap.dedent(text.removeprefix(HEAD)).strip("\n")


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        ("FX001", "assert «x.sum() > 0», 'no'", "torch._assert(x.sum() > 0, 'no')"),
        ("FX001", "assert «x.sum() > 0»", "torch._assert(x.sum() > 0, 'x.sum() > 0')"),
        ("FX001", "return x if «x.max() > 1» else -x", "return torch.where(x.max() > 1, x, -x)"),
        ("FX001", "if «x.max() > 1»:\n    x = x / 2", "x = torch.where(x.max() > 1, x / 2, x)"),
        ("FX001", "if «x.max() > 1»:\n    x *= y + 1", "x = torch.where(x.max() > 1, x * (y + 1), x)"),
        (
            "FX001",
            "if «x.max() > 1»:\n    z = x\nelse:\n    z = -x\nreturn z",
            "z = torch.where(x.max() > 1, x, -x)\nreturn z",
        ),
        ("FX001", "if «x.max() > 1»:\n    return x\nelse:\n    return -x", "return torch.where(x.max() > 1, x, -x)"),
        ("FX001", "if «x.max() > 1»:\n    return x\nreturn -x", "return torch.where(x.max() > 1, x, -x)"),
        ("FX001", "return «max(x.sum(), y.sum())»", "return torch.maximum(x.sum(), y.sum())"),
        ("FX001", "return «min(x, 6)»", "return x.clamp(max=6)"),
        ("FX001", "return «max(-1.5, x + y)»", "return (x + y).clamp(min=-1.5)"),
        ("FX002", "return x / «len(x)»", "return x / x.shape[0]"),
        ("FX002", "return «len(x + y)»", "return (x + y).shape[0]"),
        ("FX002", "return «len((x + y).shape)»", "return (x + y).ndim"),
        ("FX002", "return «len(x.size())»", "return x.ndim"),
        ("FX003", "return x.view(*«x.shape[:-1]», 4, 2)", "return x.unflatten(-1, (4, 2))"),
        ("FX003", "return x.reshape(*«x.shape[:-2]», -1)", "return x.flatten(-2)"),
        ("FX003", "b, c, *hw = «x.shape»", "b, c, hw = x.shape[0], x.shape[1], x.shape[2:]"),
        ("FX004", "return x[: «int(y / 2)»]", "return x[: (y // 2)]"),
        ("FX004", "return «math.floor((x + 1) / y)»", "return ((x + 1) // y)"),
        ("FX004", "return «math.ceil(x / y)»", "return -(-x // y)"),
        ("FX004", "return x / «math.sqrt(y)»", "return x / (y ** 0.5)"),
        ("FX005", "«x[x > 0]» = 0\nreturn x", "x = x.masked_fill(x > 0, 0)\nreturn x"),
        ("FX005", "«x[mask]» = -1.0\nreturn x", "x = x.masked_fill(mask, -1.0)\nreturn x"),
        ("FX005", "«x[:, 1:]» = y\nreturn x", "x = x.slice_scatter(y, dim=1, start=1)\nreturn x"),
        ("FX005", "«x[..., :2]» *= 3\nreturn x", "x = x.slice_scatter(x[..., :2] * 3, dim=-1, end=2)\nreturn x"),
        (
            "FX005",
            "«x[2:4]» = 0\nreturn x",
            "x = x.slice_scatter(torch.full_like(x[2:4], 0), dim=0, start=2, end=4)\nreturn x",
        ),
        ("FX005", "«x[mask]» = y[mask]\nreturn x", "x = torch.where(mask, y, x)\nreturn x"),
        ("FX005", "«x[y > 0]» = (x + y)[y > 0]\nreturn x", "x = torch.where(y > 0, x + y, x)\nreturn x"),
        ("FX005", "«x[:, 0]» = y\nreturn x", "x = x.select_scatter(y, dim=1, index=0)\nreturn x"),
        ("FX005", "«x[..., -1]» += 2\nreturn x", "x = x.select_scatter(x[..., -1] + 2, dim=-1, index=-1)\nreturn x"),
        (
            "FX005",
            "for i in range(4):\n    «x[i]» = 0\nreturn x",
            "for i in range(4):\n    x = x.select_scatter(torch.full_like(x[i], 0), dim=0, index=i)\nreturn x",
        ),
        (
            "FX005",
            "for i, z in enumerate(self.parts):\n    «x[:, :, i]» = z(y)\nreturn x",
            "for i, z in enumerate(self.parts):\n    x = x.select_scatter(z(y), dim=2, index=i)\nreturn x",
        ),
        ("FX006", "return «Variable(x + y)»", "return x + y"),
        (
            "FX001",
            "if «x.max() > 1»:\n    raise ValueError('large')\nreturn x",
            "torch._assert(torch.logical_not(x.max() > 1), 'large')\nreturn x",
        ),
        ("FX003", "return x[: «max(y)»]".replace("«max(y)»", "max(«y»)"), "return x[: y.max()]"),
        (
            "FX001",
            "return «torch.distributions.Normal(x, y)»",
            "return torch.distributions.Normal(x, y, validate_args=False)",
        ),
    ],
)
def test_the_first_fix_of_an_expression(code, before, after):
    (_, text), *_ = proposed(before, code)
    assert body_of(text) == after


@pytest.mark.parametrize(
    ("code", "before"),
    [
        ("FX001", "while «x.max() > 1»:\n    return x"),
        ("FX001", "if «x.max() > 1»:\n    x = x, 1\n    return x"),
        ("FX001", "if «x.max() > 1»:\n    return x"),
        ("FX001", "if «x.max() > 1»:\n    z = x\nelse:\n    y = x\n    return z"),
        ("FX001", "return [] if «x.max() > 1» else [x]"),
        ("FX003", "return torch.cat([*«x»])"),
        ("FX004", "return x[: «int(y.sum())»]"),
        ("FX005", "«x[mask]» = y.item()\nreturn x"),
        ("FX005", "«x[::2]» = y\nreturn x"),
        ("FX005", "«x[0, 1:]» = y\nreturn x"),
        ("FX005", "«x[y]» = 0.5\nreturn x"),
        ("FX005", "for i in self.parts:\n    «x[i]» = 0.5\nreturn x"),
        ("FX006", "return «Variable(x, requires_grad=True)»"),
        ("FX005", "«x[1:, :2]» = y\nreturn x"),
        ("FX001", "if «x.numel() > 1»:\n    x = x / 2"),
        ("FX006", "return «torch.zeros(3)»"),
        ("FX006", "return «torch.zeros(3, **options)»"),
        ("FX009", "return «x.nothing»"),
    ],
)
def test_nothing_is_proposed_for_an_expression_without_a_form_that_is_recorded(code, before):
    assert [title for title, _ in proposed(before, code) if not title.startswith("Move")] == []


def test_what_follows_from_a_shape_gives_no_tensor_to_choose_by():
    titles = [title for title, _ in proposed("return x if «x.shape[0] > 1» else -x", "FX001", kind="metadata")]
    assert titles == []
    ((_, text), *_) = proposed("return x[: «int(x.shape[0])»]", "FX004", kind="metadata")
    assert body_of(text) == "return x[: x.shape[0]]"


def test_the_length_of_a_shape_is_none_of_the_sizes():
    titles = [title for title, _ in proposed("return «len(sizes)»", "FX002", explanation="x → x.shape")]
    assert [each for each in titles if not each.startswith("Move")] == []


def test_a_constructor_becomes_the_method_of_the_value_that_it_is_given():
    way = (Related(Location(PATH, Span(1, 0, 1, 1)), "x"), Related(Location(PATH, Span(1, 0, 1, 1)), "x.shape"))
    ((_, text), *_) = proposed("return «torch.zeros(x.shape[0], 8, device=x.device)»", "FX006", related=way)
    assert body_of(text) == "return x.new_zeros(x.shape[0], 8, dtype=torch.float32)"


def test_no_comment_is_lost():
    before = "if «x.max() > 1»:  # why\n    x = x / 2\nreturn x"
    titles = [title for title, _ in proposed(before, "FX001")]
    assert titles == ["Move lines 8 to 9 into a function marked `@torch.fx.wrap`"]


# Moving statements.

MOVED = """import math
import torch
import torch.fx
from torch import nn


@torch.fx.wrap
def next_x(x, threshold):
    if x.max() > threshold:  # high
        scale = 2
        x = x / scale
    return x


class Net(nn.Module):
    def forward(self, x, y):
        x = next_x(x, self.gate.threshold)
        return x
"""


def moved(body: str, code: str = "FX001") -> list[str]:
    return [text for title, text in proposed(body, code) if title.startswith("Move")]


def test_a_statement_moves_into_a_leaf_with_what_it_reads_and_leaves():
    body = "if «x.max() > self.gate.threshold»:  # high\n    scale = 2\n    x = x / scale\nreturn x"
    assert moved(body) == [MOVED]


@pytest.mark.parametrize("change", ["rows.append(y[i])", "rows.update({i: y})", "rows.clamp_(i)"])
def test_what_a_method_changes_is_given_back(change):
    (text,) = moved(f"rows = []\nfor i in «range(x)»:\n    {change}\nreturn torch.stack(rows)", "FX004")
    assert "rows = next_rows(rows, x" in text
    assert f"        {change}\n    return rows\n" in text


def test_a_loop_leaves_what_its_next_round_reads():
    (text,) = moved(
        "for _ in range(3):\n    z = x if y.sum() > 0 else y\n    if «x.max() > 1»:\n        y = x\nreturn z"
    )
    assert "y = next_y(x, y)" in text
    assert "def next_y(x, y):" in text


def test_a_later_branch_is_no_choice_of_its_own_and_moves_with_the_first():
    titles = [
        title for title, _ in proposed("if flag:\n    x = -x\nelif «x.max() > 1»:\n    x = x / 2\nreturn x", "FX001")
    ]
    assert titles == ["Move lines 8 to 11 into a function marked `@torch.fx.wrap`"]


def test_what_is_only_checked_leaves_nothing():
    (text,) = moved("if «x.max() > 1»:\n    print(x)\nreturn y")
    assert "\n        check_x(x)\n" in text
    assert "def check_x(x):\n    if x.max() > 1:\n        print(x)\n\n\n" in text


def test_changed_items_are_left_too():
    (text,) = moved("«x[0]» = y\nreturn x", "FX005")
    assert "x = next_x(x, y)" in text
    assert "def next_x(x, y):\n    x[0] = y\n    return x\n" in text


def test_a_definition_goes_above_the_comments_of_the_class_and_names_are_new():
    body = "z = next_z = «len(x)»\nreturn z"
    text, span = model(body)
    text = text.replace("class Net", "# fx: Net()\n# more\n@final\nclass Net").replace(
        "import torch\n", "import torch, torch.fx\n"
    )
    source = Source.of(PATH, text)
    span = replace(span, line=span.line + 3, end_line=span.end_line + 3)
    *_, proposal = proposals(source, Problem("FX002", "error", "no", Location(PATH, span)))
    after, carry = changed(source.mapper, proposal)
    assert after.index("@torch.fx.wrap\ndef next_z_2(x):") < after.index("# fx: Net()\n# more\n@final\nclass Net")
    assert "import torch.fx\nimport" not in after
    assert carry.span(Span(9, 6, 9, 9)) == Span(15, 6, 15, 9)


@pytest.mark.parametrize(
    "body",
    [
        "if «x.max() > 1»:\n    return x\nx = 1",
        "for z in x:\n    if «x.max() > 1»:\n        break",
        "if «x.max() > 1»:\n    x = self.layer(x)\nreturn x",
        "if «x.max() > 1»:\n    self.calls = 1\nreturn x",
        "if «x.max() > 1»:\n    x = f(self)\nreturn x",
        "if «x.max() > 1»:\n    x = super().f(x)\nreturn x",
        'if «x.max() > 1»:\n    x = f("""a\nb""")\nreturn x',
        "z = 1; w = «len(x)»\nreturn w",
        "return «len(x)»",
    ],
)
def test_what_cannot_be_moved_stays(body):
    assert moved(body) == []


def test_a_branch_that_only_raises_is_an_assertion_of_the_opposite_about_a_shape():
    body = "if «x.shape[-1] != 4»:\n    raise ValueError(f'not {x.shape}')\nreturn x"
    (title, text), *_ = proposed(body, "FX001", kind="metadata")
    assert body_of(text) == "torch._assert(x.shape[-1] == 4, 'x.shape[-1] != 4')\nreturn x"
    assert title.endswith("it raises AssertionError, not ValueError")


def test_a_tensor_is_made_of_an_input_of_the_function_that_makes_it():
    body = "return «torch.zeros(y.size(0), 2)»"
    related = (Related(Location(PATH, Span(1, 0, 1, 1)), "ids"),)
    (_, text), *_ = proposed(body, "FX006", related=related)
    assert body_of(text) == "return x.new_zeros(y.size(0), 2, dtype=torch.float32)"


def test_a_function_that_is_imported_is_registered_where_it_is_called():
    body = "return «rearrange(x, 'b c -> c b')»"
    assert [title for title, _ in proposed(body, "FX006") if not title.startswith("Move")] == []
    text, span = model(body)
    text = text.replace("import math\n", "from einops import rearrange\n", 1)
    source = Source.of(PATH, text)
    first, *_ = proposals(source, Problem("FX006", "error", "no", Location(PATH, span)))
    assert first.title == 'Add `torch.fx.wrap("rearrange")` to this file'
    assert '\n\ntorch.fx.wrap("rearrange")\n' in changed(source.mapper, first)[0]


def test_a_tensor_of_a_size_is_made_of_an_input_too():
    related = (Related(Location(PATH, Span(1, 0, 1, 1)), "x"),)
    ((_, text), *_) = proposed("return «torch.tensor(x.shape[1], device=x.device)»", "FX006", related=related)
    assert body_of(text) == "return x.new_tensor(x.shape[1])"


def test_line_ends_stay():
    text, span = model("z = «len(x)»\nreturn z")
    source = Source.of(PATH, text.replace("\n", "\r\n"))
    for proposal in proposals(source, Problem("FX002", "error", "no", Location(PATH, span))):
        after, _ = changed(source.mapper, proposal)
        assert "\n" not in after.replace("\r\n", "")


UNSEEN = """import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.other = [nn.Linear(8, 8)]
        self.layers = [nn.Linear(8, 8) for _ in range(3)]
        self.heads = {"a": nn.Linear(8, 8)}
        self.late = []
        self.late.append(nn.Linear(8, 8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.heads["a"](x) + self.late[0](x)
"""


def test_what_a_model_does_not_see_is_put_where_it_does():
    source = Source.of(PATH, UNSEEN)
    problem = Problem("FX007", "error", "`layer(x)` uses a module that is", Location(PATH, Span(15, 16, 15, 24)))
    for said, kind in ((problem.message, "Module"), ("`x * y` uses a parameter that is", "Parameter")):
        found = list(proposals(source, replace(problem, message=said)))
        assert [each.title for each in found] == [
            f"Make `self.layers` an `nn.{kind}List`",
            f"Make `self.heads` an `nn.{kind}Dict`",
            f"Make `self.late` an `nn.{kind}List`",
        ]
        lines = [
            changed(source.mapper, each)[0].splitlines()[number] for each, number in zip(found, (7, 8, 9), strict=True)
        ]
        assert [each.strip() for each in lines] == [
            f"self.layers = nn.{kind}List([nn.Linear(8, 8) for _ in range(3)])",
            f'self.heads = nn.{kind}Dict({{"a": nn.Linear(8, 8)}})',
            f"self.late = nn.{kind}List()",
        ]


def test_what_a_model_does_not_see_may_have_a_name_before():
    text = UNSEEN.replace("self.layers = [", "layers = [").replace(
        "self.heads =", "self.layers = layers\n        self.heads ="
    )
    source = Source.of(PATH, text)
    problem = Problem("FX007", "error", "`layer(x)` uses a module that is", Location(PATH, Span(16, 16, 16, 24)))
    (found,) = (each for each in proposals(source, problem) if each.title == "Make `self.layers` an `nn.ModuleList`")
    assert changed(source.mapper, found)[0].splitlines()[8].strip() == "self.layers = nn.ModuleList(layers)"


# Trying out.

TEXT, SPAN = model("if «x.max() > 1»:\n    x = x / 2\nn = len(y)\nreturn x + n")
BRANCH = Problem("FX001", "error", "a branch", Location(PATH, SPAN), target="Net", kind="data-dependent")
LENGTH = Problem("FX002", "error", "a length", Location(PATH, Span(10, 12, 10, 18)), target="Net")


def report(text: str, *problems: Problem, status: str = "partial") -> TraceReport:
    target = TargetReport("Net", "class", Span(6, 6, 6, 9), status, problems=problems)
    return TraceReport(1, PATH, digest(text), "partial", (target,))


def tried(before: TraceReport, *answers: TraceReport | None) -> tuple[TraceReport, list[str]]:
    """The report with its fixes, where each trial gives the next answer, or what is left of the problems."""
    texts: list[str] = []
    waiting = list(answers)

    async def trial(text: str):
        texts.append(text)
        return discover(PATH, text), waiting.pop(0) if waiting else report(text)

    return asyncio.run(with_fixes(before, TEXT, trial)), texts


def fixes(made: TraceReport) -> list[list[str]]:
    return [[fix.title for fix in problem.fixes] for problem in made.targets[0].problems]


def test_a_fix_holds_though_other_problems_stay():
    before = report(TEXT, BRANCH, LENGTH)
    # Two lines of the branch become one, so that the length stands a line above.
    after = report("", replace(LENGTH, location=Location(PATH, Span(9, 12, 9, 18))))
    made, texts = tried(before, after, after)
    assert "x = torch.where(x.max() > 1, x / 2, x)" in texts[0]
    assert "n = y.shape[0]" in texts[1]
    assert fixes(made)[0][:1] == ["Write `torch.where(…)`, which computes both and picks"]
    assert all(fix.verified for problem in made.targets[0].problems for fix in problem.fixes)


@pytest.mark.parametrize(
    "after",
    [
        report("", BRANCH),
        report("", replace(BRANCH, code="FX009", location=Location(PATH, Span(8, 12, 8, 30)))),
        report("", replace(BRANCH, location=Location("/lib/ops.py", Span(1, 0, 1, 4)))),
        report("", status="not traced"),
        replace(report(""), problems=(Problem("FX101", "error", "no", Location(PATH, Span(1, 0, 1, 4))),)),
    ],
    ids=["it is still there", "another came", "one came in a library", "it is no longer traced", "the file fails"],
)
def test_a_fix_that_does_not_hold_is_not_shown(after):
    made, _ = tried(report(TEXT, BRANCH), after, after)
    assert fixes(made) == [[]]


def test_what_shows_now_that_the_trace_comes_to_its_end_was_there_before():
    unused = Problem("FX305", "hint", "not used", Location(PATH, Span(7, 26, 7, 27)), target="Net")
    library = Problem("FX301", "information", "training", Location("/lib/ops.py", Span(1, 0, 1, 4)), target="Net")
    after = report("", unused, library, status="complete")
    assert fixes(tried(report(TEXT, BRANCH), after, after)[0]) != [[]]
    brought = report("", replace(unused, code="FX303", location=Location(PATH, Span(8, 8, 8, 20))), status="complete")
    assert fixes(tried(report(TEXT, BRANCH), brought, brought)[0]) == [[]]


def test_one_site_in_two_models_is_tried_once():
    before = report(TEXT, BRANCH)
    other = replace(before.targets[0], qualname="Other", problems=(replace(BRANCH, target="Other"),))
    made, texts = tried(replace(before, targets=(*before.targets, other)))
    assert len(texts) == 2
    assert [len(target.problems[0].fixes) for target in made.targets] == [2, 2]


def test_trials_are_bounded_and_each_problem_has_its_turn():
    lines = "\n".join(f"a{number} = len(y)" for number in range(20))
    text = HEAD + textwrap.indent(lines + "\nreturn x\n", "        ")
    problems = [
        replace(LENGTH, location=Location(PATH, Span(8 + n, 13 + len(str(n)) - 1, 8 + n, 19 + len(str(n)) - 1)))
        for n in range(20)
    ]

    async def trial(_: str):
        return discover(PATH, text), report(text, *problems[1:])

    made = asyncio.run(with_fixes(report(text, *problems), text, trial))
    assert sum(len(each.fixes) for each in made.targets[0].problems) <= 12


def test_a_text_that_does_not_parse_or_has_nothing_to_mend_is_not_tried():
    assert not is_worthwhile(report(TEXT, replace(BRANCH, code="FX104")))
    assert is_worthwhile(report(TEXT, BRANCH))
    before = report("def (", BRANCH)
    assert asyncio.run(with_fixes(before, "def (", None)) is before


def test_what_a_fix_does_is_not_said_again_in_words():
    hints = (
        "`torch.where(x > 0, a, b)` computes both",
        "move the lines and mark them with `@torch.fx.wrap`",
        "`Net` a leaf",
    )
    problem = replace(BRANCH, hint="\n".join(hints), fixes=(Fix("Write `torch.where(…)`", (), verified=True),))
    assert ways_out(problem) == [
        ("Write `torch.where(…)`", True),
        (hints[1], False),
        (hints[2], False),
    ]


def test_what_is_registered_is_not_compared_since_it_has_new_weights():
    unseen = replace(
        BRANCH,
        code="FX007",
        message="`x` uses a module that is not registered",
        location=Location(PATH, Span(15, 16, 15, 24)),
    )

    async def trial(text: str):
        return discover(PATH, text), report(text)

    async def sampler(*_: object):
        raise AssertionError

    found = asyncio.run(with_fixes(report(UNSEEN, unseen), UNSEEN, trial, sampler))
    fixes = found.targets[0].problems[0].fixes
    assert fixes[0].title == "Make `self.layers` an `nn.ModuleList`"
    assert fixes[0].proof == "traces; numbers are not compared: new weights"


def test_a_view_of_what_cannot_be_viewed_so_copies():
    body = "return «x.transpose(1, 2).view(\n    2,\n    -1,  # all of it\n)»"
    original = "RuntimeError: view size is not compatible with input tensor's size and stride"
    texts = [body_of(after) for _, after in proposed(body, "FX201", original=original)]
    assert [each.splitlines()[0] for each in texts] == [
        "return x.transpose(1, 2).reshape(",
        "return x.transpose(1, 2).contiguous().view(",
    ]
    assert all("# all of it" in each for each in texts)
    assert not proposed(body, "FX201", original="RuntimeError: shape '[2, 3]' is invalid for input of size 8")
    assert is_worthwhile(report(TEXT, replace(BRANCH, code="FX201")))


def test_what_comes_into_a_layer_of_rows_is_flattened():
    def given(flattened: bool) -> Misfit:
        return Misfit(((2, 64, 12, 12),), (Size(12), Size(9216, "in_features", 3, flattened)), at_layer=True)

    texts = [body_of(after) for _, after in proposed("return «self.fc(x + 1)»", "FX201", misfit=given(True))]
    assert texts == ["return self.fc((x + 1).flatten(1))"]
    assert not proposed("return «self.fc(x + 1)»", "FX201", misfit=given(False))


def of_layer(shapes: tuple[tuple[int, ...], ...], wanted: int, index: int) -> Misfit:
    """A layer that looks for so many in a dimension of the first shape."""
    return Misfit(shapes, (Size(shapes[0][index]), Size(wanted, "in_features", index)), at_layer=True)


@pytest.mark.parametrize(
    ("before", "misfit", "after"),
    [
        ("«self.it(x)»", of_layer(((2, 64, 30),), 64, 2), "self.it(x.transpose(1, 2))"),
        ("«self.it(x, h)»", of_layer(((2, 64, 30), (1, 2, 5)), 64, 2), "self.it(x.transpose(1, 2), h)"),
        ("«self.it(x)»", of_layer(((2, 30, 64),), 64, 1), "self.it(x.transpose(1, 2))"),
        ("«self.it(x + y)»", of_layer(((2, 9, 8, 3),), 3, 1), "self.it((x + y).permute(0, 3, 1, 2))"),
        ("«self.it(x)»", of_layer(((9, 8, 3),), 3, 0), None),
        ("«self.it(x)»", of_layer(((2, 64, 9, 8),), 64, 3), "self.it(x.permute(0, 2, 3, 1))"),
        (
            "«self.it(x, x, x)»",
            of_layer(((2, 64, 30),), 64, 2),
            "self.it(x.transpose(1, 2), x.transpose(1, 2), x.transpose(1, 2))",
        ),
        ("«self.it(x)»", of_layer(((2, 30, 32),), 64, 2), None),
        ("«self.it(x)»", of_layer(((64, 32),), 64, 1), None),
        ("«self.it(x)»", Misfit(((2, 64, 30),)), None),
    ],
)
def test_a_dimension_is_moved_to_where_a_layer_looks_for_it(before, misfit, after):
    texts = [body_of(each) for _, each in proposed(before, "FX201", misfit=misfit)]
    assert texts == ([after] if after is not None else [])


HALF = of_layer(((2, 8, 10, 5),), 16, 1)


@pytest.mark.parametrize(
    ("before", "misfit", "after"),
    [
        ("«torch.cat((x, y), dim=1)»", Misfit(((2, 5, 3), (2, 5, 8))), "torch.cat((x, y), dim=2)"),
        ("«torch.cat([x, y])»", Misfit(((2, 5, 3), (2, 5, 8))), "torch.cat([x, y], dim=2)"),
        ("«torch.cat([x, y], -2)»", Misfit(((2, 5, 3), (2, 5, 8))), "torch.cat([x, y], 2)"),
        ("«torch.cat([x, y], 1)»", Misfit(((2, 5, 3), (2, 6, 8))), None),
        ("«torch.cat([x, y], 1)»", Misfit(((2, 5, 3), (2, 5))), None),
        ("z = torch.cat([x, y], dim=2)\nz = «self.it(z)»", HALF, "z = torch.cat([x, y], dim=1)\nz = self.it(z)"),
        ("«self.it(torch.cat([x, y], dim=2))»", HALF, "self.it(torch.cat([x, y], dim=1))"),
        ("«self.it(torch.cat([x, y], dim=2))»", of_layer(((2, 8, 10, 5),), 12, 1), None),
        ("z = torch.cat([x, y], dim=d)\n«self.it(z)»", HALF, None),
        ("z = torch.cat([x, y], dim=1)\nz = z.relu()\n«self.it(z)»", HALF, None),
    ],
)
def test_values_are_joined_where_they_differ_or_a_layer_wants_them_all(before, misfit, after):
    texts = [body_of(each) for _, each in proposed(before, "FX201", misfit=misfit)]
    assert texts == ([after] if after is not None else [])


@pytest.mark.parametrize(
    ("before", "shapes", "after"),
    [
        ("«x @ y»", ((2, 5, 8), (2, 5, 8)), ["x @ y.transpose(-2, -1)", "x.transpose(-2, -1) @ y"]),
        ("«x @ x»", ((2, 5, 8),), ["x @ x.transpose(-2, -1)", "x.transpose(-2, -1) @ x"]),
        ("«torch.bmm(x, -y)»", ((2, 5, 8), (2, 6, 8)), ["torch.bmm(x, (-y).transpose(-2, -1))"]),
        ("«x.matmul(y)»", ((2, 5, 7), (2, 5, 8)), ["x.transpose(-2, -1).matmul(y)"]),
        ("«x @ y»", ((5,), (6,)), []),
        ("«x + y»", ((2, 5, 8), (2, 5, 8)), []),
    ],
)
def test_a_factor_of_a_product_is_transposed(before, shapes, after):
    assert [body_of(each) for _, each in proposed(before, "FX201", misfit=Misfit(shapes))] == after


LAYER = """from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.it = {}

    def forward(self, x):
        return self.it(x)
"""


@pytest.mark.parametrize(
    ("before", "argument", "path", "after"),
    [
        ("nn.Linear(16 * 5 * 5, 10)", "in_features", PATH, "nn.Linear(256, 10)"),
        (
            "nn.Linear(out_features=10, in_features=400)",
            "in_features",
            PATH,
            "nn.Linear(out_features=10, in_features=256)",
        ),
        (
            "nn.Sequential(nn.ReLU(), nn.Linear(400, 10))",
            "in_features",
            PATH,
            "nn.Sequential(nn.ReLU(), nn.Linear(256, 10))",
        ),
        ("nn.GroupNorm(400, 400)", "num_channels", PATH, "nn.GroupNorm(400, 256)"),
        ("nn.Linear(width * 50, 10)", "in_features", PATH, None),
        ("nn.Linear(400, 10)", "in_features", "/elsewhere/parts.py", None),
    ],
)
def test_a_layer_is_built_for_what_comes_in(before, argument, path, after):
    text = LAYER.format(before)
    mapper = Mapper(text)
    start = text.index("self.it(x)")
    span = Span(*mapper.at_offset(start), *mapper.at_offset(start + len("self.it(x)")))
    wanted = Size(400, argument, 1, built=Location(path, Span(7, 8, 7, 30)))
    misfit = Misfit(((2, 256),), (Size(256), wanted), at_layer=True)
    source = Source.of(PATH, text)
    assert source is not None
    found = proposals(source, Problem("FX201", "error", "no", Location(PATH, span), misfit=misfit))
    texts = [changed(source.mapper, each)[0] for each in found]
    assert texts == ([LAYER.format(after)] if after is not None else [])


def test_what_puts_layers_together_is_told_no_size():
    text = LAYER.format("nn.Sequential(\n            nn.Linear(10, 32),\n            nn.ReLU(),\n        )")
    mapper = Mapper(text)
    start = text.index("self.it(x)")
    span = Span(*mapper.at_offset(start), *mapper.at_offset(start + len("self.it(x)")))
    built = Location(PATH, Span(7, 8, 10, 9))
    sizes = (Size(32, "out_features", built=built), Size(64, "in_features", 1, built=built))
    source = Source.of(PATH, text)
    assert source is not None
    problem = Problem("FX201", "error", "no", Location(PATH, span), misfit=Misfit(((2, 32),), sizes, at_layer=True))
    assert not list(proposals(source, problem))


@pytest.mark.parametrize(
    ("made", "after"),
    [
        (Size(400, "out_features", built=Location(PATH, Span(7, 8, 7, 30))), "nn.Linear(10, 256)"),
        (Size(400, "", built=Location(PATH, Span(7, 8, 7, 30))), None),
        (Size(400), None),
    ],
)
def test_a_layer_makes_what_its_result_meets(made, after):
    before = "nn.Linear(10, 400)"
    text = LAYER.format(before)
    source = Source.of(PATH, text)
    assert source is not None
    mapper, call = source.mapper, text.index("self.it(x)")
    span = Span(*mapper.at_offset(call), *mapper.at_offset(call + len("self.it(x)")))
    misfit = Misfit(((2, 256), (2, 400)), (Size(256), made))
    found = proposals(source, Problem("FX201", "error", "no", Location(PATH, span), misfit=misfit))
    assert [changed(mapper, each)[0] for each in found] == ([LAYER.format(after)] if after is not None else [])


PAIR = """from torch import nn


class Net(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.first = nn.Linear({})
        self.second = {}

    def forward(self, x):
        return self.second(self.first(x))
"""


@pytest.mark.parametrize(
    ("first", "second", "afters"),
    [
        ("dim, 2 * hidden_dim", "nn.LayerNorm(dim)", ["nn.LayerNorm(2 * hidden_dim)"]),
        ("dim, hidden_dim", "nn.LayerNorm(normalized_shape=dim)", ["nn.LayerNorm(normalized_shape=hidden_dim)"]),
        ("dim, hidden_dim", "nn.LayerNorm(hidden_dim)", []),
        ("dim, hidden_dim", "Norm()", []),
    ],
)
def test_a_layer_is_told_its_size_as_another_one_is(first, second, afters):
    text, call = PAIR.format(first, second), "self.second(self.first(x))"
    source = Source.of(PATH, text)
    assert source is not None
    start = text.index(call)
    span = Span(*source.mapper.at_offset(start), *source.mapper.at_offset(start + len(call)))
    made = Size(192, "out_features", built=Location(PATH, Span(7, 8, 7, 30)))
    wanted = Size(64, "normalized_shape", 1, built=Location(PATH, Span(8, 8, 8, 30)))
    misfit = Misfit(((2, 192),), (made, wanted), at_layer=True)
    found = proposals(source, Problem("FX201", "warning", "no", Location(PATH, span), misfit=misfit))
    texts = [changed(source.mapper, each)[0] for each in found if "comes in" in each.title]
    assert texts == [PAIR.format(first, each) for each in afters]


ROWS = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear({}, 120)
        self.fc2 = nn.Linear(120, {})

    def forward(self, x):
        return self.fc2(self.fc1({}))
"""


@pytest.mark.parametrize(
    ("first", "last", "changes"),
    [("16 * 5 * 5", 10, True), ("400", 10, True), ("16 * 5 * 6", 10, False), ("120", 10, False)],
)
def test_rows_of_another_length_are_made_together_with_their_layer(first, last, changes):
    view = "x.view(x.size(0), 400)"
    text = ROWS.format(first, last, view)
    mapper = Mapper(text)
    span = Span(*mapper.at_offset(text.index(view)), *mapper.at_offset(text.index(view) + len(view)))
    misfit = Misfit(((2, 16, 13, 13),))
    source = Source.of(PATH, text)
    assert source is not None
    found = proposals(source, Problem("FX201", "error", "no", Location(PATH, span), misfit=misfit))
    texts = [changed(source.mapper, each)[0] for each in found]
    assert texts == ([ROWS.format(2704, last, "x.flatten(1)")] if changes else [])


@pytest.mark.parametrize(
    ("before", "title", "after"),
    [
        ("return «x.type(torch.FloatTensor)»", "Write `.type(torch.float32)`", "return x.type(torch.float32)"),
        (
            "return «(x > 0).type(torch.cuda.LongTensor)» + y",
            'Write `.to("cuda", torch.int64)`',
            'return (x > 0).to("cuda", torch.int64) + y',
        ),
    ],
)
def test_a_data_type_is_named_and_not_a_class_of_tensors(before, title, after):
    assert [(each, body_of(text)) for each, text in proposed(before, "FX008")] == [(title, after)]


def test_what_is_no_class_of_tensors_is_left_as_it_is():
    assert proposed("return «x.type(self.kind)»", "FX008") == []
