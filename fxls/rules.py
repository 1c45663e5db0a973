"""The codes of problems, and the pages that explain them.

The pages are shipped with the program, so that they open without a network; which codes there are is read off them.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import fxls

_PACKAGE: Final = Path(fxls.__file__).parent
_INSTALLED: Final = _PACKAGE / "docs" / "rules"
_CHECKOUT: Final = _PACKAGE.parent / "docs" / "rules"
PAGES: Final = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
"""The folder of the pages: inside an installed package, in the repository for a checkout."""

CODES: Final = frozenset(page.stem for page in PAGES.glob("FX*.md"))

UNUSED_IGNORE: Final = "FX106"
"""The code of a comment that ignores nothing. It is the server that reports it."""

CONFIGURATION: Final = "FX107"
"""The code of a mistake in a project's `[tool.fxls]`. It is the server that reports it."""

UNFIT: Final = "FX201"
"""The code of shapes that do not fit."""

_STOPS: Final = re.compile(r"FX00\d")
_SELECTOR: Final = re.compile(r"FX\d{0,3}")


@cache
def rule_page(code: str) -> str:
    """Return the address of the page that explains a code, as a URI that an editor opens."""
    return (PAGES / f"{code}.md").as_uri()


def rule_text(code: str) -> str:
    """Return the page that explains a code, as Markdown."""
    return (PAGES / f"{code}.md").read_text("utf-8")


def stops_torch_fx(code: str) -> bool:
    """Whether a code is of what torch.fx raises for."""
    return _STOPS.fullmatch(code) is not None


def selects_something(selector: str) -> bool:
    """Whether a selector is a code or the beginning of one: `FX301`, `FX3`, `FX`."""
    return _SELECTOR.fullmatch(selector) is not None and any(code.startswith(selector) for code in CODES)


def closest(code: str, selectors: Iterable[str]) -> str | None:
    """Return the selector that says most exactly that it means a code, None where none does."""
    return max((each for each in selectors if code.startswith(each)), key=len, default=None)
