"""The pages that explain the codes. They are shipped with the program, so that they open without a network."""

from pathlib import Path
from typing import Final

import fxls

_PACKAGE: Final = Path(fxls.__file__).parent
_INSTALLED: Final = _PACKAGE / "docs" / "rules"
_CHECKOUT: Final = _PACKAGE.parent / "docs" / "rules"
PAGES: Final = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
"""The folder of the pages: inside an installed package, in the repository for a checkout."""


def rule_page(code: str) -> str:
    """Return the address of the page that explains a code, as a URI that an editor opens."""
    return (PAGES / f"{code}.md").as_uri()


def rule_text(code: str) -> str:
    """Return the page that explains a code, as Markdown."""
    return (PAGES / f"{code}.md").read_text("utf-8")
