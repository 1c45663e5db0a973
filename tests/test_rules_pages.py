"""The pages of docs/rules are programs: their examples fail as they say, and their fixes trace and compute the same.

A block marked `python fails FX001` is a model with exactly that problem; one marked `python fixed` has none, and gives
the outputs of the failing one before it. Blocks of FX001 to FX009 bind `model` and `inputs`, and so do those of silent
errors (FX301 to FX312): there a block marked `python shows` demonstrates with torch.fx what is `wrong`, and it is so
for the failing model and not for the mended one. Blocks of other codes are files, which go through the command line. A
block of TOML is the configuration of a project with one small model.
"""

import json
import linecache
import re
import subprocess
import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.fx

import fxworker.rules  # noqa: F401 — Its classes are rules too.
from fxengine.errors import Rule
from fxengine.exploration import diagnose

NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)
"""
ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs/rules").glob("FX*.md"))
_BLOCK = re.compile(
    r"^```(?P<language>python|toml) (?P<kind>fails|fixed|shows) ?(?P<code>FX\d{3})?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One example of a page; `code` is None for a fix, `shows` is what demonstrates the error of a silent one."""

    page: str
    number: int
    code: str | None
    text: str
    after: "Block | None"
    language: str = "python"
    shows: str = ""

    @property
    def name(self) -> str:
        return f"{self.page}_{self.number}_{'fails' if self.code else 'fixed'}"


def blocks(page: Path) -> list[Block]:
    """The examples of a page, each fix with the failing block that it belongs to."""
    found: list[Block] = []
    failing = None
    for number, match in enumerate(_BLOCK.finditer(page.read_text(encoding="utf-8")), start=1):
        if match["kind"] == "shows":
            failing = found[-1] = replace(found[-1], shows=match["text"])
            continue
        block = Block(page.stem, number, match["code"], match["text"], failing, match["language"])
        failing = block if block.code else failing
        found.append(block)
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]
TRACED = [block for block in BLOCKS if block.page.startswith("FX0")]
SILENT = [block for block in BLOCKS if block.page.startswith("FX3")]
FILES = [block for block in BLOCKS if not block.page.startswith(("FX0", "FX3"))]


def load(block: Block, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The block, executed as a module of its own, with the same random numbers each time."""
    file = f"<{block.name}>"
    linecache.cache[file] = (len(block.text), None, block.text.splitlines(keepends=True), file)
    module = types.ModuleType(block.name)
    monkeypatch.setitem(sys.modules, block.name, module)
    torch.manual_seed(0)
    exec(compile(block.text, file, "exec"), vars(module))
    return module


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert [page.stem for page in PAGES] == sorted(rule.code for rule in Rule.__subclasses__())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_an_example_a_fix_and_says_when_to_ignore_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# {page.stem}: \S", text)
    assert "\n## When to ignore it\n" in text
    assert {block.code for block in blocks(page)} == {page.stem, None}


@pytest.mark.parametrize("block", TRACED, ids=lambda block: block.name)
def test_an_example_has_the_problem_of_its_page_and_a_fix_has_none(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(block, monkeypatch)
    found = {problem.code for problem in diagnose(module.model).problems}
    assert found == ({block.code} if block.code else set())


@pytest.mark.parametrize("block", [b for b in TRACED if b.after and not b.code], ids=lambda block: block.name)
def test_a_fix_computes_what_the_example_did(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    assert block.after
    failing, fixed = load(block.after, monkeypatch), load(block, monkeypatch)
    torch.testing.assert_close(fixed.model(*failing.inputs), failing.model(*failing.inputs))


@pytest.mark.parametrize("block", SILENT, ids=lambda block: block.name)
def test_a_silent_error_is_found_and_a_mended_one_is_not(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(block, monkeypatch)
    diagnosis = diagnose(module.model, concrete_args=vars(module).get("concrete_args"))
    assert not diagnosis.problems
    found = {problem.code for problem in diagnosis.silent}
    assert found == ({block.code} if block.code else set())


@pytest.mark.parametrize("block", SILENT, ids=lambda block: block.name)
def test_a_silent_error_makes_the_graph_of_torch_fx_wrong_and_a_mended_one_does_not(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = block.shows or (block.after.shows if block.after else "")
    module = load(block, monkeypatch)
    namespace = {**vars(module), "torch": torch}
    exec(shows, namespace)
    assert namespace["wrong"] is (block.code is not None)


@pytest.fixture(scope="module")
def found_in_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The codes that the command line finds in the blocks that are files, by their names."""
    folder = tmp_path_factory.mktemp("pages")
    for block in FILES:
        project = folder / block.name
        project.mkdir()
        python, toml = (block.text, "") if block.language == "python" else (NET, block.text)
        (project / "net.py").write_text(python, encoding="utf-8")
        (project / "pyproject.toml").write_text(toml, encoding="utf-8")
    command = [sys.executable, "-m", "fxls", "check", "--format", "json", "--timeout", "5", "--python", sys.executable]
    done = subprocess.run([*command, folder], check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    found: dict[str, set[str]] = {block.name: set() for block in FILES}
    for problem in json.loads(done.stdout)["problems"]:
        found[Path(problem["path"]).parent.name].add(problem["code"])
    return found


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.name)
def test_a_file_has_the_problem_of_its_page_and_a_mended_one_has_none(
    block: Block, found_in_files: dict[str, set[str]]
) -> None:
    assert found_in_files[block.name] == ({block.code} if block.code else set())
