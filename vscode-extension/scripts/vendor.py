"""Fills bundled/libs with all that the server is made of: our packages, and the pure-Python ones that they need.

Needs pip alone. The versions are those of requirements.txt beside this folder's package.json, and the wheels are
chosen for any platform, so the folder is the same whichever machine it was made on. watchdog's compiled part for
macOS is left out on purpose: it falls back to kqueue there.
"""

import shutil
import subprocess
import sys
from pathlib import Path

EXTENSION = Path(__file__).resolve().parent.parent
REPOSITORY = EXTENSION.parent
LIBS = EXTENSION / "bundled" / "libs"
OURS = (REPOSITORY / "fxls", REPOSITORY / "engine" / "fxengine", REPOSITORY / "engine" / "fxworker")
OLDEST_PYTHON = "3.11"


def main() -> None:
    """Make the folder anew."""
    shutil.rmtree(LIBS, ignore_errors=True)
    install_dependencies()
    for package in OURS:
        shutil.copytree(package, LIBS / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    shutil.copytree(REPOSITORY / "docs" / "rules", LIBS / "fxls" / "docs" / "rules")
    compiled = [path for path in LIBS.rglob("*") if path.suffix in {".so", ".pyd", ".dylib"}]
    if compiled:
        sys.exit(f"vendor.py: compiled files cannot be shipped to every platform: {compiled}")


def install_dependencies() -> None:
    """Install the locked wheels that need no compiler and no particular interpreter."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    command += ["--target", str(LIBS), "--no-compile", "--no-deps", "--only-binary", ":all:"]
    command += ["--python-version", OLDEST_PYTHON, "--implementation", "py", "--abi", "none"]
    command += ["--platform", "any", "--platform", "manylinux2014_x86_64"]
    command += ["-r", str(EXTENSION / "requirements.txt")]
    subprocess.run(command, check=True)
    shutil.rmtree(LIBS / "bin", ignore_errors=True)


if __name__ == "__main__":
    main()
