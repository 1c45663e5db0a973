"""The model libraries that parity tests and benchmarks run over: where they are, and how `make corpus` installs them.

They live in `.corpus`, beside the project's environment and never in it: several of them pin a torch of their own.
Programs call `prepare()` before they import one of them, or run with `PYTHONPATH=.corpus`.
Nothing is downloaded but the libraries: models are built with random weights.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / ".corpus"
REQUIREMENTS = ROOT / "tests/parity/corpus-requirements.txt"
OPERATORS = Path(__file__).with_name("torchvision_operators.py")
STAMP = CORPUS / ".installed"

_IMPORT_OPERATORS = '''

# Added by fxls's `make corpus`: this extension does not load beside a CPU build of torch.
if not _has_ops():
    import torchvision_operators  # noqa: F401

    def _assert_has_ops():  # noqa: F811
        """The operators that have no Python version are declared by the import above."""
'''


def prepare() -> Path:
    """The folder of the libraries, now last on `sys.path`.

    Raises:
        ModuleNotFoundError: `make corpus` has not been run.
    """
    if not STAMP.exists():
        raise ModuleNotFoundError(f"the model libraries are not in {CORPUS}: run `make corpus`")
    if str(CORPUS) not in sys.path:
        sys.path.append(str(CORPUS))
    return CORPUS


def install() -> str:
    """Bring `.corpus` up to date with the requirements; one line says what was done."""
    fingerprint = hashlib.sha256(
        b"".join(f.read_bytes() for f in (REQUIREMENTS, OPERATORS, Path(__file__)))
    ).hexdigest()
    if STAMP.exists() and STAMP.read_text(encoding="ascii") == fingerprint:
        return f"corpus: {_libraries()} libraries in {CORPUS.name}, up to date"
    shutil.rmtree(CORPUS, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-deps", "--target", CORPUS, "-r", REQUIREMENTS], check=True)
    shutil.copy(OPERATORS, CORPUS)
    with (CORPUS / "torchvision/extension.py").open("a", encoding="utf-8") as extension:
        extension.write(_IMPORT_OPERATORS)
    STAMP.write_text(fingerprint, encoding="ascii")
    return f"corpus: {_libraries()} libraries installed into {CORPUS.name}"


def _libraries() -> int:
    return len(list(CORPUS.glob("*.dist-info")))


if __name__ == "__main__":
    sys.stdout.write(install() + "\n")
