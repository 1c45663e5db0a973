"""The cache folder: where each platform wants it, and files that are never seen half written."""

from pathlib import Path

import pytest

from fxls.cache import cache_folder, write_whole


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/var/caches"}, "/var/caches/fxls"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/ada/.cache/fxls"),
        ("linux", {"XDG_CACHE_HOME": ""}, "/home/ada/.cache/fxls"),
        ("linux", {}, "/home/ada/.cache/fxls"),
        ("darwin", {"XDG_CACHE_HOME": "/var/caches"}, "/home/ada/Library/Caches/fxls"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/fxls/Cache"),
        ("win32", {}, "/home/ada/AppData/Local/fxls/Cache"),
    ],
)
def test_it_lies_where_the_platform_wants_it(platform, environ, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder(environ, platform) == Path(folder)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "made" / "data"
    write_whole(file, b"old")
    write_whole(file, b"new")
    assert file.read_bytes() == b"new"
    assert [*file.parent.iterdir()] == [file]
