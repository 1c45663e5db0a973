"""A server on a folder, as an editor has it, and what it knows of a file."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.server.client import Client

__all__ = ["TIMEOUT", "Client", "served", "whole_report"]

TIMEOUT = 180.0


@asynccontextmanager
async def served(folder: Path, environ: dict[str, str]) -> AsyncIterator[Client]:
    """Start a server on a folder, and stop it."""
    client = await Client.start(env=environ)
    try:
        await client.initialize({"interpreter": [sys.executable], "trace": {"timeout": 120}}, folder)
        yield client
    finally:
        await client.stop()


async def whole_report(client: Client, uri: str, version: int) -> dict[str, Any]:
    """Return what is known of a version of a file with models, as soon as it was traced to its end.

    Raises:
        TimeoutError: It was not.
    """
    async with asyncio.timeout(TIMEOUT):
        while True:
            report = await client.request("fxls/report", {"uri": uri}, TIMEOUT)
            if report["fresh"] and report["version"] == version:
                return report
            await asyncio.sleep(0.001)
