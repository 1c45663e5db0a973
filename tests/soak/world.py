"""A workspace of model files, and the edits that a person, or a cat on the keyboard, makes in them."""

import ast
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

MODEL = """\
import torch
from torch import nn
{imports}

class Net{number}(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = {second}

    def forward(self, x):
        x = self.first(x)
        if x.sum() > 1000:
            x = -x
        return self.second(x)
"""

NOISY = {
    "prints.py": "print('{\"id\": 1}\\n' * 50)\n",
    "exits.py": "import os\nfrom torch import nn\n\n\nclass Gone(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        os._exit(3)\n\n    def forward(self, x):\n        return x\n",
    "raises.py": "from torch import nn\n\n\nclass Bad(nn.Module):\n    def forward(self, x):\n"
    "        raise ValueError(x)\n",
    "empty.py": "",
    "broken.py": "class Net(nn.Module:\n    def forward(self\n",
    "emoji.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
    "        é = '😀'; return x if x.max() > 7 else é\n",
}

THRESHOLD = re.compile(r"(?<=x\.sum\(\) > )\d+")

SNIPPETS = (
    "        x = x * 2\n",
    "        if x.mean() > 0.5:\n            x = x + 1\n",
    "        # a comment\n",
    "        for part in x:\n            x = x + part\n",
    "        x = x[: x.shape[0] // 2]\n",
    "\n",
)


@dataclass(slots=True)
class File:
    """One document: every text that it had, by version, and whether the editor has it open.

    Attributes:
        path: Where it is on disk.
        first: What it begins with.
        texts: The texts by version; those of before it was last opened are gone.
        is_open: Whether the editor shows it.
    """

    path: Path
    first: str
    texts: dict[int, str] = field(default_factory=dict)
    is_open: bool = False
    version: int = 0

    @property
    def uri(self) -> str:
        """Its name in the protocol."""
        return self.path.as_uri()

    @property
    def text(self) -> str:
        """The text as the editor has it."""
        return self.texts[self.version]

    def open(self) -> None:
        """Begin again with what is on disk; versions go on, so that no two texts share a number."""
        self.version += 1
        self.texts[self.version] = self.path.read_text("utf-8")
        self.is_open = True

    def edit(self, chance: random.Random) -> list[dict[str, Any]]:
        """Change the text; return the changes as the protocol has them."""
        text = self.text
        kind = chance.random()
        if kind < (0.05 if _parses(text) else 0.4):
            changes, new = [{"text": self.first}], self.first
        elif kind < 0.35 and (found := THRESHOLD.search(text)):
            new, changes = _replaced(text, found.start(), found.end(), str(chance.randrange(10, 99_999)))
        elif kind < 0.6 and (lines := [m.start() for m in re.finditer(r"^        return", text, re.MULTILINE)]):
            at = chance.choice(lines)
            new, changes = _replaced(text, at, at, chance.choice(SNIPPETS))
        elif kind < 0.8:
            at = chance.randint(0, len(text))
            new, changes = _replaced(text, at, at, chance.choice(("x", " ", "\n", "(", '"', "😀", "self.", "# ")))
        else:
            at = chance.randint(0, len(text))
            new, changes = _replaced(text, at, min(len(text), at + chance.randint(1, 12)), "")
        self.version += 1
        self.texts[self.version] = new
        return changes


def make(folder: Path, files: int) -> list[File]:
    """Write a workspace of so many files: the examples, files that do harm, and models that import one another."""
    texts = {path.name: path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.py"))} | NOISY
    number = 0
    while len(texts) < files:
        imports = f"from net{number - 1} import Net{number - 1}\n" if number % 2 else ""
        second = f"Net{number - 1}()" if number % 2 else "nn.Linear(width, width)"
        texts[f"net{number}.py"] = MODEL.format(imports=imports, number=number, second=second)
        number += 1
    made = []
    for name, text in list(texts.items())[:files]:
        (folder / name).write_text(text, "utf-8")
        made.append(File(folder / name, text))
    return made


def position(text: str, offset: int) -> dict[str, int]:
    """Return the protocol's position of an offset: lines from 0, columns in UTF-16 code units."""
    before = text[:offset]
    line = before.count("\n")
    rest = before[before.rfind("\n") + 1 :]
    return {"line": line, "character": len(rest.encode("utf-16-le")) // 2}


def between(text: str, range_: dict[str, dict[str, int]]) -> str | None:
    """Return what lies in a range of the protocol, or None if the text has no such range."""
    lines = text.split("\n")
    offsets = []
    for place in (range_["start"], range_["end"]):
        if not 0 <= place["line"] < len(lines):
            return None
        line = lines[place["line"]].encode("utf-16-le")
        if not 0 <= 2 * place["character"] <= len(line):
            return None
        start = sum(len(each) + 1 for each in lines[: place["line"]])
        offsets.append(start + len(line[: 2 * place["character"]].decode("utf-16-le", "replace")))
    return text[offsets[0] : offsets[1]] if offsets[0] <= offsets[1] else None


def _parses(text: str) -> bool:
    """Whether the text is Python: somebody who has broken a file mends it before long."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _replaced(text: str, start: int, end: int, new: str) -> tuple[str, list[dict[str, Any]]]:
    change = {"range": {"start": position(text, start), "end": position(text, end)}, "text": new}
    return text[:start] + new + text[end:], [change]
