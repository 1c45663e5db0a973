"""The command line with a scripted worker: what it prints, and the exit codes."""

import asyncio
import contextlib
import gc
import json
import os
import pty
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fxls.cli import commands, main
from fxls.cli.commands import _written
from fxls.cli.findings import FileFindings, Finding, Place, Sources
from fxls.cli.machine_formats import to_github, to_json, to_sarif
from fxls.cli.plain_markdown import plain
from fxls.cli.terminal import Paint, underlay
from fxls.cli.text_format import render, summary
from fxls.text.mapper import Mapper
from fxls.workers.pool import PooledWorker
from fxworker.wire import Construct, Edit, Fix, Guard, Location, NodeInfo, Problem, Related, Span, TargetReport, Timings

FAKE = shlex.join([sys.executable, str(Path(__file__).with_name("fake_worker.py"))])
MODEL = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


def write(name: str, text: str = MODEL) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def run(capsys, *arguments: str, python: str = FAKE) -> tuple[int, str, str]:
    code = main([*arguments, "--python", python])
    out, err = capsys.readouterr()
    return code, out, err


# check


def test_a_clean_file_exits_with_0(capsys):
    write("net.py")
    assert run(capsys, "check", "net.py") == (0, "no problems · 1 model in 1 file, 1 captured\n", "")


def test_a_problem_exits_with_1_and_is_shown_with_its_source(capsys):
    write("models/net.py", MODEL.replace("return x", "return x  # fake: problem"))
    code, out, _ = run(capsys, "check", "models")
    assert code == 1
    assert out.splitlines()[:4] == [
        "models/net.py:6:5: error[FX001] a value is asked for a bool",
        "  |",
        "6 |         return x  # fake: problem",
        "  |     ^^^^",
    ]
    assert out.endswith("1 error · 1 model in 1 file, 1 captured\n")


def test_folders_are_searched_and_environments_left_out(capsys):
    for name in ("a.py", "sub/b.py", ".hidden/c.py", "venv/lib/d.py", "__pycache__/e.py", "sub/notes.txt"):
        write(name)
    write("venv/pyvenv.cfg", "")
    write("no_models.py", "print(1)\n")
    _, out, _ = run(capsys, "check", ".", "a.py", "--format", "json")
    assert [target["path"] for target in json.loads(out)["targets"]] == ["a.py", "sub/b.py"]


def test_a_folder_that_is_searched_is_the_project_where_nothing_marks_one(capsys):
    layer = (
        "    def __init__(self, width):\n        super().__init__()\n        self.layer = torch.nn.Linear(width, 2)\n\n"
    )
    write("whole/nets/net.py", MODEL.replace("    def", f"{layer}    def").replace("return x", "return self.layer(x)"))
    write("whole/train.py", "from nets.net import Net\n\nmodel = Net(width=24)\n")
    _, out, _ = run(capsys, "check", "whole", "--format", "json", python=sys.executable)
    (target,) = json.loads(out)["targets"]
    assert (target["construct"], target["construct_from"]) == ("Net(width=24)", "instance")


def test_what_files_run_on_is_said_once_if_that_is_asked_for(capsys):
    write("a.py")
    write("b.py")
    _, _, err = run(capsys, "check", ".", "--verbose")
    assert [line for line in err.splitlines() if line.startswith("fxls: torch ")] == [
        f"fxls: torch 2.13.0, Python 3.11.0, {sys.executable}; no sandbox: this system offers none"
    ]
    assert "fxls: torch" not in run(capsys, "check", ".")[2]


def test_as_many_files_are_traced_at_once_as_there_are_jobs(capsys, monkeypatch):
    running, most = 0, 0
    trace = PooledWorker.trace

    async def counted(self, request, on_early=None):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return await trace(self, request, on_early)

    monkeypatch.setattr(PooledWorker, "trace", counted)
    for number in range(12):
        write(f"net{number}.py")
    for jobs in (1, 3):
        most = 0
        assert run(capsys, "check", ".", "--jobs", str(jobs))[0] == 0
        assert most == jobs


def test_the_graphs_of_files_that_are_done_are_let_go(capsys, monkeypatch):
    held = []

    def written(*arguments):
        gc.collect()
        held.append(sum(type(each) is NodeInfo for each in gc.get_objects()))
        return _written(*arguments)

    monkeypatch.setattr(commands, "_written", written)
    for number in range(20):
        write(f"net{number}.py")
    code, out, _ = run(capsys, "check", ".", "--format", "json")
    assert (code, held) == (0, [held[0]])
    assert held[0] <= 3, "one is that which stands for all others"
    assert [each["nodes"] for each in json.loads(out)["targets"]] == [1] * 20


def test_a_terminal_is_told_how_far_it_is_and_nothing_of_that_is_left(tmp_path):
    for number in range(3):
        write(f"net{number}.py", MODEL.replace("return x", "return x  # fake: sleep 0.2"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fxls", "check", ".", "--python", FAKE, "--jobs", "1"],
        stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path,
    )  # fmt: skip
    os.close(theirs)
    said = bytearray()
    with contextlib.suppress(OSError):  # The terminal is closed with its last user.
        while part := os.read(ours, 1 << 12):
            said += part
    os.close(ours)
    assert process.communicate()[0].decode() == "no problems · 3 models in 3 files, 3 captured\n"
    assert process.returncode == 0
    told = [each.strip() for each in said.decode().split("\r") if each.strip()]
    assert told == [f"tracing {number}/3 net{number - 1}.py" for number in (1, 2, 3)]
    assert said.endswith(b" \r"), "the line is blank at the end"
    assert b"\n" not in said


def test_a_path_that_does_not_exist_exits_with_2(capsys):
    code, out, err = run(capsys, "check", "nowhere.py")
    assert (code, out, err) == (2, "", "fxls: nowhere.py: no such file or folder\n")


def test_a_notebook_is_no_file_without_problems(capsys):
    write("net.ipynb", "{}")
    code, out, err = run(capsys, "check", "net.ipynb")
    assert (code, out) == (2, "")
    assert err.startswith("fxls: net.ipynb: is a notebook; export it as a script")


def test_a_file_that_cannot_be_decoded_exits_with_2_and_others_are_checked(capsys):
    write("net.py")
    Path("bad.py").write_bytes(b"x = '\xff'\n")
    code, out, err = run(capsys, "check", "bad.py", "net.py")
    assert code == 2
    assert err.startswith("fxls: bad.py: cannot be decoded")
    assert out == "no problems · 1 model in 1 file, 1 captured\n"


def test_an_interpreter_without_torch_exits_with_2(capsys):
    write("net.py")
    code, _, err = run(capsys, "check", "net.py", python=f"{FAKE} --no-torch")
    assert code == 2
    assert err.startswith("fxls: cannot trace: the interpreter has no torch\n")
    code, _, err = run(capsys, "check", "net.py", python="/no/such/python")
    assert code == 2
    assert "/no/such/python" in err


def test_a_worker_that_dies_is_a_problem(capsys):
    write("net.py", MODEL + "# fake: die\n")
    code, out, _ = run(capsys, "check", "net.py")
    assert code == 1
    assert "error[FX105]" in out


def test_a_syntax_error_is_a_problem_of_a_file_that_speaks_of_torch(capsys):
    write("a.py", "import torch\nclass Net(:\n")
    write("b.py", "class Net(:\n")
    code, out, _ = run(capsys, "check", ".")
    assert code == 1
    assert out.startswith("a.py:2:11: error[FX101] the file cannot be imported: SyntaxError: invalid syntax\n")
    assert "b.py" not in out
    assert "b.py:1:11" in run(capsys, "check", "b.py")[1]


def test_configuration_is_applied_and_what_is_wrong_in_it_shown(capsys):
    write("net.py")
    write("pyproject.toml", "[[tool.fxls.target]]\npath = 'net.py'\n")
    _, out, _ = run(capsys, "check", "net.py")
    assert "pyproject.toml:1:1: warning[FX107] pyproject.toml: a target needs `construct` or `inputs`" in out


def test_what_is_ignored_is_not_reported_in_any_format(capsys):
    write("net.py", MODEL.replace("return x", "return x  # fake: problem"))
    assert run(capsys, "check", "net.py", "--ignore", "FX0,FX301")[0] == 0
    write("net.py", MODEL.replace("return x", "return x  # fake: problem  # fx: ignore[FX001]"))
    for format_ in ("json", "sarif", "github", "text"):
        code, out, _ = run(capsys, "check", "net.py", "--format", format_)
        assert code == 0
        assert "asked for a bool" not in out
    write("net.py", MODEL.replace("return x", "return x  # fake: problem"))
    write("pyproject.toml", '[tool.fxls]\nper-file-ignores = { "net.py" = ["FX001"] }\n')
    assert run(capsys, "check", ".")[0] == 0
    write("pyproject.toml", '[tool.fxls]\nseverity = { FX001 = "warning" }\n')
    code, out, _ = run(capsys, "check", ".")
    assert (code, out.splitlines()[0]) == (0, "net.py:6:5: warning[FX001] a value is asked for a bool")
    with pytest.raises(SystemExit):
        run(capsys, "check", "net.py", "--ignore", "FX999")
    assert "FX999 is no code of fxls" in capsys.readouterr().err


def test_a_mistake_in_a_comment_is_a_warning_in_every_format(capsys):
    write("net.py", MODEL.replace("return x", "return x  # fx: ignore[FX999]"))
    code, out, _ = run(capsys, "check", "net.py", "--format", "json")
    (found,) = json.loads(out)["problems"]
    assert (code, found["code"], found["severity"], found["column"]) == (0, "FX106", "warning", 32)
    assert found["fixes"][0]["title"] == "Remove the comment"
    assert "::warning file=net.py" in run(capsys, "check", "net.py", "--format", "github")[1]
    (result,) = json.loads(run(capsys, "check", "net.py", "--format", "sarif")[1])["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("FX106", "warning")


def test_mistakes_in_the_configuration_are_told_once(capsys):
    write("a.py")
    write("b.py")
    write("pyproject.toml", "[tool.fxls]\nignroe = []\n")
    assert run(capsys, "check", ".")[1].count("FX107]") == 1


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_what_is_no_text_is_written_as_an_escape(form):
    """A file name may hold bytes that are no characters, and so may whatever code says of itself."""
    write("net\udcff.py", MODEL.replace("return x", "return x  # fake: problem"))
    command = [sys.executable, "-m", "fxls", "check", ".", "--python", FAKE, "--format", form]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)
    assert b"\\udcff" in done.stdout or b"%ED%B3%BF" in done.stdout or b"%FF" in done.stdout


def test_encodings_and_line_ends_are_those_of_the_file(capsys):
    text = "# coding: latin-1\r\n" + MODEL.replace("\n", "\r\n").replace("return x", "é = 1  # fake: problem")
    Path("net.py").write_bytes(text.encode("latin-1"))
    _, out, _ = run(capsys, "check", "net.py")
    assert "7 |         é = 1  # fake: problem\n  |     ^^^^" in out


# code, graph, profile


def test_code_prints_the_code_of_a_model(capsys):
    write("net.py")
    assert run(capsys, "code", "net.py") == (0, "def forward(self, x):\n    return x\n", "")
    assert run(capsys, "code", "net.py::Net")[0] == 0


def test_other_models_of_the_file_are_named(capsys):
    write("net.py", MODEL + MODEL.replace("Net", "Other"))
    _, _, err = run(capsys, "code", "net.py")
    assert err == "fxls: this is Net; also in the file: Other (name one after ::)\n"


def test_graph_prints_in_each_format(capsys):
    write("net.py")
    assert "placeholder" in run(capsys, "graph", "net.py")[1]
    assert json.loads(run(capsys, "graph", "net.py", "--format", "json")[1])["nodes"][0]["name"] == "x"
    assert run(capsys, "graph", "net.py", "--format", "dot")[1].startswith('digraph "Net"')
    assert run(capsys, "graph", "net.py", "--format", "svg")[1].startswith("<svg")


def test_profile_prints_in_each_format(capsys):
    write("net.py")
    assert run(capsys, "profile", "net.py")[1] == "a profile\n"
    assert run(capsys, "profile", "net.py", "--format", "json")[1] == "{}\n"
    assert run(capsys, "profile", "net.py::Net", "--format", "trace")[1] == "[]\n"


def test_a_device_that_is_not_there_exits_with_2(capsys):
    write("net.py")
    code, _, err = run(capsys, "profile", "net.py", "--device", "cuda")
    assert code == 2
    assert "there is no device cuda; torch sees cpu" in err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("net.py::Nat", "net.py: there is no model Nat; there are Net"),
        ("empty.py", "empty.py: there is no model in this file"),
        (".", ".: name one file, and the model after ::"),
        ("gone.py", "gone.py: no such file or folder"),
    ],
)
def test_what_cannot_be_shown_exits_with_2(capsys, argument, message):
    write("net.py")
    write("empty.py", "")
    for command in ("code", "graph", "profile"):
        assert run(capsys, command, argument) == (2, "", f"fxls: {message}\n")


def test_wrong_arguments_exit_with_2(capsys):
    for arguments in (["check"], ["check", "x.py", "--format", "xml"], ["check", "x.py", "--jobs", "0"], ["dance"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    with pytest.raises(SystemExit) as stopped:
        main(["check", "--help"])
    assert stopped.value.code == 0
    assert "exit code:" in capsys.readouterr().out


def test_colours_come_when_they_are_asked_for(capsys):
    write("net.py", MODEL.replace("return x", "return x  # fake: problem"))
    assert "\033[1;31merror[FX001]\033[0m" in run(capsys, "check", "net.py", "--color", "always")[1]
    assert "\033" not in run(capsys, "check", "net.py")[1]


class Terminal:
    def isatty(self):
        return True


def test_colours_are_for_terminals_that_want_them():
    assert Paint.for_stream(Terminal(), "auto", {}).on
    assert not Paint.for_stream(Terminal(), "auto", {"NO_COLOR": "1"}).on
    assert not Paint.for_stream(Terminal(), "auto", {"TERM": "dumb"}).on
    assert not Paint.for_stream(Terminal(), "never", {}).on


# Formats, of findings made by hand.

SOURCE = "\tx = '漢字🎉'; y = f(x)\n" + "long = " + "a + " * 100 + "here + " + "b + " * 100 + "1\n"
PATH = "/elsewhere/net.py"


def place_of(line: int, piece: str) -> Location:
    text = SOURCE.split("\n")[line - 1]
    start = len(text[: text.index(piece)].encode())
    return Location(PATH, Span(line, start, line, start + len(piece.encode())))


def finding(line: int, piece: str, **changes) -> tuple[Finding, Sources]:
    sources = Sources({PATH: Mapper(SOURCE, "utf-32")})
    problem = Problem("FX001", "error", "wrong", place_of(line, piece), target="Net", **changes)
    return Finding(problem, sources.place(problem.location), ("Net",)), sources


def test_carets_stand_under_their_text_behind_tabs_and_wide_characters():
    one, sources = finding(1, "f(x)", kind="metadata", explanation="x → f(x)")
    lines = render(one, sources, Paint(on=False)).splitlines()
    assert lines[0] == "/elsewhere/net.py:1:17: error[FX001] wrong"
    assert lines[2] == "1 | \tx = '漢字🎉'; y = f(x)"
    assert lines[3] == "  | \t                  ^^^^ metadata: x → f(x)"
    assert underlay("\té漢e\u0301") == "\t    "


def test_of_a_long_line_the_part_around_the_span_is_shown():
    one, sources = finding(2, "here")
    lines = render(one, sources, Paint(on=False)).splitlines()
    assert lines[2].startswith("2 | …")
    assert lines[2].endswith("…")
    assert len(lines[2]) < 170
    start = lines[3].index("^")
    assert lines[2][start : start + 4] == "here"


def test_what_an_option_decides_is_not_static():
    one, sources = finding(1, "f(x)", value="False")
    assert "  = for the inputs in use it is False" in render(one, sources, Paint(on=False)).splitlines()


def test_notes_say_what_to_do_and_where_it_leads():
    one, sources = finding(
        1,
        "f(x)",
        hint="first\nsecond",
        fixes=(Fix("ready", (), verified=True),),
        original="TypeError: x",
        instances=("a.0", "a.1", "a.2"),
        kind="metadata",
        value="False",
        related=(Related(Location("/lib/ops.py", Span(3, 0, 3, 1)), "called here"),),
    )
    assert render(replace(one, fed="x: f32[2]"), sources, Paint(on=False)).splitlines()[4:] == [
        "  = for the inputs in use (x: f32[2]) it is False, so it is static in truth",
        "  = in 3 instances: a.0 … a.2, of Net",
        "  = /lib/ops.py:3:1: called here",
        "  = fixes: 1. ready  [verified]",
        "           2. first",
        "           3. second",
        "  = torch.fx: TypeError: x",
        "  = docs/rules/FX001",
    ]


def test_what_a_fix_was_proven_to_keep_is_printed():
    one, sources = finding(
        1, "f(x)", fixes=(Fix("ready", (), verified=True, proof="traces; same outputs on 2 inputs"),)
    )
    lines = render(one, sources, Paint(on=False)).splitlines()
    assert "  = hint: ready  [verified: traces; same outputs on 2 inputs]" in lines
    (written,) = json.loads(to_json([FileFindings("net.py", (one,), ())], sources))["problems"]
    assert written["fixes"] == [
        {"title": "ready", "verified": True, "edits": [], "proof": "traces; same outputs on 2 inputs"}
    ]


def test_json_is_as_documented():
    edit = Edit(place_of(1, "y"), "z")
    one, sources = finding(1, "f(x)", fixes=(Fix("rename", (edit,), verified=True),))
    construct = Construct("Net()", "no arguments")
    target = TargetReport(
        "Net",
        "class",
        Span(1, 0, 1, 1),
        "partial",
        construct=construct,
        guards=(Guard("x.shape[0] > 4", "False"),),
        cut="after 2 s",
        reached_end=False,
        timings=Timings(1, 2, 3, 4, 5),
    )
    document = json.loads(to_json([FileFindings("net.py", (one,), (target,))], sources))
    assert document == {
        "version": 1,
        "targets": [
            {
                "path": "net.py",
                "qualname": "Net",
                "construct": "Net()",
                "construct_from": "no arguments",
                "inputs": None,
                "inputs_from": None,
                "status": "partial",
                "nodes": 0,
                "reached_end": False,
                "cut": "after 2 s",
                "guards": [{"expression": "x.shape[0] > 4", "value": "False"}],
                "ms": 15.0,
            }
        ],
        "problems": [
            {
                "path": "/elsewhere/net.py",
                "line": 1,
                "column": 17,
                "end_line": 1,
                "end_column": 21,
                "code": "FX001",
                "severity": "error",
                "message": "wrong",
                "target": "Net",
                "kind": "",
                "value": "",
                "instances": [],
                "related": [],
                "fixes": [
                    {
                        "title": "rename",
                        "verified": True,
                        "edits": [
                            {
                                "path": "/elsewhere/net.py",
                                "line": 1,
                                "column": 13,
                                "end_line": 1,
                                "end_column": 14,
                                "text": "z",
                            }
                        ],
                    }
                ],
            }
        ],
    }


def test_annotations_are_escaped():
    one, _ = finding(1, "f(x)", hint="50%\nof it")
    one = replace(one, place=Place("a:b,c.py", 1, 2, 1, 3))
    expected = "::error file=a%3Ab%2Cc.py,line=1,endLine=1,col=2,endColumn=2,title=fxls FX001::wrong%0A50%25%0Aof it\n"
    assert to_github([FileFindings("", (one,), ())]) == expected


def test_sarif_has_rules_and_results():
    one, sources = finding(1, "f(x)", related=(Related(place_of(1, "y"), "from here"),))
    (log,) = json.loads(to_sarif([FileFindings("", (one,), ())], sources))["runs"]
    assert [rule["id"] for rule in log["tool"]["driver"]["rules"]] == ["FX001"]
    (result,) = log["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startColumn"] == 17
    assert result["relatedLocations"][0]["message"] == {"text": "from here"}
    assert log["columnKind"] == "unicodeCodePoints"


def test_the_summary_counts():
    one, _ = finding(1, "f(x)")
    two = replace(one, problem=replace(one.problem, severity="warning"))
    target = TargetReport("Net", "class", Span(1, 0, 1, 1), "partial")
    files = [
        FileFindings("a.py", (one, one, two), (target,)),
        FileFindings("b.py", (), (replace(target, status="complete"),)),
    ]
    assert summary(files, Paint(on=False)) == "2 errors, 1 warning · 2 models in 2 files, 1 captured"


def test_what_is_inside_of_a_model_that_was_captured_with_its_inputs_was_captured_too():
    whole = TargetReport("Net", "class", Span(1, 0, 1, 1), "partial", captured=True)
    part = TargetReport("Part", "class", Span(2, 0, 2, 1), "partial", enclosed_by="Net")
    other = TargetReport("Other", "class", Span(3, 0, 3, 1), "partial")
    files = [FileFindings("a.py", (), (whole, part, other))]
    assert summary(files, Paint(on=False)) == "no problems · 3 models in 1 file, 2 captured"


def test_a_report_is_aligned_without_marks():
    report = """# Net on `cpu`

- whole **model** · 3 ms

| time | line | source |
|--:|:--|:--|
| 8 µs | [72](file:///x.py#L72) | `a \\| b` |
| 120 µs | 7 | 漢字 |
"""
    assert (
        plain(report)
        == """Net on cpu

- whole model · 3 ms

  time  line  source
  8 µs  72    a | b
120 µs  7     漢字
"""
    )
