"""Files that run in a sandbox: no network, nothing is written but to temporary folders, and the person is told why."""

import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fxworker import sandbox
from fxworker.wire import TraceReport
from tests.worker.harness import Worker, all_problems, eventually, marked, only_problem

pytestmark = pytest.mark.skipif(set(sandbox.available()) < {"files", "network"}, reason="this kernel offers no sandbox")

NET = """\
import os, socket, subprocess, tempfile, urllib.request
import torch
from torch import nn
from helper import N


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(N, 4)
        CONSTRUCTOR

    def forward(self, x):
        FORWARD
        return self.fc(x)
"""


@pytest.fixture
def run(worker, model):
    """Trace a model in the sandbox or without it."""

    def run(constructor="pass", forward="pass", helper="", *, confined=True) -> tuple[TraceReport, Path]:
        model(f"import os, socket\n{helper}\nN = 4\n", "helper.py")
        path = model(NET.replace("CONSTRUCTOR", constructor).replace("FORWARD", forward))
        request = replace(worker.request(path), sandbox=confined)
        worker.send(request)
        report = worker.receive()
        assert isinstance(report, TraceReport)
        return report, path

    return run


@pytest.fixture
def listener():
    """A server on the loopback that counts who comes."""
    met = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    met.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], met


def test_the_environment_says_what_can_be_kept_from_a_file(worker):
    assert worker.environment.sandbox == sandbox.available()


@pytest.mark.parametrize("place", ["helper", "constructor", "forward"])
def test_a_connection_is_refused_and_the_sandbox_is_named(run, listener, place):
    port, met = listener
    code = f"socket.create_connection(('127.0.0.1', {port}))"
    report, path = run(**{place: code})
    problem = only_problem(report)
    assert problem.code == {"helper": "FX101", "constructor": "FX102", "forward": "FX009"}[place]
    assert "the sandbox keeps it from the network" in problem.message
    assert "`fxls.sandbox`" in problem.hint
    assert report.denied == "network"
    expected = "from helper import N" if place == "helper" else code
    assert marked(path.read_text(), problem.location) == expected
    assert met == []
    report, _ = run(**{place: code}, confined=False)
    assert (report.status, report.denied) == ("complete", "")
    assert eventually(lambda: met)


@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("place", ["helper", "constructor", "forward"])
def test_names_are_not_looked_up(run, place, confined):
    """Not without the sandbox either: that nobody is sent to a setting which would not help."""
    code = "__import__('urllib.request').request.urlopen('http://example.com/', timeout=3)"
    report, _ = run(**{place: code}, confined=confined)
    problem = only_problem(report)
    assert "fxls runs files without the network" in problem.message
    assert "local copy" in problem.hint
    assert "sandbox" not in problem.message + problem.hint
    assert report.denied == ""


@pytest.mark.parametrize("place", ["helper", "constructor", "forward"])
def test_a_folder_for_later_is_not_made_and_the_model_goes_on(run, tmp_path, place):
    for make in ("os.makedirs({!r}, exist_ok=True)", "__import__('pathlib').Path({!r}).mkdir(parents=True)"):
        code = make.format(str(tmp_path / "runs" / "a" / "b"))
        report, _ = run(**{place: code})
        assert (report.status, all_problems(report), report.denied) == ("complete", [], "")
        assert not (tmp_path / "runs").exists()


def test_a_file_of_weights_that_cannot_be_written_is_done_without(run, tmp_path):
    helper = f"def fetch(path):\n    open({str(tmp_path / 'elsewhere')!r} + path, 'wb').write(b'')\n"
    report, _ = run(constructor="import helper; helper.fetch('net.pt')", helper=helper)
    assert report.targets[0].status == "complete"
    assert not report.denied


def test_what_is_written_to_a_folder_that_was_not_made_is_refused_by_the_sandbox(run, tmp_path):
    folder = str(tmp_path / "runs")
    report, path = run(constructor=f"os.mkdir({folder!r}); open({folder!r} + '/log', 'w')")
    problem = only_problem(report)
    assert "the sandbox lets it write to temporary folders only" in problem.message
    assert marked(path.read_text(), problem.location) == f"open({folder!r} + '/log', 'w')"
    assert report.denied == "files"


@pytest.mark.parametrize("place", ["helper", "constructor", "forward"])
def test_the_project_is_read_only(run, tmp_path, place):
    code = f"open({str(tmp_path / 'made')!r}, 'w')"
    report, _ = run(**{place: code})
    problem = only_problem(report)
    assert "the sandbox lets it write to temporary folders only" in problem.message
    assert report.denied == "files"
    assert not (tmp_path / "made").exists()
    assert run(**{place: code}, confined=False)[0].status == "complete"
    assert (tmp_path / "made").exists()


DEEDS = {
    "truncate": "os.truncate({path!r}, 0)",
    "remove": "os.remove({path!r})",
    "rename": "os.rename({path!r}, {path!r} + '.old')",
    "link": "os.link({path!r}, {path!r} + '.link')",
    "folder": "os.mkdir({path!r} + '.d')",
    "another program": "subprocess.run(['sh', '-c', 'echo bad > ' + {path!r}])",
}


@pytest.mark.parametrize("name", DEEDS)
def test_nothing_in_the_project_changes(run, tmp_path, name):
    (tmp_path / "kept").write_text("kept")
    run(forward=DEEDS[name].format(path=str(tmp_path / "kept")))
    assert (tmp_path / "kept").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["helper.py", "kept", "net.py"]


def test_temporary_files_are_allowed_and_go_with_the_worker(own_worker, model):
    path = model(
        NET.replace("CONSTRUCTOR", "open(os.path.join(tempfile.gettempdir(), 'kept'), 'w').write('x'); "
        "tempfile.TemporaryFile().write(b'x'); open('/dev/null', 'w').write('x')").replace("FORWARD", "pass")
    )  # fmt: skip
    model("N = 4\n", "helper.py")
    own_worker.send(replace(own_worker.request(path), sandbox=True))
    report = own_worker.receive()
    assert isinstance(report, TraceReport)
    assert (report.status, all_problems(report)) == ("complete", [])
    folders = list(
        Path(os.path.realpath(sandbox.tempfile.gettempdir())).glob(f"fxls-sandbox-{own_worker.process.pid}-*")
    )
    assert [each.name for folder in folders for each in folder.iterdir()] == ["kept"]
    assert own_worker.close() == 0
    assert not any(folder.exists() for folder in folders)


def test_what_is_read_and_built_is_the_same(run, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    report, _ = run(f"open({str(tmp_path / 'config.json')!r}).read(); os.listdir({str(tmp_path)!r}); os.getuid()")
    assert (report.status, all_problems(report), report.denied) == ("complete", [], "")


def test_a_refusal_of_the_system_is_not_the_sandboxs(run, tmp_path):
    report, _ = run("open('/proc/version', 'w')")
    assert "the sandbox" not in only_problem(report).message or os.geteuid() == 0
    report, _ = run("__import__('os').listdir('/no/such/folder')")
    assert "the sandbox" not in only_problem(report).message


@pytest.mark.parametrize("started", [(), ("--profile", "--sandbox"), ("--profile",)])
def test_a_profile_is_made_in_the_sandbox(model, tmp_path, listener, started):
    port, met = listener
    worker = Worker(*started)
    try:
        model("N = 4\n", "helper.py")
        deeds = {
            "files": f"open({str(tmp_path / 'made')!r}, 'w')",
            "network": f"socket.create_connection(('127.0.0.1', {port}))",
            "": "open(os.path.join(tempfile.gettempdir(), 'kept'), 'w').write('x')",
        }
        for denied, deed in deeds.items():
            path = model(NET.replace("CONSTRUCTOR", deed).replace("FORWARD", "pass"))
            _, report = worker.profile(path, "Net", sandbox=True)
            assert (report.status, report.denied) == ("failed" if denied else "complete", denied), report.problems
            assert all("the sandbox" in each.message for each in report.problems)
        assert not (tmp_path / "made").exists()
        path = model(NET.replace("CONSTRUCTOR", deeds["files"]).replace("FORWARD", "pass"))
        _, report = worker.profile(path, "Net")
        assert (report.status, report.denied) == ("complete", "")
        assert (tmp_path / "made").exists()
        assert met == []
        assert worker.close() == 0
        assert not [*Path(sandbox.tempfile.gettempdir()).glob(f"fxls-sandbox-{worker.process.pid}-*")]
    finally:
        worker.process.kill()


def test_a_system_without_one_traces_all_the_same(monkeypatch):
    monkeypatch.setattr(sandbox, "_libc", None)
    assert sandbox.available() == ()
    sandbox.isolate()
    sandbox.confine(("/tmp",))
    assert sandbox._in_force == []
    assert sandbox.forbade(PermissionError(13, "Permission denied", "/etc/x")) == ""
    sandbox._asked.clear()
