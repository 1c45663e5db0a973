"""Watching: changes on disk are told to those who depend on them, together and once."""

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from fxls import watching
from fxls.mounts import is_remote, kinds_now, mounted
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


async def test_many_files_are_looked_at_a_few_at_a_time_and_told_together(watcher, told, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_FOLDERS", 0)
    monkeypatch.setattr(watching, "_POLL", 0.05)
    monkeypatch.setattr(watching, "_AT_ONCE", 2)
    looks, mark = [], watching._mark

    def looked(path):
        looks.append(asyncio.get_running_loop().time())
        return mark(path)

    monkeypatch.setattr(watching, "_mark", looked)
    paths = [tmp_path / f"{number}.py" for number in range(9)]
    for path in paths:
        path.write_text("x = 1\n")
    watcher.depend("one", map(str, paths))
    looks.clear()
    write(paths[0])
    write(paths[8])
    assert await told.next() == {str(paths[0]), str(paths[8])}
    assert looks[8] - looks[0] > 3 * watching._BETWEEN
    write(paths[4])
    assert await told.next() == {str(paths[4])}


async def test_a_file_that_is_given_the_time_of_the_one_before_has_changed(watcher, told, files, monkeypatch):
    monkeypatch.setattr(watching, "_FOLDERS", 0)
    monkeypatch.setattr(watching, "_POLL", 0.05)
    watcher.depend("one", files)
    then = Path(files[0]).stat()
    write(files[0], "y = 1\n")
    os.utime(files[0], ns=(then.st_atime_ns, then.st_mtime_ns))
    assert await told.next() == {files[0]}


async def test_a_folder_that_does_not_exist_is_polled(watcher, told, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_POLL", 0.1)
    path = tmp_path / "later" / "a.py"
    watcher.depend("one", [str(path)])
    path.parent.mkdir()
    path.write_text("x = 1\n")
    assert await told.next() == {str(path)}


async def test_a_folder_that_is_moved_away_and_made_anew_is_followed(watcher, told, files, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_POLL", 0.1)
    watcher.depend("one", files)
    (tmp_path / "project").rename(tmp_path / "elsewhere")
    assert await told.next() == set(files)
    (tmp_path / "project").mkdir()
    write(files[0])
    assert await told.next() == {files[0]}
    monkeypatch.setattr(watching, "_POLL", 60)
    await asyncio.sleep(0.3)  # The last look at an interval of before.
    told.event.clear()
    write(files[0], "x = 3\n")
    assert await told.next() == {files[0]}, "it is watched again, and not only looked at"


async def test_a_folder_that_is_removed_and_made_anew_is_followed(watcher, told, files, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_POLL", 0.1)
    watcher.depend("one", files)
    shutil.rmtree(tmp_path / "project")
    assert await told.next() == set(files)
    await asyncio.sleep(0.5)
    told.event.clear()
    (tmp_path / "project").mkdir()
    write(files[1])
    assert await told.next() == {files[1]}


async def test_a_folder_of_another_machine_is_polled(watcher, told, files, monkeypatch):
    monkeypatch.setattr(watching, "_POLL", 0.1)
    monkeypatch.setattr(watching, "is_remote", lambda folder, kinds: True)
    watcher.depend("one", files)
    assert watcher._watches == {}
    await asyncio.sleep(0.02)
    write(files[0], "x = 22\n")
    assert await told.next() == {files[0]}


async def test_what_changed_before_anybody_looked_has_changed(watcher, told, files, tmp_path):
    read = time.time()
    await asyncio.sleep(0.05)
    for path in files:
        os.utime(path, (read - 10, read - 10))
    write(files[1])
    Path(files[2]).unlink()
    missing = str(tmp_path / "project" / "missing.py")
    watcher.depend("one", files, [missing], read)
    assert await told.next() == set(files[1:])
    await asyncio.sleep(0.3)
    watcher.depend("two", files, [missing], read)
    await asyncio.sleep(0.3)
    assert len(told.sets) == 1, "they have been followed since"


MOUNTS = """\
22 27 0:21 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:40 / /home rw,relatime shared:7 - nfs4 server:/home rw
24 23 0:41 / /home/me/local\\040disk rw - btrfs /dev/sdb rw
25 22 0:42 / /mnt/cloud rw - fuse.sshfs me@server: rw
26 22 0:43 / /mnt/usb rw - fuseblk /dev/sdc rw
27 22 0:44 / /mnt/twice rw - ext4 /dev/sdd rw
28 27 0:45 / /mnt/twice rw - cifs //server/share rw
no line of this table
"""


@pytest.mark.parametrize(
    ("folder", "remote"),
    [
        ("/", False), ("/home", True), ("/home/me/project", True), ("/home/me/local disk/project", False),
        ("/homework", False), ("/mnt/cloud/a/b", True), ("/mnt/usb/a", False), ("/mnt/twice", True),
    ],
)  # fmt: skip
def test_folders_of_other_machines_are_known_by_what_is_mounted(monkeypatch, folder, remote):
    monkeypatch.setattr("fxls.mounts._table", lambda: MOUNTS)
    assert is_remote(folder, kinds_now()) is remote


def test_where_the_system_does_not_say_what_is_mounted_every_folder_is_of_this_machine(monkeypatch):
    monkeypatch.setattr("fxls.mounts._TABLE", "/no/such/table")
    assert mounted("") == {}
    assert not is_remote("/home/me", kinds_now())
