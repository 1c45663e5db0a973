"""Random edits, one after the other: what is shown then is what a server shows that sees the text for the first time.

After an edit much is kept: reports of models that it did not concern, spans that moved, ways to build and to feed.
None of it may be told from the answer.
"""

import ast
import json
import random
import re
from pathlib import Path

import pytest

from tests.server.client import ReplyError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EDITS = 12
SHOWN = ("code", "severity", "message", "range", "relatedInformation")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("name", ["moe", "vit", "gpt", "unet"])
async def test_what_is_shown_after_edits_is_what_a_fresh_server_shows(servers, tmp_path, name):
    chance = random.Random(name)
    edited, fresh = servers
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    uri = (tmp_path / f"{name}.py").as_uri()
    edited.open(uri, text, 1)
    await settled(edited, uri)
    for version in range(2, EDITS + 2):
        old, text = text, changed(text, chance)
        edited.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": [difference(old, text)]},
        )
        fresh.open(uri, text, version)
        shown = [await diagnostics(client, uri, version) for client in (edited, fresh)]
        fresh.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert shown[0] == shown[1], text


def changed(text: str, chance: random.Random) -> str:
    """Return a program with one small change."""
    while True:
        lines = text.split("\n")
        inside = [number for number, line in enumerate(lines) if re.match(r" {8}[\w(]", line)]
        number = chance.choice(inside)
        line = lines[number]
        match chance.randrange(7):
            case 0:
                lines[number] = re.sub(r"\b\d+\b", lambda found: str(int(found[0]) + 1), line, count=1)
            case 1:
                lines[number] = line.replace(" + ", " - ") if " + " in line else line.replace(" * ", " + ")
            case 2:
                lines.insert(number, "        if x.sum() > 0: x = x + 1")
            case 3:
                lines.insert(number, line)
            case 4:
                lines.insert(number, "        # a comment")
            case 5:
                lines[number] = f"{line}  # at the end"
            case _:
                lines.pop(number)
        new = "\n".join(lines)
        try:
            ast.parse(new)
        except SyntaxError:
            continue
        if new != text:
            return new


def difference(old: str, new: str) -> dict:
    """Return the change that leads from one text to another, as an editor sends it."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    return {
        "range": {"start": position(old, head), "end": position(old, len(old) - tail)},
        "text": new[head : len(new) - tail],
    }


def position(text: str, offset: int) -> dict:
    before = text[:offset]
    return {"line": before.count("\n"), "character": offset - (before.rfind("\n") + 1)}


async def settled(client, uri):
    """Return when nothing more comes for a document; a command waits for that."""
    try:
        await client.command("fxls.showCode", uri=uri, line=0)
    except ReplyError:  # There may be no code.
        return


async def diagnostics(client, uri, version):
    await settled(client, uri)
    found = await client.diagnostics(uri, version)
    return sorted(json.dumps({key: each.get(key) for key in SHOWN}, sort_keys=True) for each in found)
