"""Watching: changes on disk are told to those who depend on them, together and once."""

import asyncio
from pathlib import Path

import pytest

from fxls import watching
from fxls.watching import Watcher


class Told:
    def __init__(self):
        self.sets = []
        self.event = asyncio.Event()

    def __call__(self, paths):
        self.sets.append(paths)
        self.event.set()

    async def next(self):
        await asyncio.wait_for(self.event.wait(), 10)
        self.event.clear()
        return self.sets[-1]


@pytest.fixture
def told():
    return Told()


@pytest.fixture
async def watcher(told):
    watcher = Watcher(told)
    yield watcher
    watcher.close()


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "project" / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    return [str(path) for path in paths]


def write(path, text="x = 2\n"):
    Path(path).write_text(text)


async def test_a_change_is_told_and_its_owners_are_known(watcher, told, files):
    watcher.depend("one", files[:2])
    watcher.depend("two", files[1:])
    write(files[0])
    assert await told.next() == {files[0]}
    assert watcher.owners([files[0]]) == ["one"]
    assert watcher.owners([files[1]]) == ["one", "two"]


async def test_changes_that_come_together_are_told_together(watcher, told, files):
    watcher.depend("one", files)
    for path in files:
        write(path)
    assert await told.next() == set(files)
    await asyncio.sleep(0.3)
    assert len(told.sets) == 1


async def test_a_file_that_is_moved_or_deleted_or_replaced_has_changed(watcher, told, files, tmp_path):
    watcher.depend("one", files)
    (tmp_path / "project" / "a.py").rename(tmp_path / "project" / "d.py")
    assert await told.next() == {files[0]}
    (tmp_path / "project" / "b.py").unlink()
    assert await told.next() == {files[1]}
    (tmp_path / "project" / "new").write_text("x = 3\n")
    (tmp_path / "project" / "new").replace(files[2])
    assert await told.next() == {files[2]}


async def test_files_that_nobody_depends_on_are_not_told(watcher, told, files):
    watcher.depend("one", files[:1])
    write(files[1])
    await asyncio.sleep(0.3)
    watcher.depend("one", ())
    write(files[0])
    await asyncio.sleep(0.3)
    assert told.sets == []


async def test_reading_is_no_change(watcher, told, files):
    watcher.depend("one", files)
    Path(files[0]).read_text()
    await asyncio.sleep(0.3)
    assert told.sets == []


async def test_changes_that_keep_coming_are_told_all_the_same(watcher, told, files, monkeypatch):
    monkeypatch.setattr(watching, "_LONGEST_WAIT", 0.3)
    watcher.depend("one", files)
    for number in range(40):
        write(files[0], f"x = {number}\n")
        await asyncio.sleep(0.02)
    assert told.sets


async def test_folders_beyond_the_limit_are_polled(watcher, told, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_FOLDERS", 1)
    monkeypatch.setattr(watching, "_POLL", 0.1)
    paths = []
    for name in ("many", "few"):
        for number in range(3 if name == "many" else 1):
            path = tmp_path / name / f"{number}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text("x = 1\n")
            paths.append(str(path))
    watcher.depend("one", paths)
    assert len(watcher._watches) == 1
    await asyncio.sleep(0.02)
    (tmp_path / "few" / "0.py").unlink()
    assert await told.next() == {paths[-1]}


async def test_a_folder_that_does_not_exist_is_polled(watcher, told, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_POLL", 0.1)
    path = tmp_path / "later" / "a.py"
    watcher.depend("one", [str(path)])
    path.parent.mkdir()
    path.write_text("x = 1\n")
    assert await told.next() == {str(path)}
