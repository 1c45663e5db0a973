"""What may mend the arguments that a constructor refuses.

First comes what an error asks for, then the next proposals for the places that the error, or the line that raised it,
speaks of.
"""

import re
import sys
import typing
from collections.abc import Iterable, Iterator
from typing import Final

from torch import nn

from fxengine.errors import text_of
from fxengine.inputs import disagreements_told
from fxworker.changing import length_of, name_of
from fxworker.choices import (
    Choice,
    Group,
    Value,
    joined,
    literal,
    owner_of,
    required_parameters,
    taking_several,
)
from fxworker.complaints import Complaint, complaint_of
from fxworker.completing import Completing, makes
from fxworker.conventions import FILE, is_configuration
from fxworker.evidence import Kind
from fxworker.likeness import all_alike
from fxworker.stock import fits
from fxworker.tracebacks import handled_in
from fxworker.variations import (
    as_tuple,
    called,
    enlarged,
    holds_made_up,
    nested,
    of_length,
    of_length_within,
    pieces,
    rekeyed,
    rising,
    twin,
    type_name,
    whole,
    with_items,
    with_sizes,
)

_USUAL_SIZE: Final = 64
"""How large sizes mostly are."""

_ASKED: Final = 0.6
_UNSET: Final = 0.2
"""What it costs to give a value that an error asks for, and one for what is not given and may not be left out."""
_HANDLED: Final = 0.3
"""What it costs more to mend what was raised first, where code raised another error for it."""
_READING: Final = 0.3
"""What it costs to make something else where a file was not there."""
_NUMBERS: Final = "[64, 64]"
_MODULES: Final = tuple(f"[{each}, {each}]" for each in ("torch.nn.Linear(64, 64)", "torch.nn.Identity()"))
"""What a constructor may take any number of."""
_SEVERAL: Final = 2
"""How many a constructor is given that may take any number."""
_OF_NUMBERS: Final = re.compile(r"(\w+_)?(dims?|sizes?|shape|axes|channels|features|widths|order)")
"""What several numbers are called."""
_PLENTY: Final = "512"
"""A number that others can be taken away from."""
_OF_PICTURES: Final = re.compile(
    r"((\w+_)?(img|image|input|in|obs|observation|state|pic(ture)?|frame|crop|spatial)_?)?"
    r"(sizes?|shape|dims?|res(olution)?|height|width|hw?|w)"
)
"""What the sides of a picture are called, or its shape."""
_SIDE: Final = re.compile(r"(\w+_)?(height|width|h|w)")
"""What one of the two sides of a picture is called, after what the picture is."""
_OF_TYPE: Final[dict[str, Kind]] = {"str": "string", "int": "number", "float": "number"}


class Mending(Completing):
    """The ways to go on from a choice of arguments that was refused. Mutable: it keeps what is proposed for a place."""

    def after(self, choice: Choice, error: BaseException | None) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices that may mend an error, each with what it costs.

        First come those that the error asks for, then those that change a place which the error, or the line that
        raised it, names; it may be a parameter that has a default.
        """
        if error is None:
            return
        complaint = complaint_of(error)
        if complaint.missing or complaint.unexpected:
            yield from self._called_rightly(choice, complaint)
        yield from self._prefixed(choice, complaint)
        yield from self._with_several(choice)
        if type(error) is RuntimeError:
            yield from self._resized(choice, disagreements_told(text_of(error)), self._blamed(choice, complaint))
        yield from self._mended(choice, error, complaint)
        for step, changed in self.after(choice, handled_in(error)):
            yield step + _HANDLED, changed

    def begun(self) -> list[dict[str, Value]]:
        """Return the choices to begin with: what takes any number of things does little without any."""
        first = self.first()
        return [*(changed for _, changed in self._with_several(first)), first]

    def _with_several(self, choice: Choice) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with several things for a constructor that takes any number of them, and was given nothing."""
        several = taking_several(self._root.cls) if set(choice) == {""} else None
        if several is None:
            return
        is_counted = several.annotation in {int, float} or _OF_NUMBERS.fullmatch(several.name) is not None
        kinds = (_NUMBERS, *_MODULES) if is_counted else (*_MODULES, _NUMBERS)
        hint = self._proposals.slot(choice, several.name).hint
        is_told = hint is not nn.Module and isinstance(hint, type) and issubclass(hint, nn.Module)
        told = [Group("list", cls=hint, size=_SEVERAL)] if is_told and self._proposals.instances_of(hint) else []
        for step, each in enumerate(told or kinds):
            yield 0.3 + 0.2 * step, self._with(choice, several.name, each)

    def _resized(
        self, choice: Choice, sizes: Iterable[tuple[int, int]], blamed: list[str]
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with other numbers, where one was a size that did not agree with another, or in proportion."""
        for rank, (got, wanted) in enumerate(sizes):
            for path in dict.fromkeys([*blamed, *(each for each in choice if each)]):
                now = choice.get(path) or repr(self._proposals.slot(choice, path).default)
                unasked = 0.0 if path in blamed else 0.3
                for step, value in enumerate(with_sizes(now, got, wanted)):
                    yield from self._changed(choice, path, value, 0.1 + 0.1 * rank + unasked + 0.2 * step)

    def _enlarged(
        self, choice: Choice, blamed: list[str], complaint: Complaint
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with a larger number, or a larger picture be it by default, where there was too little."""
        numbers = [each for each in blamed if fits("number", choice.get(each, ""))] if complaint.short else []
        for rank, path in enumerate(numbers):
            yield from self._changed(choice, path, _PLENTY, 0.2 + 0.1 * rank)
        yield from self._lengthened(choice) if complaint.short else ()
        # A size that is negative by default stands for one that has to be given.
        unset = [each for each in blamed if complaint.short and each not in choice and self._is_unset(choice, each)]
        for rank, path in enumerate(unset):
            sizes = [each for each in self._proposed(choice, path) if _is_size(each)]
            for step, value in enumerate(sizes[:2]):
                yield from self._changed(choice, path, value, 0.1 + 0.1 * rank + 0.1 * step)
        if not complaint.small:
            return
        optional = [joined("", each) for each in self._proposals.optional(choice, "")]
        places = [each for each in dict.fromkeys([*choice, *optional]) if _OF_PICTURES.fullmatch(owner_of(each)[1])]
        for rank, path in enumerate(places):
            now = choice.get(path) or repr(self._proposals.slot(choice, path).default)
            others = [each for each in places if each in choice and _are_sides_of_one(path, each)]
            for step, value in enumerate(enlarged(now)):
                cost = 0.3 + 0.1 * rank + 0.2 * step
                if others:
                    together = self._everywhere(choice, path, value)
                    for each in others:
                        together = self._everywhere(together, each, value)
                    yield cost - 0.05, together
                yield from self._changed(choice, path, value, cost)

    def _renamed(
        self, choice: Choice, blamed: list[str], complaint: Complaint
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with other pieces of a name that a module has no member of."""
        for rank, path in enumerate(blamed if complaint.named else ()):
            now = choice.get(path) or repr(self._proposals.slot(choice, path).default)
            for step, value in enumerate(pieces(now, complaint.named, complaint.members)):
                yield from self._changed(choice, path, value, 0.1 + 0.1 * rank + 0.1 * step)

    def _is_unset(self, choice: Choice, path: str) -> bool:
        """Whether the default of a parameter is a size that nothing has."""
        default = self._proposals.slot(choice, path).default
        return isinstance(default, int) and default < 0

    def _mended(
        self, choice: Choice, error: BaseException, complaint: Complaint
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with other values, first where an error, or the line that raised it, speaks of."""
        yield from self._with_field(choice, complaint) if complaint.lacks else ()
        yield from self._handing_on(choice, complaint)
        yield from self._giving(choice, complaint)
        # What lacks something may be an entry of a table.
        choice = _opened(choice) if complaint.lacks and complaint.owner is None else choice
        blamed = self._blamed(choice, complaint)
        yield from self._at_once(choice, error, blamed, complaint)
        yield from self._renamed(choice, blamed, complaint)
        yield from self._enlarged(choice, blamed, complaint)
        yield from self._with_items(choice, blamed, complaint)
        yield from self._told_apart(choice, blamed, error)
        is_counted = "len" in complaint.words and not complaint.length
        if isinstance(error, AssertionError | ValueError | IndexError) and is_counted:
            yield from self._of_one_length(choice, blamed)
        if isinstance(error, AssertionError | ValueError | IndexError):
            yield from self._as_many(choice, blamed)
            yield from self._of_one_item(choice)
        others = [each for each in choice if each and each not in blamed]
        for rank, path in enumerate([*blamed, *others]):
            if all_alike(choice, path)[0] != path:
                continue  # What stands there is changed with the first item.
            # What gave an object that lacks something is to blame for sure.
            is_meant = choice.get(path) in complaint.kept or path == complaint.at
            unasked = 0.2 if is_meant else 1.0 if path in blamed else 3.0
            if isinstance(error, FileNotFoundError) and any(
                makes(choice.get(path, ""), cls) for cls in complaint.within
            ):
                unasked = _READING  # Another class may read no file.
            asked = self._asked(choice, path, complaint) if path in blamed else []
            is_unset = complaint.got == "NoneType" and self._is_nothing(choice, path) and not complaint.at
            now = choice.get(path)
            is_sure = is_unset or path == complaint.at or _is_base(now, complaint.records)
            wanted = _UNSET if is_sure else _ASKED
            for step, value in enumerate(asked):
                yield from self._changed(choice, path, value, wanted + 0.1 * rank + 0.2 * step)
            proposals = self._proposed(choice, path)
            start = proposals.index(now) + 1 if now in proposals else 0
            following = [each for each in proposals[start : start + 5] if each not in asked]
            # An error of type asks for another kind of value, not for the next of the same kind.
            width = 0.1 if isinstance(error, TypeError) else 1.0
            for step, value in enumerate(following):
                yield from self._changed(choice, path, value, unasked + 0.1 * rank + width * step)

    def larger(self, choice: Choice) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices in which a number is as large as a size mostly is."""
        for rank, (path, value) in enumerate(choice.items()):
            number = literal(value) if path and isinstance(value, str) else None
            if type(number) is int and 0 < number < _USUAL_SIZE:
                yield from self._changed(choice, path, str(_USUAL_SIZE), 0.1 * rank)

    def _blamed(self, choice: Choice, complaint: Complaint) -> list[str]:
        """Return the places that an error speaks of, those first whose value is of the type that it complains about."""
        places: dict[str, list[str]] = {}
        groups = [path for path, each in choice.items() if isinstance(each, Group)]
        for path in choice:
            places.setdefault(name_of(path), []).append(path)
        for path in groups:
            for name in self._proposals.optional(choice, path):
                inner = joined(path, name)
                if inner not in choice:
                    places.setdefault(name, []).append(inner)
        # What was looked up somewhere in vain, or gave what lacks something, then what is named.
        looked_up = {*complaint.kept, *([repr(complaint.lacks)] if complaint.lacks else ())}
        named = [path for path in choice if path and path == complaint.at]
        named += [path for path, each in choice.items() if isinstance(each, str) and each in looked_up]
        named += [path for path, each in choice.items() if complaint.lacks and holds_made_up(each, complaint.lacks)]
        named += [path for word in dict.fromkeys(complaint.words) for path in places.get(word, ()) if path]
        suspects = [path for path in choice if path and complaint.got and _may_be(choice[path], complaint.got)]
        if complaint.got == "NoneType":
            # What is not given is None by default.
            suspects += [path for path in named if self._is_nothing(choice, path)]
        if nn.Module in complaint.classes:
            # What is a class by default may have been meant to be an instance of it.
            left_out = (path for several in places.values() for path in several if path not in choice)
            suspects += [path for path in left_out if _is_layer(self._proposals.slot(choice, path).default)]
        if complaint.got or suspects:
            named.sort(key=lambda path: path not in suspects)
            return list(dict.fromkeys([*named, *suspects]))
        return list(dict.fromkeys(named))

    def _asked(self, choice: Choice, path: str, complaint: Complaint) -> list[Value]:
        """Return the values for a place that an error asks for."""
        slot = self._proposals.slot(choice, path)
        now = choice.get(path)
        if typing.get_origin(slot.hint) is typing.Literal:
            # Nothing else will do.
            allowed = map(repr, typing.get_args(slot.hint))
            return [each for each in allowed if each not in {now, repr(slot.default)}]
        found: list[Value] = [
            *whole(now, complaint),
            *rising(now, complaint),
            *twin(now, complaint),
            *nested(now, complaint),
            *called(now, complaint),
        ]
        if now is None and nn.Module in complaint.classes and _is_layer(slot.default):
            # A class by default, where an instance of it is wanted.
            found.append(f"torch.nn.{slot.default.__name__}()")
        if complaint.got == "NoneType" and self._is_nothing(choice, path):
            # The default will not do: what the annotation says will.
            found += self._proposed(choice, path)[:2]
        classes = (*complaint.classes, *complaint.records)
        # What it is one of already was asked for besides something else.
        is_one = now is not None and type_name(now) in {each.__name__ for each in classes}
        classes = () if is_one and complaint.kind is not None else classes
        known = [value for cls in classes for value in self._proposals.instances_of(cls)]
        # What an object holds that is not liked, it may do without, if it can be no other of the kind.
        is_held = isinstance(now, Group) and "." in path and complaint.got == type_name(now)
        found += [*known, "None"] if is_held and _is_base(now, classes) else ["None", *known] if is_held else known
        if complaint.length:
            # What is so long already has items that are not.
            inner, outer = of_length_within(now, complaint.length), of_length(now, complaint.length)
            found += [*inner, *outer] if length_of(now) in {complaint.length, sys.maxsize} else [*outer, *inner]
        is_meant = _may_be(now, complaint.got) if now is not None else complaint.got == slot.usual_type
        is_other = complaint.got and not is_meant
        if complaint.kind is not None and not (is_other and (now is not None or slot.usual_type)):
            of_kind = self._proposals.for_kind(complaint.kind, slot, choice)[:6]
            if complaint.kind == "sequence" and is_configuration(slot.name):
                # What something is looked for in may be a mapping, too.
                of_kind.insert(0, Group("mapping"))
            found += [as_tuple(each) if complaint.is_of_tuple else each for each in of_kind]
        kind = slot.kind or ("string" if isinstance(now, str) and fits("string", now) else None)
        if now is not None and complaint.kind == "string" and complaint.got == type_name(now):
            kind = None  # It is no such thing after all.
        found += rekeyed(now, complaint.values)
        # A text or a number by default may be one in any case, whatever else is made of it.
        said = [each for each in complaint.values if fits(kind, each) or kind in {"flag", None} or now == FILE]
        found += said or [each for each in complaint.values if fits(_OF_TYPE.get(slot.usual_type, "flag"), each)]
        # What would do for one thing does for each of several, unless it is said how many these are.
        values = complaint.values if "len" not in complaint.words else ()
        found += [several for each in values for several in with_items(now, each)]
        return [each for each in dict.fromkeys(found) if each != now]


def _opened(choice: Choice) -> dict[str, Value]:
    """Return a choice in which tables that are written out are groups: each entry is a place of its own."""
    found: dict[str, Value] = {}
    for path, each in choice.items():
        table = literal(each) if path and isinstance(each, str) and each.startswith("{") else None
        is_named = isinstance(table, dict) and all(isinstance(key, str) and key.isidentifier() for key in table)
        if isinstance(table, dict) and table and is_named:
            found |= {path: Group("mapping"), **{joined(path, key): repr(value) for key, value in table.items()}}
        else:
            found[path] = each
    return found


def _is_layer(value: object) -> bool:
    """Whether a value is one of torch's classes of layers that need no arguments."""
    is_torchs = isinstance(value, type) and issubclass(value, nn.Module) and vars(nn).get(value.__name__) is value
    return is_torchs and not required_parameters(value)


def _is_size(value: Value) -> bool:
    """Whether an expression is a number of which there are several."""
    found = literal(value) if isinstance(value, str) else None
    return type(found) is int and found > 1


def _may_be(value: Value, got: str) -> bool:
    """Whether an expression has a type, or makes something of it where it is called."""
    return type_name(value) == got or (isinstance(value, str) and value == f"torch.nn.{got}")


def _is_base(value: Value | None, classes: Iterable[type]) -> bool:
    """Whether a value is a call of a class that one of some others inherits from."""
    base = value.cls if isinstance(value, Group) and value.style == "call" else None
    return isinstance(base, type) and any(base in each.__mro__[1:] for each in classes)


def _are_sides_of_one(path: str, other: str) -> bool:
    """Whether two places are the height and the width of one picture."""
    (around, name), (beside, another) = owner_of(path), owner_of(other)
    one, two = _SIDE.fullmatch(name), _SIDE.fullmatch(another)
    return one is not None and two is not None and (around, one[1]) == (beside, two[1]) and name != another
