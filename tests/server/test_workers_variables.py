"""What a worker sees of the environment."""

import os

import pytest

from fxls.workers.variables import visible

KEPT = [
    "PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
    "HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "TMPDIR", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "PWD",
]  # fmt: skip
SECRETS = [
    "HF_TOKEN", "GITHUB_TOKEN", "OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "DB_PASSWORD", "SECRET_SAUCE",
    "SSH_AUTH_SOCK", "SENTRY_DSN", "my_api_key", "WANDB_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "DATABASE_URL",
]  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_programs_need_is_kept(name):
    assert visible({name: "1"}, ()) == {name: "1"}


@pytest.mark.parametrize("name", [*SECRETS, "DISPLAY", "COVERAGE_PROCESS_START"])
def test_secrets_and_displays_are_left_out(name):
    assert visible({name: "1"}, ()) == {}


def test_the_person_has_the_last_word():
    environ = {"HF_TOKEN": "1", "WANDB_API_KEY": "2", "MINE": "3", "PATH": "4"}
    assert visible(environ, ("HF_TOKEN", "-MINE")) == {"HF_TOKEN": "1", "PATH": "4"}
    assert visible(environ, ("*", "-*_TOKEN")) == {"WANDB_API_KEY": "2", "MINE": "3", "PATH": "4"}


def test_a_worker_sees_what_is_visible(monkeypatch):
    assert "PATH" in visible(os.environ, ())
