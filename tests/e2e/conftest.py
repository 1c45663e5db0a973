"""Runs the stories of tests/e2e/vscode in a real VS Code: one editor for each story, one test for each of its steps."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORIES = HERE / "vscode"
TIMINGS: pytest.StashKey[dict[str, float]] = pytest.StashKey()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each step of the story that a test function tells, in the story's order."""
    if "step" in metafunc.fixturenames:
        source = (STORIES / f"{metafunc.function.__name__.removeprefix('test_')}.mjs").read_text("utf-8")
        metafunc.parametrize("step", re.findall(r"^step\('(.+?)',", source, re.MULTILINE))


class Story:
    """A running story: its editor stays open between the steps."""

    def __init__(self, name: str, given: dict[str, Any], timings: dict[str, float]) -> None:
        command = ["node", str(STORIES / "drive.mjs"), str(STORIES / f"{name}.mjs"), json.dumps(given)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._timings = timings
        self._answers: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()
        begun = self._answer("the story begins", seconds=120)
        if not begun["ready"]:
            pytest.fail(begun["error"], pytrace=False)

    def run(self, step: str) -> None:
        """Do one step; fail with what its program says."""
        assert self._process.stdin is not None
        self._process.stdin.write(step + "\n")
        self._process.stdin.flush()
        answer = self._answer(step, seconds=280)
        self._timings.update(answer["timings"])
        if not answer["ok"]:
            pytest.fail(answer["error"], pytrace=False)

    def close(self) -> None:
        """End the story: its program closes the editor when its input ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(10)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)

    def _answer(self, what: str, seconds: float) -> dict[str, Any]:
        try:
            return json.loads(self._answers.get(timeout=seconds))
        except Empty:
            pytest.fail(f"no answer within {seconds} s: {what}", pytrace=False)


def settings() -> dict[str, Any]:
    """Return the person's settings: this environment traces; the server runs on a Python that has nothing of ours."""
    return {"fxls.interpreter": [sys.executable], "fxls.serverInterpreter": sys._base_executable}


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("tour") / "workspace"
    shutil.copytree(HERE / "workspace", folder)
    yield from _told("tour", {"folder": str(folder), "settings": settings()}, pytestconfig)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("several") / "workspace"
    shutil.copytree(HERE / "workspace", folder)
    yield from _told("several", {"folder": str(folder), "settings": settings()}, pytestconfig)


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("trust")
    yield from _told("trust", {"folder": str(folder), "settings": settings()}, pytestconfig)


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("environments") / "workspace"
    shutil.copytree(HERE / "workspace", folder)
    given = {"folder": str(folder), "settings": settings(), "python": sys.executable}
    yield from _told("environments", given, pytestconfig)


def _told(name: str, given: dict[str, Any], config: pytest.Config) -> Iterator[Story]:
    story = Story(name, given, config.stash.setdefault(TIMINGS, {}))
    yield story
    story.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    timings = config.stash.get(TIMINGS, {})
    if timings:
        terminalreporter.section("in the real VS Code")
    for name, milliseconds in timings.items():
        terminalreporter.write_line(f"{milliseconds:9.0f} ms  {name}")
