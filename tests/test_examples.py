"""The examples are programs: each runs as it is, and its page in examples/README.md says what fxls finds in it."""

import ast
import re
import runpy
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


def test_every_example_is_in_the_table() -> None:
    assert set(table()) == {path.name for path in EXAMPLES}
    clean = [name for name, codes in table().items() if not codes]
    assert len(EXAMPLES) >= 8
    assert 0.3 < len(clean) / len(EXAMPLES) < 0.7
