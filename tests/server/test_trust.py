"""A workspace that nobody trusts: whatever in it could run leaves a mark when it does, and none may be left."""

import os
import stat
import sys
from pathlib import Path

import pytest

from fxls.cli import main
from tests.server.client import Client

MODEL = """\
import torch
from torch import nn
from helper import SCALE

MARK


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        MARK
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        MARK
        if x.sum() > SCALE:
            x = -x
        return self.fc(x)


# fx: inputs open("SENTINEL", "a")
net = Net()
"""


@pytest.fixture
def sentinel(tmp_path) -> Path:
    return tmp_path / "it-ran"


@pytest.fixture
def workspace(tmp_path, sentinel) -> Path:
    """A folder in which everything that tools run by themselves runs something."""
    folder = tmp_path / "workspace"
    mark = f"open({str(sentinel)!r}, 'a').write(__name__)"
    script = f"#!/bin/sh\necho ran >> {sentinel}\n"
    files = {
        "net.py": MODEL.replace("MARK", mark).replace("SENTINEL", str(sentinel)),
        "helper.py": f"{mark}\nSCALE = 1\n",
        "torch.py": f"{mark}\n",
        "conftest.py": f"{mark}\n",
        "sitecustomize.py": f"{mark}\n",
        "usercustomize.py": f"{mark}\n",
        "setup.py": f"{mark}\n",
        "__init__.py": f"{mark}\n",
        "pyproject.toml": '[tool.fxls]\nstrict = true\n\n[[tool.fxls.target]]\npath = "net.py"\n'
        f'construct = "Net(open({str(sentinel)!r}, \'a\'))"\ninterpreter = ["./evil"]\n',
        ".vscode/settings.json": '{"fxls.interpreter": ["./evil"]}',
        ".venv/pyvenv.cfg": "home = .\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("evil", "python", "python3", ".venv/bin/python", ".venv/bin/python3"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(script)
        (folder / name).chmod(stat.S_IRWXU)
    return folder


@pytest.mark.parametrize("way", ["the client says so", "--no-run"])
async def test_nothing_runs_and_the_syntax_speaks(workspace, sentinel, way):
    arguments = ["--no-run"] if way == "--no-run" else []
    env = {"PATH": f"{workspace}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(workspace / ".venv")}
    client = await Client.start(*arguments, env=env)
    options = {"interpreter": [str(workspace / "evil")], "trusted": way == "--no-run"}
    await client.initialize(options, workspace)
    uri = (workspace / "net.py").as_uri()
    text = (workspace / "net.py").read_text()
    client.open(uri, text)
    (hint,) = await client.diagnostics(uri, 1)
    line = text.split("\n").index("        if x.sum() > SCALE:")
    assert (hint["code"], hint["severity"]) == ("FX001", 4)
    assert hint["range"] == {"start": {"line": line, "character": 11}, "end": {"line": line, "character": 26}}
    assert "syntactic" in hint["message"]
    # Nothing that the workspace or the person's client asks for afterwards changes that.
    settings = {"settings": {"fxls": {"interpreter": [str(workspace / "evil")]}}}
    client.notify("workspace/didChangeConfiguration", settings)
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    client.insert(uri, 2, 0, 0, "import os\n")
    (hint,) = await client.diagnostics(uri, 2)
    assert hint["range"]["start"]["line"] == line + 1
    document = {"uri": uri}
    hover = {"textDocument": document, "position": {"line": line + 1, "character": 12}}
    assert "executed" in str(await client.request("textDocument/hover", hover))
    await client.request("textDocument/codeLens", {"textDocument": document})
    assert await client.finish() == 0
    assert not sentinel.exists()
    assert client.stderr == b""


def test_a_check_that_runs_nothing(workspace, sentinel, monkeypatch, capsys):
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PATH", f"{workspace}{os.pathsep}{os.environ['PATH']}")
    code = main(["check", "--no-run", "--python", "./evil", "--format", "json", "."])
    assert '"FX001"' in capsys.readouterr().out
    assert code == 0
    assert not sentinel.exists()


async def test_the_marks_would_be_left(workspace, sentinel):
    """The same workspace leaves its marks once it is trusted: the tests above are about something."""
    client = await Client.start()
    # The sandbox would keep the marks from being written.
    await client.initialize({"interpreter": [sys.executable], "sandbox": "off"}, workspace)
    uri = (workspace / "net.py").as_uri()
    client.open(uri, (workspace / "net.py").read_text().replace("import torch\n", "", 1))
    await client.diagnostics(uri, 1)
    assert await client.finish() == 0
    assert sentinel.exists()
