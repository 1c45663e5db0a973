"""The session, with a client and workers that note what they are told: what is traced when, and what is shown."""

import asyncio
import threading
from dataclasses import replace

import pytest
from lsprotocol import types as lsp

from fxls import session
from fxls.commands import CommandError, show_code
from fxls.discovery.elsewhere import Calls
from fxls.lsp_ext import CommandArguments
from fxls.session import Session, Terms
from fxls.text.uris import to_path
from fxworker.texts import digest
from fxworker.wire import (
    Edit,
    EnvironmentReport,
    Fix,
    Location,
    NodeInfo,
    Problem,
    ProfileReport,
    ProfileRow,
    Span,
    TargetReport,
    TraceReport,
)

NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"


class Editor:
    """A client that keeps what it is shown."""

    def __init__(self):
        self.published = []
        self.statuses = []
        self.refreshed = 0
        self.warnings = []

    def publish(self, uri, version, found):
        self.published.append((uri.rsplit("/", 1)[1], version, [each.code for each in found]))

    def refresh(self):
        self.refreshed += 1

    def status(self, status):
        self.statuses.append(status.state)

    def warn(self, message):
        self.warnings.append(message)


class Worker:
    """A worker that answers when it is let."""

    def __init__(self):
        self.requests = []
        self.cancelled = []
        self.open = asyncio.Event()
        self.open.set()
        self.dependencies = {}
        self.problems = ()
        self.shapes = ()
        self.early = False
        self.enclosed = {}
        self.report = EnvironmentReport("3.11", "python", "2.13", ("cpu",))
        self.profiles = []
        self.denies = False

    async def environment(self):
        return self.report

    async def trace(self, request, on_early=None):
        self.requests.append(request)
        if self.early and on_early is not None:
            found = tuple(TargetReport(each.qualname, each.kind, each.name, "complete") for each in request.targets)
            on_early(
                TraceReport(
                    1, request.path, digest(request.text), "complete", found, self._problems(request, self.problems)
                )
            )
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request)
            raise
        node = NodeInfo(0, "x", "placeholder", "x", "", "", (), (), None, "", None, None)
        targets = tuple(
            TargetReport(
                each.qualname,
                each.kind,
                each.name,
                "complete",
                nodes=(node,),
                code=f"# {each.qualname}",
                problems=self._problems(request, self.shapes),
            )
            if each.qualname not in self.enclosed
            else TargetReport(each.qualname, each.kind, each.name, "complete", enclosed_by=self.enclosed[each.qualname])
            for each in request.targets
        )
        dependencies = self.dependencies.get(request.path, ())
        problems = self._problems(request, self.problems)
        return TraceReport(1, request.path, digest(request.text), "complete", targets, problems, dependencies)

    def _problems(self, request, problems):
        return tuple(replace(each, location=Location(request.path, each.location.span)) for each in problems)

    async def profile(self, request, on_progress):
        self.profiles.append(request)
        if self.denies and request.sandbox:
            text = digest(request.text)
            return ProfileReport(1, request.path, text, request.target.qualname, "cpu", "failed", denied="files")
        row = ProfileRow("add", Location(request.path, Span(6, 15, 6, 20)), 0.1, 0.0, 1.0, 0.0, 0.0)
        return ProfileReport(1, request.path, digest(request.text), request.target.qualname, request.device,
                             "complete", (row,), data="measured", markdown=request.previous)  # fmt: skip

    async def close(self):
        pass


class Pool:
    def __init__(self, worker):
        self.worker = worker
        self.asked = set()
        self.kept = None
        self.discarded = []

    def client(self, env):
        self.asked.add(env)
        return self.worker

    async def discard(self, env):
        self.discarded.append(env)

    def keep(self, environments):
        self.kept = environments

    async def close(self):
        pass


class World:
    def __init__(self, folder, **terms):
        self.folder = folder
        self.editor, self.worker = Editor(), Worker()
        self.pool = Pool(self.worker)
        self.session = Session(self.editor, Terms(folders=(str(folder),), **terms), self.pool)

    def uri(self, name):
        return (self.folder / name).as_uri()

    def path(self, name):
        return str(self.folder / name)

    async def open(self, name, text=NET):
        self.session.open(self.uri(name), 1, text)
        await self.settle()

    def type(self, name, version, text, line=0):
        place = lsp.Position(line, 0)
        event = lsp.TextDocumentContentChangePartial(range=lsp.Range(place, place), text=text)
        self.session.change(self.uri(name), version, [event])

    def replace(self, name, version, text):
        self.session.change(self.uri(name), version, [lsp.TextDocumentContentChangeWholeDocument(text)])

    async def settle(self):
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
            while not self.session._scheduler.idle:
                await asyncio.sleep(0.001)

    def traced(self):
        return [request.path.rsplit("/", 1)[1] for request in self.worker.requests]


@pytest.fixture
async def world(tmp_path):
    world = World(tmp_path)
    yield world
    await world.session.close()


async def test_each_edit_of_code_is_traced_and_shown_with_its_version(world):
    await world.open("net.py")
    for version in (2, 3):
        world.type("net.py", version, f"x = {version}\n")
        await world.settle()
    assert world.editor.published == [("net.py", 1, []), ("net.py", 2, []), ("net.py", 3, [])]
    assert world.traced() == ["net.py"] * 3


async def test_a_file_opened_before_its_folder_was_looked_at_is_traced_with_what_that_finds(world, monkeypatch):
    """An index of a large folder, or of one on a slow disk, comes after the first report."""
    is_let, look = threading.Event(), Calls.look

    def slowly(calls):
        is_let.wait(5)
        look(calls)

    monkeypatch.setattr(Calls, "look", slowly)
    (world.folder / "test_net.py").write_text("from net import Net\nnet = Net(3)\n")
    await world.open(
        "net.py", NET.replace("    def", "    def __init__(self, width):\n        super().__init__()\n\n    def")
    )
    await world.open("other.py")
    assert world.traced() == ["net.py", "other.py"]
    is_let.set()
    await asyncio.sleep(0.2)
    await world.settle()
    assert world.traced() == ["net.py", "other.py", "net.py"]
    ways = [[each.expression for each in request.targets[0].constructs] for request in world.worker.requests]
    assert ways == [[], [], ["Net(3)"]]


async def test_edits_that_come_faster_than_traces_end_the_older_ones(world):
    await world.open("net.py")
    world.worker.open.clear()
    for version in range(2, 10):
        world.type("net.py", version, f"x = {version}\n")
        await asyncio.sleep(0.01)
    assert len(world.worker.cancelled) == 7
    world.worker.open.set()
    await world.settle()
    assert world.editor.published == [("net.py", 1, []), ("net.py", 9, [])]


async def test_a_comment_typed_while_a_trace_runs_lets_it_run_and_the_answer_is_carried(world):
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(6, 15, 6, 20))),)
    world.worker.open.clear()
    world.session.open(world.uri("net.py"), 1, NET)
    await asyncio.sleep(0.01)
    world.type("net.py", 2, "# a comment\n\n")
    world.worker.open.set()
    await world.settle()
    assert world.worker.cancelled == []
    assert world.traced() == ["net.py"]
    assert world.editor.published == [("net.py", 2, ["FX001"])]
    snapshot = world.session.snapshot(world.uri("net.py"))
    assert snapshot.fresh
    assert snapshot.located(Span(6, 15, 6, 20)) == Span(8, 15, 8, 20)


async def test_a_report_of_older_code_is_not_fresh(world):
    await world.open("net.py")
    world.worker.open.clear()
    world.type("net.py", 2, "x = 1\n")
    await asyncio.sleep(0.01)
    snapshot = world.session.snapshot(world.uri("net.py"))
    assert snapshot.report is not None
    assert not snapshot.fresh
    world.worker.open.set()
    await world.settle()
    assert world.session.snapshot(world.uri("net.py")).fresh


async def test_broken_text_keeps_what_was_known(world):
    await world.open("net.py")
    world.type("net.py", 2, "def (\n")
    await world.settle()
    snapshot = world.session.snapshot(world.uri("net.py"))
    assert (snapshot.index.parsed, snapshot.fresh) == (False, False)
    assert [each.qualname for each in snapshot.index.targets] == ["Net"]
    assert snapshot.index.targets[0].name.line == 5
    assert snapshot.report is not None
    assert snapshot.report.digest == digest(NET)


async def test_files_that_import_each_other_are_traced_once_for_each_edit(world):
    world.worker.dependencies = {
        world.path("a.py"): (world.path("b.py"),),
        world.path("b.py"): (world.path("a.py"),),
    }
    await world.open("a.py")
    await world.open("b.py")
    world.worker.requests.clear()
    world.type("a.py", 2, "x = 1\n")
    await world.settle()
    assert sorted(world.traced()) == ["a.py", "b.py"]
    assert world.traced()[0] == "a.py"


async def test_broken_text_does_not_break_those_that_import_it(world):
    world.worker.dependencies = {world.path("a.py"): (world.path("b.py"),)}
    await world.open("a.py")
    await world.open("b.py")
    world.worker.requests.clear()
    world.type("b.py", 2, "def (\n")
    await world.settle()
    assert world.traced() == []
    world.replace("b.py", 3, NET + "y = 1\n")
    await world.settle()
    assert sorted(world.traced()) == ["a.py", "b.py"]


async def test_a_text_that_is_unsaved_when_it_is_opened_is_seen_by_those_that_import_it(world):
    """An editor that is started again opens what it had, saved or not."""
    (world.folder / "b.py").write_text(NET)
    (world.folder / "c.py").write_text(NET)
    world.worker.dependencies = {world.path("a.py"): (world.path("b.py"), world.path("c.py"))}
    await world.open("a.py")
    await world.open("b.py", NET + "y = 1\n")
    assert world.traced() == ["a.py", "b.py", "a.py"]
    await world.open("c.py")
    assert world.traced() == ["a.py", "b.py", "a.py", "c.py"]


async def test_what_changed_while_a_file_that_imports_it_was_traced_is_seen(world):
    """Until its first report nobody knows what a file imports."""
    world.worker.dependencies = {world.path("a.py"): (world.path("b.py"),)}
    await world.open("b.py")
    world.worker.open.clear()
    world.session.open(world.uri("a.py"), 1, NET)
    await asyncio.sleep(0.05)
    world.type("b.py", 2, "x = 1\n")
    await asyncio.sleep(0.05)
    world.worker.open.set()
    await world.settle()
    last = [each for each in world.worker.requests if each.path == world.path("a.py")][-1]
    assert [each.text for each in last.overlays] == ["x = 1\n" + NET]


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: f"# a\n{text}\n# b\n"])
async def test_a_layout_that_is_sent_as_a_whole_text_keeps_what_is_known(world, change):
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(6, 15, 6, 20))),)
    await world.open("net.py")
    world.replace("net.py", 2, change(NET))
    await world.settle()
    assert world.traced() == ["net.py"]
    assert world.editor.published == [("net.py", 1, ["FX001"]), ("net.py", 2, ["FX001"])]


async def test_unsaved_texts_are_laid_over_saved_ones_are_not(world):
    (world.folder / "b.py").write_text(NET)
    await world.open("b.py")
    world.type("b.py", 2, "x = 1\n")
    await world.settle()
    await world.open("a.py")
    assert [each.path for each in world.worker.requests[-1].overlays] == [world.path("b.py")]
    world.session.save(world.uri("b.py"))
    world.type("a.py", 2, "x = 1\n")
    await world.settle()
    assert world.worker.requests[-1].overlays == ()


async def test_a_file_that_is_open_has_its_text_here_not_on_disk(world):
    world.worker.dependencies = {world.path("a.py"): (world.path("b.py"),)}
    await world.open("a.py")
    await world.open("b.py")
    world.worker.requests.clear()
    world.session.files_changed([world.path("b.py")])
    await world.settle()
    assert world.traced() == []
    world.session.close_document(world.uri("b.py"))
    world.session.files_changed([world.path("b.py")])
    await world.settle()
    assert set(world.traced()) == {"a.py"}


async def test_an_untrusted_workspace_asks_for_no_worker(tmp_path):
    world = World(tmp_path, trusted=False)
    await world.open("net.py")
    world.type("net.py", 2, "x = 1\n")
    await world.settle()
    assert world.pool.asked == set()
    assert set(world.editor.statuses) == {"restricted"}
    world.session.trust()
    await world.settle()
    assert world.traced() == ["net.py"]
    await world.session.close()


async def test_without_running_trust_changes_nothing(tmp_path):
    world = World(tmp_path, run=False)
    world.session.trust()
    await world.open("net.py")
    assert world.pool.asked == set()
    await world.session.close()


async def test_settings_of_a_folder_are_those_of_its_documents(world, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    world.session.change_folders([str(other)], [])
    world.session.configure({"trace": {"timeout": 20}})
    world.session.configure({"trace": {"memory": 100}}, str(other))
    await world.open("net.py")
    world.session.open((other / "net.py").as_uri(), 1, NET)
    await world.settle()
    limits = [(each.limits.seconds, each.limits.memory >> 20) for each in world.worker.requests]
    assert limits == [(20.0, 4096), (20.0, 100)]


async def test_a_new_interpreter_traces_again_and_the_old_one_is_ended(world):
    await world.open("net.py")
    world.session.configure({"interpreter": ["python3"]})
    await world.settle()
    assert len(world.traced()) == 2
    (kept,) = world.pool.kept
    assert kept.found == "configured"


async def test_the_same_settings_again_do_nothing(world):
    await world.open("net.py")
    world.session.configure({"trusted": True})
    await world.settle()
    assert len(world.traced()) == 1


async def test_bad_settings_are_said_once(world):
    for _ in range(2):
        world.session.configure({"strict": 3})
    assert world.editor.warnings == ["`fxls.strict` must be true or false, not 3; false is used"]


async def test_an_environment_that_cannot_trace_is_looked_at_again_on_request(world):
    world.worker.report = replace(world.worker.report, problem="no torch")
    await world.open("net.py")
    assert world.editor.statuses[-1] == "error"
    assert world.traced() == []
    world.worker.report = replace(world.worker.report, problem="")
    await world.session.retrace(world.uri("net.py"))
    assert len(world.pool.discarded) == 1
    assert world.traced() == ["net.py"]


async def test_another_interpreter_is_asked_what_it_is_before_it_traces(world):
    await world.open("net.py")
    world.worker.report = replace(world.worker.report, problem="no torch")
    world.session.configure({"interpreter": ["/another/python"]})
    await world.settle()
    assert world.editor.statuses[-1] == "error"
    assert world.traced() == ["net.py"]


async def test_a_project_configures_its_targets_and_a_change_of_it_is_followed(world):
    project = world.folder / "pyproject.toml"
    project.write_text('[[tool.fxls.target]]\npath = "net.py"\nconstruct = "Net()"\n')
    await world.open("net.py")
    assert world.worker.requests[-1].targets[0].constructs[0].source == "configuration"
    project.write_text('[[tool.fxls.target]]\npath = "net.py"\nconstruct = "Net(1)"\n')
    world.session.files_changed([str(project)])
    await world.settle()
    assert world.worker.requests[-1].targets[0].constructs[0].expression == "Net(1)"


@pytest.mark.parametrize(("device", "sandboxed"), [("cpu", True), ("cuda:0", False)])
async def test_a_profile_on_the_processor_is_made_in_the_sandbox(world, device, sandboxed):
    await world.open("net.py")
    target = world.session.snapshot(world.uri("net.py")).index.target("Net")
    await world.session.profile(world.uri("net.py"), target, device, print)
    assert [each.sandbox for each in world.worker.profiles] == [sandboxed]


@pytest.mark.parametrize("own", [True, False])
async def test_a_profile_that_fails_in_the_sandbox_is_made_outside_if_the_person_writes_the_file(world, own):
    await world.open("net.py")
    world.worker.denies = True
    if own:
        world.type("net.py", 2, "x = 1\n")
        await world.settle()
    snapshot = world.session.snapshot(world.uri("net.py"))
    report = await world.session.profile(world.uri("net.py"), snapshot.index.target("Net"), "cpu", print)
    assert (report.status, len(world.worker.profiles)) == (("complete", 2) if own else ("failed", 1))
    assert world.session.snapshot(world.uri("net.py")).sandboxed is not own


async def test_a_profile_is_compared_with_the_last_and_moves_with_the_text(world):
    await world.open("net.py")
    target = world.session.snapshot(world.uri("net.py")).index.targets[0]
    for _ in range(2):
        report = await world.session.profile(world.uri("net.py"), target, "cpu", print)
    assert report.markdown == "measured"
    world.type("net.py", 2, "# a comment\n")
    (profile,) = world.session.snapshot(world.uri("net.py")).profiles
    assert profile.rows[0].location.span == Span(7, 15, 7, 20)
    world.type("net.py", 3, "# in", line=6)
    (profile,) = world.session.snapshot(world.uri("net.py")).profiles
    assert profile.rows[0].location is None or profile.rows[0].location.span != Span(7, 15, 7, 20)


async def test_the_model_that_encloses_a_class_stands_for_it(world):
    text = NET + NET.replace("Net", "Outer").replace("import torch\n", "")
    world.worker.enclosed = {"Net": "Outer"}
    await world.open("net.py", text)
    uri = world.uri("net.py")
    assert (await show_code(world.session, CommandArguments(uri, target="Net"))).text == "# Outer\n"
    assert (await show_code(world.session, CommandArguments(uri, line=4))).text == "# Outer\n"
    assert (await show_code(world.session, CommandArguments(uri))).text == "# Outer\n"
    with pytest.raises(CommandError, match="no model Other"):
        await show_code(world.session, CommandArguments(uri, target="Other"))


async def test_a_command_waits_until_the_text_was_traced(world):
    text = NET + NET.replace("Net", "Outer").replace("import torch\n", "")
    world.worker.enclosed = {"Net": "Outer"}
    world.worker.early = True
    world.worker.open.clear()
    uri = world.uri("net.py")
    world.session.open(uri, 1, text)
    shown = asyncio.ensure_future(show_code(world.session, CommandArguments(uri, line=4)))
    await asyncio.sleep(0.05)
    assert not shown.done()
    world.worker.open.set()
    assert (await shown).text == "# Outer\n"


async def test_closing_the_active_document_leaves_the_status_to_the_other(world):
    await world.open("a.py")
    await world.open("b.py", "def (\n")
    assert world.editor.statuses[-1] == "problems"
    world.session.close_document(world.uri("b.py"))
    assert world.editor.statuses[-1] == "ok"


async def test_a_document_without_a_file_imports_from_the_first_folder(world):
    world.session.open("untitled:Untitled-1", 1, NET)
    await world.settle()
    assert world.worker.requests[-1].path == to_path("untitled:Untitled-1")
    assert world.worker.requests[-1].roots == (str(world.folder),)


async def test_a_status_is_sent_once(world):
    await world.open("net.py", "def (\n")
    world.replace("net.py", 2, "def (\n# still\n")
    await world.settle()
    assert world.editor.statuses.count("problems") == 1


async def test_settings_of_what_is_shown_need_no_trace(world):
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(6, 15, 6, 20))),)
    await world.open("net.py")
    world.session.configure({"ignore": ["FX0"]})
    await world.settle()
    world.session.configure({"severity": {"FX001": "hint"}})
    await world.settle()
    assert len(world.traced()) == 1
    assert world.editor.published == [("net.py", 1, ["FX001"]), ("net.py", 1, []), ("net.py", 1, ["FX001"])]


async def test_a_mistake_in_the_configuration_is_shown_in_it_until_it_is_mended(world):
    project = world.folder / "pyproject.toml"
    project.write_text('[tool.fxls]\nignore = ["FX001", "FX999"]\n')
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(6, 15, 6, 20))),)
    await world.open("net.py")
    world.type("net.py", 2, "x = 1\n")
    await world.settle()
    assert world.editor.published == [("pyproject.toml", None, ["FX107"]), ("net.py", 1, []), ("net.py", 2, [])]
    project.write_text("[tool.fxls]\nignore = []\n")
    world.session.files_changed([str(project)])
    await world.settle()
    assert world.editor.published[3:] == [("pyproject.toml", None, []), ("net.py", 2, ["FX001"])]
    assert world.editor.warnings == []


async def test_mistakes_in_a_configuration_that_governs_nothing_open_are_taken_away(world):
    (world.folder / "pyproject.toml").write_text("[tool.fxls]\nignroe = []\n")
    await world.open("net.py")
    world.session.close_document(world.uri("net.py"))
    assert [each for each in world.editor.published if each[0] == "pyproject.toml"] == [
        ("pyproject.toml", None, ["FX107"]),
        ("pyproject.toml", None, []),
    ]


async def test_a_configuration_that_is_written_later_is_read(world):
    await world.open("net.py", "x = 1\n")
    project = world.folder / "pyproject.toml"
    project.write_text("[tool.fxls]\nstrict = 1\n")
    world.session.files_changed([str(project)])
    await world.settle()
    assert ("pyproject.toml", None, ["FX107"]) in world.editor.published


LONG = NET + "# " + "x" * 60_000 + "\n"


async def test_a_long_text_is_traced_while_its_models_are_looked_for(world, monkeypatch):
    await world.open("net.py", LONG)
    searching, found = asyncio.Event(), asyncio.Event()
    discover = world.session._discovered

    async def slow(document):
        searching.set()
        await found.wait()
        return await discover(document)

    monkeypatch.setattr(world.session, "_discovered", slow)
    world.type("net.py", 2, "y = 2\n")
    await searching.wait()
    assert [request.text[:6] for request in world.worker.requests] == ["import", "y = 2\n"]
    found.set()
    await world.settle()
    assert len(world.traced()) == 2  # The answer of the one that was begun ahead is the answer.
    assert world.editor.published[-1] == ("net.py", 2, [])
    assert world.session.snapshot(world.uri("net.py")).fresh


async def test_a_text_that_says_values_of_its_own_is_traced_once_for_an_edit_above_them(world):
    await world.open("net.py", NET + "\nargs = dict(width=3)\n")
    world.worker.requests.clear()
    world.type("net.py", 2, "y = 2\n")
    await world.settle()
    (asked,) = world.worker.requests
    assert [(each.expression, each.location.span.line) for each in asked.settings] == [("3", asked.text.count("\n"))]
    world.type("net.py", 3, "width = 2\n")
    await world.settle()
    assert len(world.worker.requests) == 2


async def test_a_trace_that_was_begun_ahead_of_another_model_is_ended_and_the_right_one_made(world):
    await world.open("net.py", LONG)
    world.worker.open.clear()
    world.type("net.py", 2, NET.replace("Net", "Other").replace("import torch\n", ""), line=1)
    while len(world.traced()) < 3:
        await asyncio.sleep(0.001)
    guessed, asked = world.worker.requests[1:]
    assert [each.qualname for each in guessed.targets] == ["Net"]
    assert [each.qualname for each in asked.targets] == ["Other", "Net"]
    world.worker.open.set()
    await world.settle()
    assert world.worker.cancelled == [guessed]
    assert [each.qualname for each in world.session.snapshot(world.uri("net.py")).report.targets] == ["Other", "Net"]


async def test_a_text_that_is_broken_or_was_traced_is_not_traced_ahead(world):
    await world.open("net.py")
    world.worker.requests.clear()
    world.type("net.py", 2, "def (\n")
    await world.settle()
    world.type("net.py", 3, "def (\n")
    await world.settle()
    world.replace("net.py", 4, NET)
    await world.settle()
    assert world.traced() == []


async def test_problems_are_shown_before_the_rest_of_a_report_and_once(world):
    await world.open("net.py")
    world.worker.early = True
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(7, 15, 7, 20))),)
    world.worker.open.clear()
    world.type("net.py", 2, "x = 1\n")
    async with asyncio.timeout(5):
        while len(world.editor.published) < 2:
            await asyncio.sleep(0.001)
    snapshot = world.session.snapshot(world.uri("net.py"))
    assert not snapshot.fresh  # What hover and hints tell is still that of the text before.
    assert snapshot.report.targets[0].nodes
    world.worker.open.set()
    await world.settle()
    assert world.session.snapshot(world.uri("net.py")).fresh
    assert world.editor.published == [("net.py", 1, []), ("net.py", 2, ["FX001"])]


async def test_problems_of_a_new_document_are_shown_when_the_rest_of_its_report_takes_long(world):
    world.worker.early = True
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(7, 15, 7, 20))),)
    world.worker.open.clear()
    world.session.open(world.uri("net.py"), 1, NET)
    await asyncio.sleep(0.1)
    assert world.editor.published == []
    async with asyncio.timeout(5):
        while not world.editor.published:
            await asyncio.sleep(0.01)
    assert world.editor.published == [("net.py", 1, ["FX001"])]
    world.worker.problems = ()
    world.worker.open.set()
    await world.settle()
    assert world.editor.published == [("net.py", 1, ["FX001"]), ("net.py", 1, [])]


async def test_problems_of_shapes_stay_until_the_report_says_that_they_are_gone(world):
    world.worker.shapes = (Problem("FX201", "error", "does not fit", Location("", Span(6, 15, 6, 20)), target="Net"),)
    await world.open("net.py")
    world.worker.early, world.worker.shapes = True, ()
    world.worker.open.clear()
    world.type("net.py", 2, "x = 1\n")
    async with asyncio.timeout(5):
        while len(world.editor.published) < 2:
            await asyncio.sleep(0.001)
    world.worker.open.set()
    await world.settle()
    assert world.editor.published == [("net.py", 1, ["FX201"]), ("net.py", 2, ["FX201"]), ("net.py", 2, [])]


async def test_an_early_report_of_an_older_text_is_not_shown(world):
    await world.open("net.py")
    tellers = []
    trace = world.worker.trace

    async def telling(request, on_early=None):
        report = await trace(request)
        tellers.append(lambda: on_early(report))
        return report

    world.worker.trace = telling
    world.worker.problems = (Problem("FX001", "error", "no", Location("", Span(6, 15, 6, 20))),)
    for version in (2, 3):
        world.type("net.py", version, f"x = {version}\n")
        await world.settle()
    shown = list(world.editor.published)
    tellers[0]()
    assert world.editor.published == shown


async def test_an_edit_ends_a_trace_that_was_begun_ahead(world):
    await world.open("net.py", LONG)
    world.worker.open.clear()
    world.type("net.py", 2, "x = 1\n")
    while len(world.traced()) < 2:
        await asyncio.sleep(0.001)
    world.type("net.py", 3, "x = 2\n")
    await asyncio.sleep(0.01)
    world.worker.open.set()
    await world.settle()
    assert [request.text[:6] for request in world.worker.cancelled] == ["x = 1\n"]
    assert world.editor.published[-1] == ("net.py", 3, [])


@pytest.mark.parametrize("turns", range(8))
async def test_an_edit_ends_a_trace_whose_problems_were_shown_just_now(world, turns):
    await world.open("net.py", LONG)
    world.worker.early = True
    world.worker.open.clear()
    world.type("net.py", 2, "x = 1\n")
    while len(world.editor.published) < 2:
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    world.type("net.py", 3, "x = 2\n")
    await asyncio.sleep(0.01)
    assert [request.text[:6] for request in world.worker.requests[1:]] == ["x = 1\n", "x = 2\n"]
    assert [request.text[:6] for request in world.worker.cancelled] == ["x = 1\n"]
    world.worker.open.set()
    await world.settle()
    assert world.editor.published[-1] == ("net.py", 3, [])


BRANCHED = NET.replace("return x + 1", "return x if x.sum() > 0 else -x")
BRANCH = Problem("FX001", "error", "no", Location("", Span(6, 20, 6, 31)), target="Net")


class Mending(Worker):
    """A worker that finds a branch as long as one is there."""

    async def trace(self, request, on_early=None):
        report = await super().trace(request, on_early)
        if " if " not in request.text:
            return report
        problem = replace(BRANCH, location=Location(request.path, BRANCH.location.span))
        (target,) = report.targets
        return replace(report, targets=(replace(target, status="partial", problems=(problem,)),))


@pytest.fixture
async def mending(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_PAUSE", 0.02)
    world = World(tmp_path)
    world.worker = world.pool.worker = Mending()
    yield world
    await world.session.close()


def fixes(world):
    (target,) = world.session.snapshot(world.uri("net.py")).report.targets
    return [fix.title for problem in target.problems for fix in problem.fixes]


async def test_fixes_are_tried_out_when_the_person_pauses(mending):
    await mending.open("net.py", BRANCHED)
    assert (len(mending.traced()), fixes(mending)) == (1, [])
    async with asyncio.timeout(5):
        while not fixes(mending):
            await asyncio.sleep(0.01)
    assert fixes(mending) == ["Write `torch.where(…)`, which computes both and picks"]
    assert "torch.where(x.sum() > 0, x, -x)" in mending.worker.requests[1].text
    assert len(mending.editor.published) == 1


class Offering(Mending):
    """A worker that offers something itself for another problem."""

    async def trace(self, request, on_early=None):
        report = await super().trace(request, on_early)
        (target,) = report.targets
        place = Location(request.path, Span(6, 4, 6, 7))
        unfed = Problem(
            "FX202", "information", "no", place, target="Net", fixes=(Fix("Say how", (Edit(place, "#"),), False),)
        )
        return replace(report, targets=(replace(target, problems=(*target.problems, unfed)),))


async def test_what_the_worker_offers_itself_keeps_no_fixes_from_being_tried_out(mending):
    mending.worker = mending.pool.worker = Offering()
    await mending.open("net.py", BRANCHED)
    assert fixes(mending) == ["Say how"]
    async with asyncio.timeout(5):
        while len(fixes(mending)) < 2:
            await asyncio.sleep(0.01)
    assert fixes(mending) == ["Write `torch.where(…)`, which computes both and picks", "Say how"]


async def test_an_edit_of_code_ends_the_trials_and_one_of_comments_does_not(mending):
    await mending.open("net.py", BRANCHED)
    mending.worker.open.clear()
    async with asyncio.timeout(5):
        while len(mending.traced()) < 2:
            await asyncio.sleep(0.01)
        mending.type("net.py", 2, "# a comment\n")
        await asyncio.sleep(0.02)
        assert mending.worker.cancelled == []
        mending.type("net.py", 3, "x = 1\n")
        await asyncio.sleep(0.02)
    assert mending.worker.cancelled == mending.worker.requests[1:2]


async def test_after_a_restart_nothing_is_traced_that_is_as_it_was(tmp_path):
    before = World(tmp_path)
    before.worker.problems = (Problem("FX008", "error", "bad", Location("", Span(6, 15, 6, 20))),)
    await before.open("net.py")
    await before.session.close()
    after = World(tmp_path)
    await after.open("net.py")
    assert after.editor.published == before.editor.published
    assert after.traced() == []
    snapshot = after.session.snapshot(after.uri("net.py"))
    assert snapshot.current
    assert snapshot.environment == after.worker.report
    after.type("net.py", 2, "WIDTH = 1\n")
    await after.settle()
    assert after.traced() == ["net.py"]
    await after.session.close()


@pytest.mark.parametrize("is_called", [True, False], ids=["as it was", "no longer called"])
async def test_after_a_restart_what_was_known_is_shown_until_the_folder_was_looked_at(tmp_path, monkeypatch, is_called):
    is_let, look = threading.Event(), Calls.look

    def slowly(calls):
        is_let.wait(5)
        look(calls)

    text = NET.replace("    def", "    def __init__(self, width):\n        super().__init__()\n\n    def")
    (tmp_path / "test_net.py").write_text("from net import Net\nnet = Net(3)\n")
    before = World(tmp_path)
    await before.open("net.py", text)
    await asyncio.sleep(0.2)
    await before.settle()
    await before.session.close()
    if not is_called:
        (tmp_path / "test_net.py").unlink()
    monkeypatch.setattr(Calls, "look", slowly)
    after = World(tmp_path)
    await after.open("net.py", text)
    assert after.editor.published == [("net.py", 1, [])]
    assert after.traced() == []
    is_let.set()
    await asyncio.sleep(0.2)
    await after.settle()
    (request,) = after.worker.requests
    assert [each.expression for each in request.targets[0].constructs] == ["Net(3)"] * is_called
    await after.session.close()


async def test_after_a_restart_with_another_torch_everything_is_traced_again(tmp_path):
    before = World(tmp_path)
    await before.open("net.py")
    await before.session.close()
    after = World(tmp_path)
    after.worker.report = replace(after.worker.report, torch="9.9")
    await after.open("net.py")
    assert after.traced() == ["net.py"]
    await after.session.close()
