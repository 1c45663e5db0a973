"""The real server with the real worker: what a person sees whatever their file does when it is executed."""

import asyncio
import shutil
import sys
import time

import pytest
import pytest_asyncio

from tests.server.client import Client

HEAD = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
"""
NET = HEAD + "        return self.layer(x).relu()\n"
BRANCH = HEAD + "        if x.sum() > 0:\n            return x\n        return self.layer(x)\n"


OUTER = """\
import torch
from blocks import Net


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x)
"""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    """One server for all tests: none of them may harm the next."""
    folder = tmp_path_factory.mktemp("server")
    client = await Client.start(env={"XDG_CACHE_HOME": str(folder / "cache")})
    await client.initialize({"interpreter": [sys.executable], "trace": {"timeout": 6}})
    yield client
    assert await client.finish() == 0
    assert b"Traceback" not in client.stderr
    await client.stop()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.py"


@pytest_asyncio.fixture(loop_scope="module")
async def uri(client, path):
    yield path.as_uri()
    client.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})


def where(diagnostic):
    return diagnostic["code"], diagnostic["range"]["start"]["line"] + 1


async def test_the_whole_road(client, uri):
    client.open(uri, NET)
    assert await client.diagnostics(uri, 1) == []
    client.change(uri, 2, BRANCH)
    (found,) = await client.diagnostics(uri, 2)
    assert where(found) == ("FX001", 10)
    assert found["range"] == {"start": {"line": 9, "character": 11}, "end": {"line": 9, "character": 22}}
    assert found["codeDescription"]["href"].endswith("FX001.md")
    client.change(uri, 3, NET)
    assert await client.diagnostics(uri, 3) == []
    at = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 7}}
    hover = (await client.request("textDocument/hover", at))["contents"]["value"]
    assert "**Net**" in hover
    assert "def forward" in hover
    lenses = await client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert [each["command"]["command"] for each in lenses[1:]] == ["fxls.showGraph", "fxls.showCode", "fxls.profile"]
    code = await client.command("fxls.showCode", uri=uri, target="Net")
    assert "self.layer(x)" in code["text"]


async def test_several_problems_their_fixes_and_what_ignores_them(client, uri):
    text = HEAD + (
        "        if x.max() > 1:\n            x = x / 2\n"
        "        for row in x:\n            x = x + row\n"
        "        x[x > 3] = 0\n"
        "        return self.layer(x)\n"
    )
    client.open(uri, text)
    found = await client.diagnostics(uri, 1)
    assert [where(each) for each in found] == [("FX001", 10), ("FX003", 12), ("FX005", 14)]
    async with asyncio.timeout(60):  # The problems may be shown before the rest of the report is there.
        while not (lenses := await client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})):
            await asyncio.sleep(0.1)
    assert lenses[0]["command"]["title"].startswith("✗ ")
    place = {"textDocument": {"uri": uri}, "range": found[0]["range"], "context": {"diagnostics": found[:1]}}
    async with asyncio.timeout(60):
        while len(actions := await client.request("textDocument/codeAction", place)) < 2:
            await asyncio.sleep(0.2)
    fix, *_, ignore = (each for each in actions if each["kind"] == "quickfix")
    proof = "traces; same outputs on 5 inputs, both outcomes met"
    assert fix["title"] == f"Write `torch.where(…)`, which computes both and picks ({proof})"
    assert fix["isPreferred"]
    assert fix["diagnostics"] == found[:1]
    assert fix["edit"]["documentChanges"][0]["edits"][0]["newText"] == "x = torch.where(x.max() > 1, x / 2, x)"
    (edit,) = ignore["edit"]["documentChanges"][0]["edits"]
    client.insert(uri, 2, edit["range"]["start"]["line"], edit["range"]["start"]["character"], edit["newText"])
    assert [where(each) for each in await client.diagnostics(uri, 2)] == [("FX003", 12), ("FX005", 14)]


async def test_a_profile_of_a_small_model(client, uri):
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    result = await client.command("fxls.profile", uri=uri, target="Net", device="cpu", timeout=120)
    assert "Net on cpu" in result["markdown"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("import no_such_module\n" + NET.replace("torch.nn.Linear", "no_such_module.Linear"), "FX101", 1),
        ("import no_such_module\n" + NET, None, None),
        (NET + "x = 1 / 0\n" + "y = Net()\n" + "assert x\n", None, None),
        (NET.replace("self.layer =", "self.other = 1 / 0; self.layer ="), "FX102", 7),
        (NET.replace("self.layer =", "import sys; sys.exit(3); self.layer ="), "FX102", 7),
        (NET.replace("self.layer =", "import os; os._exit(3); self.layer ="), "FX105", 7),
        (NET.replace("self.layer =", "while True: pass\n        self.layer ="), "FX104", 7),
        (NET.replace("        return", "        while True:\n            pass\n        return"), "FX104", None),
        (NET.replace("self.layer =", "print('x' * 100, '{\"forged\": 1}\\n' * 100_000); self.layer ="), None, None),
        (NET.replace("self.layer =", "input(); self.layer ="), "FX102", 7),
        (NET + "for step in range(10**9):\n    Net()(torch.randn(1, 4)).sum().backward()\n", None, None),
    ],
    ids=["missing import", "unneeded import", "unneeded code", "constructor raises", "sys.exit", "os._exit",
         "endless constructor", "endless forward", "print flood", "input", "trains when imported"],
)  # fmt: skip
async def test_whatever_the_file_does(client, uri, text, code, line):
    client.open(uri, text)
    found = await client.diagnostics(uri, 1)
    errors = [where(each) for each in found if each["severity"] == 1]
    if code is None:
        assert errors == []
    else:
        assert [each[0] for each in errors] == [code]
        assert line is None or errors[0][1] == line
    client.change(uri, 2, BRANCH)
    assert [where(each) for each in await client.diagnostics(uri, 2)] == [("FX001", 10)]


async def test_an_edit_during_an_endless_loop_is_answered_at_once(client, uri):
    client.open(uri, NET)
    await client.diagnostics(uri, 1)
    client.change(uri, 2, NET.replace("self.layer =", "while True: pass\n        self.layer ="))
    await asyncio.sleep(0.5)
    start = time.perf_counter()
    client.change(uri, 3, BRANCH)
    assert [where(each) for each in await client.diagnostics(uri, 3)] == [("FX001", 10)]
    assert time.perf_counter() - start < 5


async def test_a_module_of_the_project_that_changes_on_disk(client, uri, path):
    blocks = path.with_name("blocks.py")
    blocks.write_text(NET)
    client.open(uri, OUTER)
    assert await client.diagnostics(uri, 1) == []
    blocks.write_text(BRANCH)
    await client.until(lambda: client.published(uri, 1)[-1]["diagnostics"])
    assert {each["code"] for each in client.published(uri, 1)[-1]["diagnostics"]} == {"FX001"}


async def test_a_module_that_is_taken_away_and_comes_back(client, uri, path):
    """As by a checkout of a branch without it, and back; a package goes as a whole."""
    package = path.with_name("parts")
    text = OUTER.replace("from blocks import Net", "from parts.blocks import Net")
    client.open(uri, text)
    assert [each["code"] for each in await client.diagnostics(uri, 1)] == ["FX101"], "it is not there yet"
    for _ in range(2):
        package.mkdir()
        (package / "blocks.py").write_text(NET)
        await client.until(lambda: not client.published(uri, 1)[-1]["diagnostics"])
        shutil.rmtree(package)
        await client.until(lambda: client.published(uri, 1)[-1]["diagnostics"])
        assert [each["code"] for each in client.published(uri, 1)[-1]["diagnostics"]] == ["FX101"]


async def test_an_unsaved_module_of_the_project(client, uri, path):
    blocks = path.with_name("blocks.py")
    blocks.write_text(NET)
    client.open(uri, OUTER)
    assert await client.diagnostics(uri, 1) == []
    client.open(blocks.as_uri(), NET)
    await client.diagnostics(blocks.as_uri(), 1)
    client.change(blocks.as_uri(), 2, BRANCH)
    await client.until(lambda: client.published(uri, 1)[-1]["diagnostics"])


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "vscode-notebook-cell:/a/b.ipynb#W0", "inmemory://c/1", "http://[", "file:"]
)
async def test_a_document_that_is_no_file_has_problems_and_hovers_where_they_are(client, uri):
    client.open(uri, BRANCH)
    (found,) = await client.diagnostics(uri, 1)
    assert where(found) == ("FX001", 10)
    assert {each["location"]["uri"] for each in found["relatedInformation"]} == {uri}
    await client.command("fxls.showCode", uri=uri, target="Net")
    at = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 7}}
    assert "line 10" in (await client.request("textDocument/hover", at))["contents"]["value"]
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


# The sandbox.

WRITES = HEAD.replace("import torch\n", "import torch\nimport writes\n") + "        return self.layer(x) * writes.N\n"


async def test_what_the_person_edits_may_do_what_they_may(client, uri, path):
    made = path.with_name("made")
    path.with_name("writes.py").write_text(f"open({str(made)!r}, 'w').close()\nN = 1\n")
    client.open(uri, WRITES)
    (found,) = await client.diagnostics(uri, 1)
    assert found["code"] == "FX101"
    assert "the sandbox lets it write to temporary folders only" in found["message"]
    assert where(found) == ("FX101", 2)
    assert not made.exists()
    client.change(uri, 2, WRITES + "\n\nx = 1\n")
    assert await client.diagnostics(uri, 2) == []
    assert made.exists()
