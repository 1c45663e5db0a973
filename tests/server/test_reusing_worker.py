"""The real server with the real worker: what is shown of models that an edit did not concern."""

import sys

import pytest
import pytest_asyncio

from tests.server.client import Client

TEXT = """\
import torch


def chosen(x):
    return x if x.sum() > 0 else -x


class Typed(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Beside(torch.nn.Module):
    def forward(self, x):
        y = chosen(x)
        return y if y.mean() > 1 else x
"""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    client = await Client.start(env={"XDG_CACHE_HOME": str(folder / "cache")})
    await client.initialize({"interpreter": [sys.executable]})
    yield client
    assert await client.finish() == 0
    assert b"Traceback" not in client.stderr
    await client.stop()


def lines(found):
    return sorted((each["code"], each["range"]["start"]["line"] + 1) for each in found)


def told(report, qualname):
    """Return what a report says of a model but for how long it took."""
    (found,) = (each for each in report["targets"] if each["qualname"] == qualname)
    return found["status"], found["nodes"], found["construct"], found["inputs"]


async def report_of(client, uri, version):
    while True:
        report = await client.request("fxls/report", {"uri": uri})
        if report["fresh"] and report["version"] == version:
            return report


async def test_edits_of_one_model_leave_the_others_what_they_are(client, tmp_path):
    uri = (tmp_path / "net.py").as_uri()
    client.open(uri, TEXT)
    assert lines(await client.diagnostics(uri, 1)) == [("FX001", 5), ("FX001", 16)]
    before = told(await report_of(client, uri, 1), "Beside")
    version, text = 1, TEXT
    for number in range(3):
        version, text = version + 1, text.replace("        return x + 1", f"        y = {number}\n        return x + 1")
        client.change(uri, version, text)
        moved = number + 1
        assert lines(await client.diagnostics(uri, version)) == [("FX001", 5), ("FX001", 16 + moved)]
        assert told(await report_of(client, uri, version), "Beside") == before
    version, text = version + 1, text.replace("if x.sum() > 0 else -x", "* 2")
    client.change(uri, version, text)
    assert lines(await client.diagnostics(uri, version)) == [("FX001", 19)]
    version, text = version + 1, text.replace("y if y.mean() > 1 else x", "y")
    client.change(uri, version, text)
    assert lines(await client.diagnostics(uri, version)) == []
    assert told(await report_of(client, uri, version), "Beside") != before
