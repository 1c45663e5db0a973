"""Random edits of several files, open and on disk: what is shown in the end is what a server shows that sees it anew.

What a file imports is kept by its template, its models by the process that is ready for the next edit, their reports by
the server: each of them has to know when that is of an older text.
"""

import ast
import asyncio
import json
import random
import re
import shutil

import pytest

from tests.server.test_edits_random import difference, settled

BURSTS = 6
PATIENCE = 20.0

FILES = {
    "config.py": """\
import json
from pathlib import Path

WIDTH = json.loads(Path(__file__).with_name("sizes.json").read_text())
""",
    "parts.py": """\
import torch
from torch import nn

from config import WIDTH


def positive(x):
    return x if x.sum() > 0 else -x


class Gate(nn.Module):
    limit = 3

    def __init__(self, dim=WIDTH):
        super().__init__()
        self.layer = nn.Linear(dim, 1)

    def forward(self, x):
        gate = self.layer(x)
        if gate.max() > self.limit:
            gate = gate / 2
        return torch.sigmoid(gate) * x
""",
    "model.py": """\
import torch
from torch import nn

from config import WIDTH
from parts import Gate, positive


class Alone(nn.Module):
    def forward(self, x):
        return positive(x) + 1


class Net(nn.Module):
    def __init__(self, flag=True):
        super().__init__()
        self.gate = Gate(WIDTH)
        self.flag = flag

    def forward(self, x):
        x = self.gate(x)
        return x * 2 if self.flag else x


if __name__ == "__main__":
    Net()(torch.randn(2, WIDTH))
""",
}  # fmt: skip
EDITS = (
    (r"\b[1-9]\b", lambda found: str(int(found[0]) % 9 + 1)),
    (r" \+ ", " - "),
    (r"True|False", lambda found: str(found[0] == "False")),
    (r"\n        return", "\n        assert x.shape[-1] == 8, 'odd'\n        return"),
    (r"\n        return", "\n        # a comment\n        return"),
    (r"\n    def forward\(self, x\)", "\n    def forward(self, x, more=0)"),
    (r"\bGate\b", "Door"),
    (r"\nclass ", "\n@register\nclass "),
    (r"\nimport torch\n", "\nimport not_installed_anywhere\nimport torch\n"),
    (r"^import torch\n", "import math\nimport torch\n"),
    (r"positive\(x\)", "x.relu()"),
    (r"\n\n\nclass ", "\n\n\n\n# above\nclass "),
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Project:
    """The files of a folder on disk, and those of them that are open in an editor."""

    def __init__(self, client, folder):
        self.client, self.folder = client, folder
        self.disk, self.open, self.version = {}, {}, 0

    def uri(self, name):
        return (self.folder / name).as_uri()

    def write(self, name, text):
        (self.folder / name).write_text(text)
        self.disk[name] = text

    def show(self, name, text):
        self.version += 1
        self.open[name] = text
        self.client.open(self.uri(name), text, self.version)

    def edit(self, name, text):
        self.version += 1
        document = {"uri": self.uri(name), "version": self.version}
        change = {"textDocument": document, "contentChanges": [difference(self.open[name], text)]}
        self.client.notify("textDocument/didChange", change)
        self.open[name] = text

    def save(self, name):
        self.write(name, self.open[name])
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri(name)}})

    def close(self, name):
        del self.open[name]
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    async def shown(self):
        """Return what is shown of each open file once nothing is on its way."""
        for _ in range(2):
            for name in self.open:
                await settled(self.client, self.uri(name))
        found = {}
        for name in self.open:
            said = self.client.published(self.uri(name))
            told = [(each["code"], each["message"], each["range"]) for each in said[-1]["diagnostics"]] if said else []
            found[name] = json.dumps(sorted(told, key=repr)).replace(str(self.folder), "")
        return found


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_shown_of_a_project_is_what_a_fresh_server_shows(servers, tmp_path, seed):
    chance = random.Random(seed)
    project = Project(servers[0], tmp_path / "edited")
    project.folder.mkdir()
    for name, text in {**FILES, "sizes.json": "8"}.items():
        project.write(name, text)
    project.show("model.py", FILES["model.py"])
    for burst in range(BURSTS):
        for _ in range(chance.choice([1, 1, 2, 3])):
            step(project, chance)
        fresh = Project(servers[1], tmp_path / f"fresh{burst}")
        shutil.copytree(project.folder, fresh.folder)
        for name, text in project.open.items():
            fresh.show(name, text)
        assert await agreed(project, fresh), (await project.shown(), await fresh.shown(), project.open)
        for name in [*fresh.open]:
            fresh.close(name)


async def agreed(project, fresh):
    """Whether both show the same in the end: changes on disk are told a moment later, and nobody waits for that."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while await project.shown() != await fresh.shown():
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(0.1)
    return True


def step(project, chance):
    """Do one thing that a person does."""
    name = chance.choice([*FILES])
    text = project.open.get(name, project.disk[name])
    match chance.randrange(8):
        case 0:
            project.write("sizes.json", str(chance.choice([4, 8, 16])))
        case 1 if name in project.open and name != "model.py":
            project.close(name)
        case 1 | 2 if name not in project.open:
            project.show(name, chance.choice([text, changed(text, chance)]))
        case 3 if name in project.open:
            project.save(name)
        case 4 if name in project.open:
            project.edit(name, FILES[name])
        case 5 if name in project.open:
            project.edit(name, text + "\n(")
            project.edit(name, text)
        case _ if name in project.open:
            project.edit(name, changed(text, chance))
        case _:
            project.write(name, changed(text, chance))


def changed(text, chance):
    """Return a program with one small change, or the same one."""
    for pattern, new in chance.sample(EDITS, len(EDITS)):
        places = [*re.finditer(pattern, text)]
        if places:
            place = chance.choice(places)
            edited = text[: place.start()] + (new(place) if callable(new) else new) + text[place.end() :]
            if is_program(edited):
                return edited
    return text


def is_program(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
