"""The extension's package.json says what the server says."""

import json
import subprocess
import sys
from pathlib import Path

from fxls import __version__, lsp_ext

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "vscode-extension"
PACKAGE = json.loads((EXTENSION / "package.json").read_text("utf-8"))


def test_the_settings_are_those_of_the_server():
    subprocess.run([sys.executable, EXTENSION / "scripts" / "settings.py", "--check"], check=True)


def test_the_version_is_that_of_the_server():
    assert PACKAGE["version"] == __version__


def test_no_command_of_ours_has_the_name_of_a_server_command():
    ours = {each["command"] for each in PACKAGE["contributes"]["commands"]}
    assert not ours & set(lsp_ext.COMMANDS)


def test_every_setting_that_starts_a_program_is_ignored_in_an_untrusted_workspace():
    properties = PACKAGE["contributes"]["configuration"]["properties"]
    programs = {key for key, value in properties.items() if value["scope"] == "machine-overridable"}
    assert programs == set(PACKAGE["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])
