"""The examples are programs: each runs as it is, and its page in examples/README.md says what fxls finds in it."""

import ast
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
_ROW = re.compile(r"^\| \[(?P<file>\w+\.py)\]\(\w+\.py\) \|.*\|(?P<codes>[^|]*)\|$", re.MULTILINE)


def table() -> dict[str, set[str]]:
    """The codes that examples/README.md promises for each file."""
    rows = _ROW.finditer((ROOT / "examples/README.md").read_text(encoding="utf-8"))
    return {row["file"]: set(re.findall(r"FX\d{3}", row["codes"])) for row in rows}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_and_fits_a_few_screens(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert 60 <= len(text.splitlines()) <= 300


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    """The codes that the command line finds in each example."""
    command = [sys.executable, "-m", "fxls", "check", "--format", "json", "--timeout", "60", "--python", sys.executable]
    done = subprocess.run([*command, ROOT / "examples"], check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    codes: dict[str, set[str]] = {path.name: set() for path in EXAMPLES}
    for problem in json.loads(done.stdout)["problems"]:
        codes[Path(problem["path"]).name].add(problem["code"])
    return codes


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_table_names_what_is_found_in_an_example(path: Path, found: dict[str, set[str]]) -> None:
    promised = table()[path.name]
    assert found[path.name] <= promised
    assert bool(found[path.name] & promised) == bool(promised)


def test_every_example_is_in_the_table() -> None:
    assert set(table()) == {path.name for path in EXAMPLES}
    clean = [name for name, codes in table().items() if not codes]
    assert len(EXAMPLES) >= 8
    assert 0.3 < len(clean) / len(EXAMPLES) < 0.7
