"""Where the compiled code of our own modules is kept if Python keeps none beside them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fxworker
from fxworker import pycache
from fxworker.encoding import decode
from fxworker.wire import EnvironmentReport
from tests.worker.harness import Worker, of

ENGINE = Path(fxworker.__file__).parents[1]

IMPORTED = """
import importlib, sys
sys.path[:0] = [{engine!r}, {modules!r}]
from fxworker.pycache import kept
with kept({folder!r}, {ours!r}):
    import ours
import theirs
print(sys.dont_write_bytecode, sys.pycache_prefix)
"""


@pytest.fixture
def modules(tmp_path):
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in ("ours", "theirs"):
        (folder / f"{name}.py").write_text("x = 1\n")
    return folder


def imported(modules, folder, *options):
    code = IMPORTED.format(engine=str(ENGINE), modules=str(modules), folder=str(folder), ours=str(modules / "ours.py"))
    done = subprocess.run([sys.executable, "-I", *options, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip(), [each.name.split(".")[0] for each in folder.rglob("*.pyc")]


def test_ours_is_kept_where_python_must_keep_none(modules, tmp_path):
    assert imported(modules, tmp_path / "kept", "-B") == ("True None", ["ours"])
    assert not list(modules.rglob("*.pyc"))


def test_python_keeps_it_where_it_may(modules, tmp_path):
    assert imported(modules, tmp_path / "kept") == ("False None", [])
    assert len(list(modules.rglob("*.pyc"))) == 2


def test_what_was_put_beside_the_files_is_used(modules, tmp_path):
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(modules)], check=True)
    assert imported(modules, tmp_path / "kept", "-B") == ("True None", [])


def test_whoever_chose_a_folder_for_all_keeps_it(modules, tmp_path):
    chosen = tmp_path / "chosen"
    told, kept = imported(modules, tmp_path / "kept", "-X", f"pycache_prefix={chosen}")
    assert (told, kept) == (f"False {chosen}", [])


def test_a_worker_keeps_what_it_is_made_of(tmp_path):
    copied = tmp_path / "engine"
    shutil.copytree(ENGINE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "kept"
    done = subprocess.run(
        [sys.executable, str(copied / "fxworker" / "__main__.py")],
        env={"PYTHONDONTWRITEBYTECODE": "1", pycache.FOLDER: str(folder)},
        input=b"", capture_output=True, check=True,
    )  # fmt: skip
    assert isinstance(decode(done.stdout.splitlines()[0]), EnvironmentReport)
    names = {each.name.split(".")[0] for each in folder.rglob("*.pyc")}
    assert {"serve", "documents", "tracer", "search"} <= names
    assert not list(copied.rglob("*.pyc"))


def test_nothing_is_written_beside_what_models_import(tmp_path):
    (tmp_path / "sizes.py").write_text("N = 4\n")
    text = "from sizes import N\nfrom torch import nn\n\nclass Net(nn.Linear):\n    def __init__(self):\n"
    text += "        super().__init__(N, N)\n\n    def forward(self, x):\n        return super().forward(x)\n"
    path = tmp_path / "net.py"
    path.write_text(text)
    worker = Worker(env={"PYTHONDONTWRITEBYTECODE": ""})
    try:
        assert of(worker.trace(path), "Net").facts.parameters == 20
    finally:
        worker.close()
    assert {each.name for each in tmp_path.iterdir()} == {"sizes.py", "net.py"}
