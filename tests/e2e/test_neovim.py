"""A second client that shares no code with VS Code's: Neovim, headless, with what it brings along."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vscode

HERE = Path(__file__).resolve().parent


def test_neovim_shows_problems_hovers_lenses_and_actions(tmp_path):
    model = shutil.copy(HERE / "workspace" / "router.py", tmp_path)
    environment = os.environ | {
        "FXLS_COMMAND": json.dumps([sys.executable, "-m", "fxls"]),
        "FXLS_SETTINGS": json.dumps({"interpreter": [sys.executable]}),
        "FXLS_FILE": str(model),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    command = ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {HERE / 'neovim' / 'tour.lua'}"]
    run = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    seen = json.loads(run.stdout.splitlines()[-1])
    assert "fault" not in seen, seen["fault"] + run.stderr
    assert seen["problems"] == ["FX001 gate.max() > self.threshold"]
    assert "Router" in seen["hover"]
    assert any("Profile on cpu" in title for title in seen["lenses"])
    assert any("on cpu" in title for title in seen["actions"])
    assert seen["after_edit"] == ["FX001 gate.min() < 0.25"]
