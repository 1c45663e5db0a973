"""What tests of several servers share."""

import sys

import pytest_asyncio

from tests.server.client import Client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory):
    """One server whose documents are edited, and one that opens each text anew."""
    started = []
    for name in ("edited", "fresh"):
        client = await Client.start(env={"XDG_CACHE_HOME": str(tmp_path_factory.mktemp(name))})
        await client.initialize({"interpreter": [sys.executable]})
        started.append(client)
    yield tuple(started)
    for client in started:
        assert await client.finish() == 0
        await client.stop()
