"""What docstrings say of parameters: `width (int): …`, `width : int`, `:param int width: …`.

It counts where the code itself does not say what a value is. Defaults that are told in words are not read.
"""

import inspect
import re
from typing import Any, Final

from torch import nn

from fxworker.evidence import Kind, Usage, Use

_GOOGLE: Final = re.compile(
    r"^[ \t]*`*\*{0,2}(\w+)`*[ \t]*\(([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)[ \t]*:(.*)$", re.MULTILINE
)
_NUMPY: Final = re.compile(r"^[ \t]*`*(\w+)`*[ \t]*:[ \t]*([A-Za-z{\[`][^\n]*)$((?:\n[ \t]+[^\n]+)?)", re.MULTILINE)
_SPHINX: Final = re.compile(r":param[ \t]+([\w.\[\]]+)[ \t]+(\w+)[ \t]*:(.*)$", re.MULTILINE)
_TYPED: Final = re.compile(r":type[ \t]+(\w+)[ \t]*:()(.*)$", re.MULTILINE)
_SPHINX_IN_WORDS: Final = re.compile(r":param[ \t]+(\w+)[ \t]*:[ \t]*\(([^()\n]*)\)(.*)$", re.MULTILINE)

_SAID: Final[tuple[tuple[str, Kind], ...]] = (
    (r"(list|tuple|sequence|iterable|array of|\[).*", "sequence"),
    (r"(ordered)?dict(ionary)?\b.*|mapping\b.*", "mapping"),
    (r"(torch\.)?(\w*tensor)\b.*", "tensor"),
    (r"bool(ean)?\b.*", "flag"),
    (r"(int|integer|float|number|scalar)\b(?!.*\b(list|tuple|sequence)).*", "number"),
    (r"str(ing)?\b.*|\{['\"].*", "string"),
    (r"callable\b.*|function\b.*|(torch\.)?(nn\.)?module\b.*", "callable"),
)
_KINDS: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _SAID
)
_TEXT: Final = re.compile(r"""[`'"]{1,2}['"]?([A-Za-z][\w\-]*)['"]?[`'"]{1,2}""")
_MOST: Final = 4
"""How many values that the words name are thought of."""

_SILENT: Final = frozenset({None, "flag"})
"""What code says that says hardly anything."""


def note_documented(cls: Any, usage: Usage) -> None:
    """Add to what a constructor says about its parameters what the docstrings say of those that it is silent about."""
    lineage = cls.__mro__ if isinstance(cls, type) else (cls,)
    for each in lineage:
        if each in {nn.Module, object}:
            break
        for text in (
            inspect.getattr_static(each, "__doc__", None),
            getattr(vars(each).get("__init__"), "__doc__", None),
        ):
            _note(text, usage)


def _note(text: object, usage: Usage) -> None:
    if not isinstance(text, str):
        return
    found = [(match[1], match[2], match[3]) for pattern in (_GOOGLE, _NUMPY) for match in pattern.finditer(text)]
    found += [(match[2], match[1], match[3]) for match in _SPHINX.finditer(text)]
    found += [(match[1], match[2], match[3]) for match in _SPHINX_IN_WORDS.finditer(text)]
    found += [(match[1], match[3], "") for match in _TYPED.finditer(text)]
    for name, said, words in found:
        kind = _kind_in(said.strip(" `:*~"))
        use = usage.setdefault(name, Use()) if kind is not None else None
        if kind is None or use is None or use.kind not in _SILENT:
            continue
        use.note(kind)
        if kind == "string" and not use.literals:
            use.literals += [repr(each) for each in dict.fromkeys(_TEXT.findall(f"{said} {words}"))][:_MOST]


def _kind_in(said: str) -> Kind | None:
    """Return the kind that the words for a type mean, None for other words."""
    for pattern, kind in _KINDS:
        if pattern.fullmatch(said):
            return kind
    return None
