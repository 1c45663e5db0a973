"""A place for a value, with what is known of it, and which of the values that one would think of go there.

Where values come from is not known here (`proposing`).
"""

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import nn

from fxworker.choices import Group, Value, is_number, literal, owner_of, written_tuple
from fxworker.conventions import is_configuration, is_table_called, usual_values
from fxworker.evidence import Kind, Use
from fxworker.examples import FEW
from fxworker.hints import MAPPINGS, PLAIN, is_of
from fxworker.stock import OF_KIND, fits, is_other_literal

_NAME: Final = re.compile(r"name|key|id|label|.*_name")
_EMBEDDED: Final = "num_embeddings"
"""What torch calls how many things have a vector."""
_WIDE: Final = frozenset({"in_features", "embedding_dim", "embed_dim", "num_features"})
"""What torch calls how long vectors are that enter something."""
_WIDTHS: Final = ("64", "8", "4")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value: a parameter or a field, with what is known of it.

    `nested` says that its items are lists, `gives` what comes out of it where it is called, `letters` what its items
    are compared with, and `each` into how many variables they are unpacked.
    """

    path: str
    name: str
    hint: Any
    default: Any
    use: Use
    fields: tuple[str, ...]
    nested: bool = False
    gives: Kind | None = None
    letters: tuple[str, ...] = ()
    each: int = 0

    @property
    def kind(self) -> Kind | None:
        """What its value must be, as far as the constructor shows: what is gone over may be a mapping."""
        if self.use.kind == "sequence" and self.hint is str:
            return "string"
        if self.use.kind in {"sequence", "mapping"} and self.hint in {int, float}:
            # Some layers take a size as well as several, or a table of them.
            return "number"
        if self.use.kind is None and self.hint in (typing.Callable, Callable):
            return "callable"
        is_mapping = self.use.kind == "sequence" and (
            self.hint is dict or typing.get_origin(self.hint) in MAPPINGS or is_table_called(self.name)
        )
        return "mapping" if is_mapping else self.use.kind

    @property
    def probable_kind(self) -> Kind | None:
        """What it is by what is done with it, and a flag where nobody can tell and it is one by default."""
        return self.kind or ("flag" if isinstance(self.default, bool) else None)

    @property
    def is_called(self) -> bool:
        """Whether it may be a function."""
        return self.kind in {"callable", "class", None}

    @property
    def usual_type(self) -> str:
        """The name of its default's type, "" where it has none that says anything."""
        is_nothing = self.default is None or self.default is inspect.Parameter.empty
        return "" if is_nothing else type(self.default).__name__


def as_used(known: tuple[str, ...], slot: Slot) -> tuple[str, ...]:
    """Return what values of a name usually are, as far as what is done with them, and their annotation, allow."""
    use = slot.use
    if isinstance(slot.hint, type) and issubclass(slot.hint, nn.Module):
        return tuple(each for each in known if literal(each) is NotImplemented)
    if use.count or use.least:
        one, has_length = known[:1], tuple(each for each in known if _has_length(each, use))
        # Of a small number there are as many as are wanted.
        is_small = one != _WIDTHS[:1] and any(map(is_number, one))
        known = has_length or ((written_tuple(one * (use.count or use.least)),) if is_small else ())
    if known[:1] == FEW[:1] and not use.counts:
        # So many things are told apart by vectors, or so long is one, however few one would think of by the name.
        known = usual_values(_EMBEDDED) if _EMBEDDED in use.names else known
        known = known if _WIDE.isdisjoint(use.names) else _WIDTHS
    if use.counts and known and known[0] not in FEW:
        # So many parts are made, however it is called.
        known = (*FEW, *known)
    return known


def length_of_items(expression: str) -> int:
    """Return how many items each item of a list has that is written out, 0 where they differ or have no length."""
    found = literal(expression)
    lengths = {len(each) if isinstance(each, list | tuple) else 0 for each in found} if found else set[int]()
    return lengths.pop() if len(lengths) == 1 else 0


def one_for_all(slot: Slot, known: Sequence[str]) -> Sequence[Value]:
    """Return the number that may stand for several, where it is asked whether there is only one."""
    return [*filter(is_number, known), *OF_KIND["number"]][: slot.use.numeric]


def is_other(value: Value, slot: Slot, known: Sequence[str]) -> bool:
    """Whether a value is a literal of another kind than a place must hold."""
    kind = slot.kind
    return kind is not None and is_other_literal(value, kind) and value not in one_for_all(slot, known)


def parted(said: Sequence[Value], known: Sequence[str], around: Sequence[Any]) -> tuple[list[Value], list[Value]]:
    """Return what the code says of a place without what comes last, and that.

    That there are none of what is counted is a special case, and hardly anything is made of its own kind.

    Args:
        said: What the code says.
        known: What values of the name usually are.
        around: What is called around it.
    """
    is_counted = any(map(is_number, known))
    last: list[Value] = [
        each
        for each in said
        if (isinstance(each, Group) and each.style == "call" and each.cls in around) or (each == "0" and is_counted)
    ]
    return [each for each in said if each not in last], last


def may_hold(slot: Slot, expression: str) -> bool:
    """Whether a literal may be in a place, by what is known of it there and by its annotation."""
    if slot.hint in PLAIN and not is_of(expression, slot.hint):
        return slot.hint is float and is_of(expression, int)
    return slot.kind == "flag" or fits(slot.kind, expression)


def told_apart(path: str, slot: Slot) -> Iterator[Value]:
    """Yield a name for an item of a list that has names."""
    item = re.search(r"\.(\d+)\.[^.]+$", path)
    if item is not None and _NAME.fullmatch(slot.name) and slot.hint in {str, inspect.Parameter.empty}:
        yield repr(f"{slot.name}{item[1]}")


def is_section(path: str, slot: Slot) -> bool:
    """Whether a value is a part of a configuration, of which data is read alone: `config.encoder.width`."""
    around = owner_of(path)[0]
    is_inside = any(is_configuration(each) for each in around.split("."))
    is_data = slot.use.kinds.keys() <= {"object", "flag"} and not any(hasattr(nn.Module, each) for each in slot.fields)
    return is_inside and slot.kind == "object" and bool(slot.fields) and is_data


def _has_length(expression: str, use: Use) -> bool:
    """Whether an expression is a sequence, or a table, with as many items as are taken from it."""
    found = literal(expression)
    return isinstance(found, list | tuple | dict) and len(found) >= use.least and use.count in {0, len(found)}
