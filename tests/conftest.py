"""Options of the whole suite."""

import os
import tempfile

import pytest

# What the program remembers between its sessions is not the user's here, nor a former run's.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="fxls-test-cache-")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the goldens beside the fixtures")
