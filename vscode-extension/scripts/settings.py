"""Writes the settings into package.json: those of fxls/settings.py, their one source, then the extension's own.

`settings.py --check` writes nothing and fails where package.json says something else.
"""

import argparse
import json
import sys
from pathlib import Path

from fxls.settings import package_configuration

EXTENSION = Path(__file__).resolve().parent.parent
OWN = {
    "fxls.serverInterpreter": {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "markdownDescription": "The command of the Python that runs the server, 3.11 or newer, as a list. It needs no "
        "torch. Empty: the interpreter of your models, or `python3` where that one is older.",
        "scope": "machine-overridable",
    },
    "fxls.trace.server": {
        "type": "string",
        "enum": ["off", "messages", "verbose"],
        "default": "off",
        "markdownDescription": "Write the messages between editor and server to the output channel *fxls*.",
        "scope": "window",
    },
}


def main() -> None:
    """Write package.json, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    path = EXTENSION / "package.json"
    package = json.loads(path.read_text("utf-8"))
    wanted = package_configuration()
    wanted["properties"] |= OWN
    if package["contributes"]["configuration"] == wanted:
        return
    if check:
        sys.exit("settings.py: package.json differs from fxls/settings.py; run vscode-extension/scripts/settings.py")
    package["contributes"]["configuration"] = wanted
    path.write_text(json.dumps(package, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
