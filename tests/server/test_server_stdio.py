"""The real server over real pipes, with a worker that does what the text tells it: the life of documents."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.client import FAKE, Client, ReplyError

NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "fake.log"

    def read(event):
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    read.path = path
    return read


@pytest.fixture
async def client(tmp_path, log):
    client = await Client.start(env={"FXLS_FAKE_LOG": str(log.path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    yield client
    await client.stop()


@pytest.fixture
def uri(tmp_path):
    path = tmp_path / "ws" / "net.py"
    path.parent.mkdir()
    path.write_text(NET)
    return path.as_uri()


def codes(diagnostics):
    return [each["code"] for each in diagnostics]


async def wait_for(condition, timeout=10):
    async with asyncio.timeout(timeout):
        while not (result := condition()):
            await asyncio.sleep(0.01)
    return result


def gone(pid):
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().split()[2] == "Z"


async def test_what_the_server_can_do(client):
    result = await client.initialize()
    capabilities = result["capabilities"]
    assert capabilities["positionEncoding"] == "utf-16"
    assert capabilities["textDocumentSync"]["change"] == 2
    assert capabilities["hoverProvider"]
    assert set(capabilities["executeCommandProvider"]["commands"]) == {
        "fxls.profile",
        "fxls.showGraph",
        "fxls.showCode",
        "fxls.retrace",
    }
    assert result["serverInfo"]["name"] == "fxls"


async def test_open_and_edit_give_diagnostics_with_the_version(client, uri):
    await client.initialize()
    client.open(uri, NET, version=7)
    assert await client.diagnostics(uri, 7) == []
    client.change(uri, 8, NET + "y = 1  # fake: problem\n")
    (found,) = await client.diagnostics(uri, 8)
    assert found["code"] == "FX001"
    assert found["range"] == {"start": {"line": 10, "character": 4}, "end": {"line": 10, "character": 8}}


async def test_incremental_edits_are_applied_to_what_is_traced(client, uri, log):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    client.insert(uri, 2, 9, 8, 'text = "é\U0001f600"; ')
    client.insert(uri, 3, 9, 8 + len('text = "é') + 2, "ö")
    await client.diagnostics(uri, 3)
    assert log("trace")[-1]["text"] == NET.replace("return", 'text = "é\U0001f600ö"; return')


async def test_the_unsaved_text_is_traced_not_the_file(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "# not on disk\n")
    await client.diagnostics(uri, 1)
    assert "not on disk" in log("trace")[-1]["text"]


async def test_a_comment_is_not_traced_and_carries_what_is_known(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "y = 1  # fake: problem\n")
    await client.diagnostics(uri, 1)
    client.insert(uri, 2, 0, 0, "# a comment\n\n")
    (found,) = await client.diagnostics(uri, 2)
    assert found["range"]["start"] == {"line": 12, "character": 4}
    assert len(log("trace")) == 1


async def test_an_edit_that_changes_nothing_has_the_diagnostics_of_its_version(client, uri, log):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    client.change(uri, 2, NET)
    await client.diagnostics(uri, 2, 10)
    assert len(log("trace")) == 1


async def test_an_edit_taken_back_is_not_traced_again(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "y = 1  # fake: problem\n")
    await client.diagnostics(uri, 1)
    client.insert(uri, 2, 0, 0, "w = 0  # fake: sleep 30\n")
    client.change(uri, 3, NET + "y = 1  # fake: problem\n")
    assert codes(await client.diagnostics(uri, 3)) == ["FX001"]
    client.change(uri, 4, NET + "y = 2  # fake: problem\n")
    await client.diagnostics(uri, 4)
    assert [entry["text"] for entry in log("trace")].count(NET + "y = 1  # fake: problem\n") == 1


async def test_only_the_newest_text_is_traced_to_its_end(client, uri, log):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    for version in range(2, 40):
        client.change(uri, version, NET + f"x = {version}  # fake: sleep 30\n")
    client.change(uri, 40, NET + "x = 40\n")
    assert await client.diagnostics(uri, 40) == []
    assert {each.get("version") for each in client.published(uri)} == {1, 40}
    traced, cancelled = {entry["id"] for entry in log("trace")}, {entry["id"] for entry in log("cancel")}
    assert len(traced - cancelled) == 2


async def test_a_syntax_error_is_shown_at_once_and_nothing_is_traced(client, uri, log):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    client.change(uri, 2, NET + "def broken(:\n")
    (found,) = await client.diagnostics(uri, 2)
    assert found["range"]["start"]["line"] == 10
    assert len(log("trace")) == 1
    client.change(uri, 3, NET)
    assert await client.diagnostics(uri, 3) == []


async def test_a_file_without_models_is_not_traced(client, uri, log):
    await client.initialize()
    client.open(uri, "x = 1\n")
    assert await client.diagnostics(uri, 1) == []
    assert log("start") == []


async def test_a_worker_that_dies_is_a_diagnostic_and_the_next_edit_is_answered(client, uri):
    await client.initialize()
    client.open(uri, NET + "# fake: die\n")
    (found,) = await client.diagnostics(uri, 1)
    assert found["code"] == "FX105"
    client.change(uri, 2, NET)
    assert await client.diagnostics(uri, 2) == []


async def test_a_worker_that_is_killed_while_it_traces_harms_nothing(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "x = 1  # fake: sleep 60\n")
    await wait_for(lambda: log("trace"))
    os.kill(log("start")[0]["pid"], 9)
    assert codes(await client.diagnostics(uri, 1)) == ["FX105"]
    client.change(uri, 2, NET)
    assert await client.diagnostics(uri, 2) == []


async def test_a_dependency_that_changes_on_disk_is_traced_again(client, uri, tmp_path):
    other = tmp_path / "ws" / "layers.py"
    other.write_text("x = 1\n")
    await client.initialize()
    client.open(uri, NET + f"# fake: imports {other}\n")
    assert await client.diagnostics(uri, 1) == []
    other.write_text("x = 2  # fake: problem\n")
    await client.until(lambda: len(client.published(uri, 1)) == 2)
    assert codes(await client.diagnostics(uri, 1)) == ["FX001"]


async def test_a_checkout_of_a_thousand_files_is_one_change(client, log, tmp_path):
    folder = tmp_path / "ws"
    modules = [folder / f"package{number % 10}" / f"module{number}.py" for number in range(1000)]

    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main", *arguments],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip

    def commit(text):
        for module in modules:
            module.parent.mkdir(exist_ok=True, parents=True)
            module.write_text(text)
        git("add", ".")
        git("commit", "-qm", text)

    def count(uri):
        return len(client.published(uri)[-1]["diagnostics"])

    folder.mkdir(exist_ok=True)
    git("init", "-q")
    commit("x = 1\n")
    git("checkout", "-qb", "other")
    commit("x = 2  # fake: problem\n")
    git("checkout", "-q", "main")
    await client.initialize()
    uris = [(folder / f"net{number}.py").as_uri() for number in range(4)]
    for number, uri in enumerate(uris):
        imports = [f"# fake: imports {module}\n" for module in modules[number::4]]
        client.open(uri, NET + "".join(imports))
        assert await client.diagnostics(uri, 1) == []
    for branch, expected in (("other", 250), ("main", 0)):
        before = len(log("trace"))
        git("checkout", "-q", branch)
        await client.until(lambda: {count(uri) for uri in uris} == {expected})  # noqa: B023 — It is asked in this turn.
        await asyncio.sleep(1.5)
        assert {count(uri) for uri in uris} == {expected}
        assert len(log("trace")) - before <= 3 * len(uris), "no storm of traces"


async def test_an_unsaved_dependency_is_laid_over_and_traced_again(client, uri, log, tmp_path):
    other = tmp_path / "ws" / "layers.py"
    other.write_text("x = 1\n")
    await client.initialize()
    client.open(uri, NET + f"# fake: imports {other}\n")
    await client.diagnostics(uri, 1)
    client.open(other.as_uri(), "x = 1\n")
    await client.diagnostics(other.as_uri(), 1)
    assert log("trace")[-1]["overlays"] == []
    client.change(other.as_uri(), 2, "x = 2\n")
    await wait_for(lambda: len(log("trace")) == 2)
    assert log("trace")[-1]["overlays"] == [[str(other), "x = 2\n"]]
    client.notify("textDocument/didClose", {"textDocument": {"uri": other.as_uri()}})
    await wait_for(lambda: len(log("trace")) == 3)
    assert log("trace")[-1]["overlays"] == []


async def test_features_answer_while_a_trace_runs(client, uri, log):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    client.change(uri, 2, NET + "x = 1  # fake: sleep 60\n")
    await wait_for(lambda: len(log("trace")) == 2)
    document = {"textDocument": {"uri": uri}}
    hover = await client.request("textDocument/hover", {**document, "position": {"line": 3, "character": 7}}, 2)
    assert "Net" in json.dumps(hover)
    lenses = await client.request("textDocument/codeLens", document, 2)
    assert lenses[0]["range"]["start"]["line"] == 3
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 10, "character": 0}}
    assert isinstance(await client.request("textDocument/inlayHint", {**document, "range": whole}, 2), list)
    actions = {**document, "range": whole, "context": {"diagnostics": []}}
    assert isinstance(await client.request("textDocument/codeAction", actions, 2), list)


async def test_features_of_a_document_that_is_not_open_have_nothing_to_say(client, uri):
    await client.initialize()
    document = {"textDocument": {"uri": uri}}
    assert await client.request("textDocument/hover", {**document, "position": {"line": 0, "character": 0}}) is None
    assert await client.request("textDocument/codeLens", document) == []
    client.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": []})
    client.notify("textDocument/didClose", document)
    assert await client.request("fxls/report", {"uri": uri}) is None


async def test_code_and_graph_are_shown(client, uri):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    code = await client.command("fxls.showCode", uri=uri, target="Net")
    assert code["language"] == "python"
    assert "def forward" in code["text"]
    graph = await client.command("fxls.showGraph", uri=uri)
    assert graph["svg"].startswith("<svg")
    assert "digraph" in graph["dot"]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("fxls.showCode", [], "CommandArguments: an object is expected"),
        ("fxls.showCode", [{"uri": 4}], "CommandArguments: `uri` must be str"),
        ("fxls.showCode", [{"uri": "file:///no/such.py"}], "the file is not open"),
        ("fxls.nothing", [{}], "there is no command fxls.nothing"),
    ],
)
async def test_a_command_that_cannot_be_done_says_why(client, command, arguments, message):
    await client.initialize()
    with pytest.raises(ReplyError, match=message):
        await client.request("workspace/executeCommand", {"command": command, "arguments": arguments})


async def test_a_model_that_does_not_exist_is_said(client, uri):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    with pytest.raises(ReplyError, match="no model Other in this file"):
        await client.command("fxls.showCode", uri=uri, target="Other")


async def test_a_profile_reports_progress_and_leaves_its_files_in_the_cache(client, uri, tmp_path):
    await client.initialize(capabilities={"window": {"workDoneProgress": True}})
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    result = await client.command("fxls.profile", uri=uri, target="Net", device="cpu")
    assert result["markdown"] == "# a profile"
    assert result["title"] == "Net on cpu"
    for key in ("json", "trace"):
        assert Path(result[key]).is_relative_to(tmp_path / "cache")
        assert Path(result[key]).is_file()
    shown = [each["value"]["kind"] for each in client.notifications["$/progress"]]
    assert shown[0] == "begin"
    assert shown[-1] == "end"
    assert [each["method"] for each in client.asked].count("window/workDoneProgress/create") == 1


async def test_a_profile_on_a_device_that_is_not_there_says_which_are(client, uri):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    with pytest.raises(ReplyError, match="there is no device cuda:1; torch sees cpu"):
        await client.command("fxls.profile", uri=uri, target="Net", device="cuda:1")


async def test_a_profile_reports_to_the_token_of_the_request(client, uri):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    await client.request("workspace/executeCommand",
                         {"command": "fxls.profile", "arguments": [{"uri": uri}], "workDoneToken": "mine"})  # fmt: skip
    assert {each["token"] for each in client.notifications["$/progress"]} == {"mine"}


@pytest.mark.parametrize("how", ["progress", "request"])
async def test_a_profile_can_be_cancelled(client, uri, log, how):
    await client.initialize(capabilities={"window": {"workDoneProgress": True}})
    text = NET + "x = 1  # fake: sluggish\n"
    client.open(uri, text)
    await client.diagnostics(uri, 1)
    number = client.ask("workspace/executeCommand", {"command": "fxls.profile", "arguments": [{"uri": uri}]})
    await client.until(lambda: len(client.notifications["$/progress"]) > 1)
    if how == "progress":
        token = client.notifications["$/progress"][0]["token"]
        client.notify("window/workDoneProgress/cancel", {"token": token})
    else:
        client.notify("$/cancelRequest", {"id": number})
    with pytest.raises(ReplyError) as caught:
        await client.reply(number, 5)
    assert caught.value.code == -32800
    await wait_for(lambda: gone(log("start")[-1]["pid"]))


async def test_retrace_traces_again_and_returns_when_it_is_shown(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "# fake: sleep 0.5\n")
    await client.diagnostics(uri, 1)
    assert await client.command("fxls.retrace", uri=uri) is None
    assert len(log("trace")) == 2
    assert (await client.request("fxls/report", {"uri": uri}))["fresh"]
    assert len(client.published(uri, 1)) == 1  # What is shown already is not shown again.


async def test_the_report_says_how_models_were_built(client, uri):
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    report = await client.request("fxls/report", {"uri": uri})
    assert (report["fresh"], report["version"], report["status"]) == (True, 1, "complete")
    assert [(each["qualname"], each["nodes"]) for each in report["targets"]] == [("Net", 1)]
    environment = await client.request("fxls/environment", {"uri": uri})
    assert environment["command"] == FAKE
    assert environment["torch"] == "2.13.0"


async def test_code_lenses_are_asked_for_again_after_a_trace(client, uri):
    refresh = {"workspace": {"codeLens": {"refreshSupport": True}, "inlayHint": {"refreshSupport": True}}}
    await client.initialize(capabilities=refresh)
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    methods = {"workspace/codeLens/refresh", "workspace/inlayHint/refresh"}
    await client.until(lambda: methods <= {each["method"] for each in client.asked})


async def test_closing_takes_the_diagnostics_away(client, uri):
    await client.initialize()
    client.open(uri, NET + "x = 1  # fake: problem\n")
    assert await client.diagnostics(uri, 1)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    await client.until(lambda: client.published(uri)[-1]["diagnostics"] == [])


async def test_the_status_is_about_the_document_that_the_person_looks_at(client, uri):
    other = uri.replace("net.py", "other.py")
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    client.open(other, NET + "y = 1  # fake: problem\n")
    await client.diagnostics(other, 1)
    status = client.notifications["fxls/status"]
    await client.until(lambda: status[-1]["text"] == "fx ✗ 1")
    client.notify("fxls/active", {"uri": uri})
    await client.until(lambda: status[-1]["text"] == "fx ✓")
    client.notify("fxls/active", {"uri": "file:///never/opened.py"})
    client.notify("fxls/active", {"uri": other})
    await client.until(lambda: status[-1]["text"] == "fx ✗ 1")


# Settings, trust, environments.


async def test_nothing_runs_in_a_workspace_that_is_not_trusted_until_it_is(client, uri, log):
    await client.initialize({"trusted": False})
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    await client.until(lambda: client.notifications["fxls/status"])
    assert {each["state"] for each in client.notifications["fxls/status"]} == {"restricted"}
    for command in ("fxls.showCode", "fxls.showGraph", "fxls.profile"):
        with pytest.raises(ReplyError, match="not trusted"):
            await client.command(command, uri=uri)
    await client.command("fxls.retrace", uri=uri)
    client.change(uri, 2, NET + "x = 1\n")
    await client.diagnostics(uri, 2)
    assert log("start") == []
    client.notify("fxls/trusted")
    await wait_for(lambda: log("trace"))


async def test_no_run_is_stronger_than_trust(tmp_path, uri, log):
    client = await Client.start("--no-run", env={"FXLS_FAKE_LOG": str(log.path)})
    await client.initialize({"trusted": True})
    client.notify("fxls/trusted", {})
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    assert log("start") == []
    assert await client.finish() == 0


async def test_an_interpreter_without_torch_is_said_in_the_status(client, uri, log):
    await client.initialize({"interpreter": [*FAKE, "--no-torch"]})
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    await client.until(lambda: client.notifications["fxls/status"][-1]["state"] == "error")
    assert "no torch" in client.notifications["fxls/status"][-1]["tooltip"]
    client.change(uri, 2, NET + "x = 1\n")
    await client.diagnostics(uri, 2)
    assert len(log("start")) == 1


async def test_a_missing_interpreter_is_said_and_a_new_setting_mends_it(client, uri):
    await client.initialize({"interpreter": ["/no/such/python"]})
    client.open(uri, NET + "x = 1  # fake: problem\n")
    await client.until(lambda: client.notifications["fxls/status"][-1:] and
                       client.notifications["fxls/status"][-1]["state"] == "error")  # fmt: skip
    client.notify("workspace/didChangeConfiguration", {"settings": {"fxls": {"interpreter": FAKE}}})
    await client.until(lambda: [each for each in client.published(uri) if each["diagnostics"]])


async def test_a_bad_setting_is_said(client):
    await client.initialize({"trace": {"timeout": "long"}})
    await client.until(lambda: client.notifications["window/showMessage"])
    (shown,) = client.notifications["window/showMessage"]
    assert shown["message"] == 'fxls: `fxls.trace.timeout` must be a number, not "long"; 10 is used'


async def test_settings_are_pulled_where_the_client_can_be_asked(client, uri, log, tmp_path):
    client.settings = {"interpreter": FAKE, "extraRoots": ["vendored"]}
    capabilities = {
        "workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}},
    }
    await client.initialize({"interpreter": ["/no/such/python"]}, tmp_path / "ws", capabilities)
    client.open(uri, NET)
    await wait_for(lambda: log("trace"))
    assert str(tmp_path / "ws" / "vendored") in log("trace")[-1]["roots"]
    assert {"client/registerCapability", "workspace/configuration"} <= {each["method"] for each in client.asked}


# The end, and what comes before the beginning.


async def test_shutdown_and_exit_leave_no_process(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "x = 1  # fake: sleep 60\n")
    await wait_for(lambda: log("trace"))
    assert await client.finish() == 0
    assert all(gone(entry["pid"]) for entry in log("start"))


@pytest.mark.parametrize("leave", ["exit", "close"])
async def test_what_was_asked_is_answered_before_an_exit_that_follows_at_once(client, uri, log, leave):
    await client.initialize()
    client.open(uri, NET + "x = 1  # fake: sleep 60\n")
    await wait_for(lambda: log("trace"))
    asked = [
        client.ask("fxls/report", {"uri": uri}),
        client.ask("workspace/executeCommand", {"command": "fxls.retrace", "arguments": [{"uri": uri}]}),
        client.ask("shutdown"),
    ]
    if leave == "exit":
        client.notify("exit")
    else:
        client.process.stdin.close()
    assert await asyncio.wait_for(client.process.wait(), 10) == 0
    report, _, shut = await asyncio.gather(*map(client.reply, asked))
    assert report["uri"] == uri
    assert shut is None
    assert all(gone(entry["pid"]) for entry in log("start"))


async def test_exit_without_shutdown_leaves_no_process_either(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "x = 1  # fake: sleep 60\n")
    await wait_for(lambda: log("trace"))
    client.notify("exit")
    assert await asyncio.wait_for(client.process.wait(), 10) == 1
    assert all(gone(entry["pid"]) for entry in log("start"))


async def test_a_client_that_closes_the_pipe_ends_the_server(client, uri, log):
    await client.initialize()
    client.open(uri, NET + "x = 1  # fake: sleep 60\n")
    await wait_for(lambda: log("trace"))
    client.process.stdin.close()
    assert await asyncio.wait_for(client.process.wait(), 10) == 1
    assert all(gone(entry["pid"]) for entry in log("start"))


async def test_the_server_ends_with_the_process_that_started_it(client, log):
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    await client.request("initialize", {"processId": parent.pid, "rootUri": None, "capabilities": {}})
    parent.kill()
    await parent.wait()
    assert await asyncio.wait_for(client.process.wait(), 10) == 1


async def test_the_life_cycle_is_kept(client, uri):
    with pytest.raises(ReplyError) as caught:
        await client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert caught.value.code == -32002
    client.notify("textDocument/didOpen", {"textDocument": {}})
    await client.initialize()
    with pytest.raises(ReplyError) as caught:
        await client.initialize()
    assert caught.value.code == -32600
    await client.request("shutdown")
    with pytest.raises(ReplyError) as caught:
        await client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert caught.value.code == -32600
    client.notify("exit")
    assert await asyncio.wait_for(client.process.wait(), 10) == 0


async def test_malformed_messages_are_answered_and_the_server_goes_on(client, uri):
    await client.initialize()
    client.raw(b"Content-Length: 5\r\n\r\n{nono")
    client.raw(b"Content-Length: 2\r\n\r\n[]")
    client.raw(b"what is this\r\n\r\n")
    await client.until(lambda: len(client.errors) == 3)
    assert [each["code"] for each in client.errors] == [-32700, -32600, -32700]
    for params in (None, {}, [], {"textDocument": 4}, {"textDocument": {"uri": uri}, "position": "here"}):
        with pytest.raises(ReplyError) as caught:
            await client.request("textDocument/hover", params)
        assert caught.value.code == -32602
    with pytest.raises(ReplyError) as caught:
        await client.request("textDocument/nothing", {})
    assert caught.value.code == -32601
    client.notify("textDocument/didChange", {"textDocument": {}})
    client.notify("$/nothing", {})
    client.send({"jsonrpc": "2.0", "id": 99, "result": None})
    client.send({"jsonrpc": "2.0", "id": 98, "error": {"code": 1, "message": "no"}})
    client.open(uri, NET)
    assert await client.diagnostics(uri, 1) == []
    assert b"Traceback" not in client.stderr


async def test_tcp_serves_one_client_on_the_loopback(tmp_path, uri):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fxls", "--tcp", "127.0.0.1:0", stderr=asyncio.subprocess.PIPE
    )
    line = await asyncio.wait_for(process.stderr.readline(), 20)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(line.rsplit(b":", 1)[1]))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                       "params": {"processId": None, "rootUri": None, "capabilities": {}}}).encode()  # fmt: skip
    writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert b"Content-Length" in await asyncio.wait_for(reader.readline(), 20)
    writer.close()
    assert await asyncio.wait_for(process.wait(), 20) == 1


async def test_tcp_is_refused_elsewhere():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fxls", "--tcp", "0.0.0.0:0", stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 2
    assert b"not on the loopback" in errors


async def test_on_a_terminal_help_is_printed():
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fxls", stdin=theirs, stdout=asyncio.subprocess.PIPE
    )
    os.close(theirs)
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    os.close(ours)
    assert process.returncode == 0
    assert b"usage: fxls" in output


async def test_what_a_person_types_wrong_is_said_in_a_line():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fxls", "--nonsense", stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 2
    assert b"Traceback" not in errors


async def test_a_profile_that_cannot_be_written_is_said(tmp_path, uri, log):
    (tmp_path / "file").write_text("not a folder")
    client = await Client.start(env={"FXLS_FAKE_LOG": str(log.path), "XDG_CACHE_HOME": str(tmp_path / "file")})
    await client.initialize()
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    with pytest.raises(ReplyError, match="cannot be written to"):
        await client.command("fxls.profile", uri=uri)
    assert await client.finish() == 0
