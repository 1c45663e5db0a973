"""Choosing a Python: the first that exists, in an order that people can rely on."""

import sys

import pytest

from fxls.workers import python_env
from fxls.workers.python_env import find_python


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "ws" / "models").mkdir(parents=True)
    return tmp_path / "ws"


def environment(folder):
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return str(python)


def find(workspace, configured=(), **environ):
    env = find_python(str(workspace / "models" / "net.py"), str(workspace), configured, environ)
    return env.command[0], env.found, env.problem


def test_what_is_configured_wins(workspace, tmp_path):
    environment(workspace / ".venv")
    python = environment(tmp_path / "other")
    assert find(workspace, (python,)) == (python, "configured", "")


def test_arguments_of_a_configured_command_are_kept(workspace, tmp_path):
    python = environment(tmp_path / "other")
    env = find_python(str(workspace / "net.py"), str(workspace), (python, "-X", "dev"), {})
    assert env.command == (python, "-X", "dev")
    assert env.name == f"{python} -X dev"


def test_a_configured_environment_may_be_named_by_its_folder(workspace):
    python = environment(workspace / "special")
    assert find(workspace, (str(workspace / "special"),)) == (python, "configured", "")


def test_a_configured_command_may_be_relative_to_the_folder(workspace):
    python = environment(workspace / "special")
    assert find(workspace, ("special/bin/python",)) == (python, "configured", "")


def test_a_configured_command_that_does_not_exist_is_a_problem(workspace):
    environment(workspace / ".venv")
    command, _, problem = find(workspace, ("/no/such/python",))
    assert (command, problem) == ("/no/such/python", "the configured interpreter `/no/such/python` does not exist")


def test_the_active_environment_comes_before_the_folders(workspace, tmp_path):
    environment(workspace / ".venv")
    active, conda = environment(tmp_path / "active"), environment(tmp_path / "conda")
    assert find(workspace, VIRTUAL_ENV=str(tmp_path / "active"), CONDA_PREFIX=str(tmp_path / "conda"))[0] == active
    assert find(workspace, CONDA_PREFIX=str(tmp_path / "conda"))[0] == conda


def test_an_active_environment_that_is_gone_is_passed_over(workspace):
    python = environment(workspace / "venv")
    assert find(workspace, VIRTUAL_ENV="/no/such/env") == (python, "venv of the workspace folder", "")


def test_an_environment_beside_the_file_is_found(workspace):
    python = environment(workspace / "models" / ".venv")
    assert find(workspace)[0] == python


def test_an_environment_above_the_workspace_is_not_used(workspace, tmp_path):
    environment(tmp_path / ".venv")
    assert find(workspace, PATH="")[0] == sys.executable


def test_then_the_server_itself_if_it_was_installed_beside_a_torch(workspace, tmp_path):
    environment(tmp_path / "somewhere")
    assert find(workspace, PATH=str(tmp_path / "somewhere" / "bin")) == (sys.executable, "the server's own", "")


def test_then_the_path_and_last_the_server_itself(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(python_env, "_is_beside_torch", lambda: False)
    python = environment(tmp_path / "somewhere")
    assert find(workspace, PATH=str(tmp_path / "somewhere" / "bin")) == (python, "on the PATH", "")
    assert find(workspace, PATH=str(tmp_path / "nowhere")) == (sys.executable, "the server's own", "")
