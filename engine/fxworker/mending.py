"""What may mend the arguments that a constructor refuses.

First comes what an error asks for, then the next proposals for the places that the error, or the line that raised it,
speaks of.
"""

import inspect
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from torch import nn

from fxengine.errors import text_of
from fxengine.inputs import disagreements_told
from fxworker.changing import length_of, name_of
from fxworker.choices import (
    OPTIONS,
    Choice,
    Group,
    Value,
    attribute_of,
    fields_in,
    joined,
    literal,
    owner_of,
    parameters_of,
    required_parameters,
    taking_several,
    without,
)
from fxworker.complaints import Complaint, complaint_of
from fxworker.conventions import FILE, is_configuration
from fxworker.evidence import Kind
from fxworker.likeness import all_alike
from fxworker.stock import any_call, fits
from fxworker.together import Together
from fxworker.tracebacks import handled_in
from fxworker.variations import (
    as_tuple,
    called,
    enlarged,
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
    with_key,
    with_sizes,
)

_USUAL_SIZE: Final = 64
"""How large sizes mostly are."""

_ASKED: Final = 0.6
_UNSET: Final = 0.2
"""What it costs to give a value that an error asks for, and one for what is not given and may not be left out."""
_HANDLED: Final = 0.3
"""What it costs more to mend what was raised first, where code raised another error for it."""
_ELSEWHERE: Final = 0.2
"""What it costs more to add what is missing to something that is less like what lacked it."""
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
_PREFIX: Final = re.compile(r"(\w+?_)(?:kw|kwargs|args|arguments|opts?|options|params|parameters|cfg|config)")
"""What a mapping is called of the arguments of one part."""
_TAKING_ANYTHING: Final = re.compile(r"type\('Module', \(torch\.nn\.Identity,\), \{'forward': (lambda .*)\}\)\(\)")
"""How modules are written that stand in for others."""
_OF_TYPE: Final[dict[str, Kind]] = {"str": "string", "int": "number", "float": "number"}


class Mending(Together):
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
        if complaint.lacks:
            yield from self._with_field(choice, complaint)
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
                _makes(choice.get(path, ""), cls) for cls in complaint.within
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

    def _called_rightly(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with the arguments that a constructor misses, or without the one that it does not know."""
        choice = _with_groups(choice)
        called = [
            path for path, each in choice.items() if isinstance(each, Group) and _is_called(each, complaint.callee)
        ]
        # A constructor may hand on what it does not know itself to one that misses it.
        passing = [path for cls in complaint.within for path, each in choice.items() if path and _makes(each, cls)]
        mappings = [path for path, each in choice.items() if isinstance(each, Group) and each.style == "mapping"]
        spread = [path for path in mappings if path.rpartition(".")[2] in complaint.spread]
        if complaint.spread and not spread:
            # It has another name where it is handed on; what has no entries yet was of no use so far.
            spread = sorted(mappings, key=lambda each: _rank(owner_of(each)[1], complaint.words))
            spread.sort(key=lambda each: bool(fields_in(choice, each)))
        # That which it was handed on from comes first, then one that says by its name what is made of it.
        named = [each for each in mappings if each == complaint.place]
        named += [each for each in mappings if _names(choice, each, complaint.callee)]
        yield from self._filled(choice, called, complaint.missing)
        for rank, path in enumerate(dict.fromkeys((*named, *spread, *called, *passing, ""))):
            changed = dict(choice)
            for name in complaint.missing:
                inner = joined(path, name)
                if inner not in changed:
                    # A constructor of `**kwargs` says only now what it wants.
                    changed = self._with(changed, inner, self._proposed(changed, inner)[0])
            if complaint.unexpected:
                changed = without(changed, joined(path, complaint.unexpected))
            yield 0.5 * rank, changed
        # What is handed on as `**enc_kwargs` may be taken as `enc_dim`, for each part of a model its own.
        for prefix in dict.fromkeys(found[1] for each in complaint.spread if (found := _PREFIX.fullmatch(each))):
            changed = dict(choice)
            for name in complaint.missing:
                changed = self._with(changed, prefix + name, self._proposed(changed, name)[0])
            if changed != choice:
                yield 0.1, changed

    def _filled(
        self, choice: Choice, called: Iterable[str], names: Iterable[str]
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with what several calls lack that were too deep inside others to be given all they need."""
        wanting = [each for each in called if each and self._lacks(choice, each, names)]
        filled = dict(choice)
        for inner in (joined(path, name) for path in wanting for name in names):
            filled = self._with(filled, inner, self._proposed(filled, inner)[0])
        if wanting:
            yield 0.0, filled

    def _lacks(self, choice: Choice, path: str, names: Iterable[str]) -> bool:
        """Whether a call is not given some arguments that it takes."""
        group = choice[path]
        known = parameters_of(group.cls) if isinstance(group, Group) else {}
        return bool(names) and all(each in known and joined(path, each) not in choice for each in names)

    def _with_field(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with a field more, in the group that an error misses it in."""
        choice = _with_groups(choice)
        choice = _with_modules(choice) if complaint.got == "Module" else choice
        if complaint.got == getattr(self._root.cls, "__name__", "") and complaint.owner is None:
            # What its constructor does not assign itself it may assign by the names in a table: `setattr(self, k, v)`.
            yield from self._with_own(choice, complaint.lacks)
        yield from self._with_part(choice, complaint)
        yield from self._with_keyword(choice, complaint)
        groups = [path for path, each in choice.items() if path and isinstance(each, Group) and each.style != "call"]
        known = [(path, frozenset(fields_in(choice, path))) for path in groups]
        fitting = [path for path, fields in known if complaint.owner == fields]
        if not fitting and complaint.owner is not None:
            # What it is copied to, or passed through, may have got more on the way: that with most of it is likeliest.
            lesser = [(path, fields) for path, fields in known if fields < complaint.owner]
            fitting = [path for path, _ in sorted(lesser, key=lambda each: -len(each[1]))]
        if complaint.place in groups:
            fitting = [complaint.place]
        if complaint.reader is not None and complaint.reader[0] is not self._root.cls and fitting == [complaint.place]:
            yield from self._with_fields_of(choice, complaint.place, complaint.reader)
        if complaint.got == "Module":
            fitting = [path for path in groups if choice[path] == Group("module")]
        yield from self._with_key(choice, complaint)
        yield from self._as_mapping(choice, fitting, complaint.lacks)
        for rank, path in enumerate(fitting):
            inner = joined(path, complaint.lacks)
            if inner not in choice:
                changed = dict(choice)
                for each in all_alike(choice, path):
                    added = joined(each, complaint.lacks)
                    changed[added] = "None"
                    changed = self._with(changed, added, self._proposed(changed, added)[0])
                yield _ELSEWHERE * rank, changed
            elif complaint.got == "dict" and choice[path] == Group("mapping"):
                # It has the entry, and is asked for an attribute.
                yield 0.0, {**choice, path: Group("mapping", OPTIONS)}

    def _with_keyword(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with an argument more for an object that keeps as attributes whatever it is given."""
        for path, each in choice.items():
            inner = joined(path, complaint.lacks)
            if path and isinstance(each, Group) and inner not in choice and _keeps_all(each, complaint.got):
                changed = {**choice, inner: "None"}
                yield 0.0, self._with(changed, inner, self._proposed(changed, inner)[0])

    def _with_key(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with one entry more, like the others, in a table that is written out."""
        path, *keys = complaint.place.split(".")
        now = choice.get(path) if complaint.owner is not None else None
        changed = with_key(now, keys, complaint.lacks) if isinstance(now, str) else ""
        if changed:
            yield 0.0, {**choice, path: changed}

    def _with_own(self, choice: Choice, name: str) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with an entry more, in each of the tables that the outermost call is given."""
        for path in [each for each in choice if each and "." not in each]:
            value, inner = choice[path], joined(path, name)
            is_table = (isinstance(value, Group) and value.style == "mapping") or fits("mapping", value)
            if is_table and inner not in choice:
                # Entries whose names nobody asked for go.
                known = isinstance(value, Group) and not value.size
                changed = dict(choice) if known else self._with(choice, path, Group("mapping"))
                changed[inner] = "None"
                filled = self._with(changed, inner, self._proposed(changed, inner)[0])
                # Of what has nothing in it, as far as one knows, there may be none.
                is_bare = isinstance(filled[inner], Group) and not fields_in(filled, inner)
                yield from [(0.0, changed)] * is_bare
                yield 0.3 * is_bare, filled

    def _with_part(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with a module more, in each of the tables that a container may be made of that lacks it.

        Such is an argument that the code speaks of where the container is made, though it may be left out.
        """
        if complaint.got != nn.ModuleDict.__name__:
            return
        of_root = [*self._proposals.optional(choice, ""), *(each for each in choice if each and "." not in each)]
        for path in (each for each in dict.fromkeys(of_root) if each in complaint.words):
            value, inner = choice.get(path, "None"), joined(path, complaint.lacks)
            is_table = isinstance(value, Group) and value.style == "mapping"
            if inner not in choice and (is_table or value == "None" or fits("mapping", value)):
                yield 0.0, {**choice, **({} if is_table else {path: Group("mapping")}), inner: any_call()}

    def _with_fields_of(
        self, choice: Choice, path: str, reader: tuple[type, str]
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with all that a constructor reads of a group that turned out to be given to it."""
        self._proposals.given(path, *reader)
        self._kept.clear()
        changed = dict(choice)
        for name in self._proposals.fields(changed, path):
            inner = joined(path, name)
            if inner not in changed:
                changed = self._with(changed, inner, self._proposed(changed, inner)[0])
        if len(changed) > len(choice):
            yield 0.0, changed

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
        known = [value for cls in classes for value in self._proposals.instances_of(cls)]
        # What an object holds that is not liked, it may do without, if it can be no other of the kind.
        is_held = isinstance(now, Group) and "." in path and complaint.got == type_name(now)
        found += [*known, "None"] if is_held and _is_base(now, classes) else ["None", *known] if is_held else known
        if complaint.length:
            # What is so long already has items that are not.
            inner, outer = of_length_within(now, complaint.length), of_length(now, complaint.length)
            found += [*inner, *outer] if length_of(now) in {complaint.length, sys.maxsize} else [*outer, *inner]
        is_other = complaint.got and complaint.got != (type_name(now) if now is not None else slot.usual_type)
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


def _with_groups(choice: Choice) -> dict[str, Value]:
    """Return a choice in which empty mappings are groups, which can get entries."""
    return {path: Group("mapping") if path and each == "{}" else each for path, each in choice.items()}


def _with_modules(choice: Choice) -> dict[str, Value]:
    """Return a choice in which modules that take anything are groups, which can get attributes."""
    found: dict[str, Value] = {}
    for path, each in choice.items():
        told = _TAKING_ANYTHING.fullmatch(each) if path and isinstance(each, str) else None
        found |= {path: each} if told is None else {path: Group("module"), joined(path, "forward"): told[1]}
    return found


def _rank(name: str, words: Sequence[str]) -> int:
    """Return where a name stands among the words of a complaint; one that is not there comes last."""
    return words.index(name) if name in words else len(words)


def _is_layer(value: object) -> bool:
    """Whether a value is one of torch's classes of layers that need no arguments."""
    is_torchs = isinstance(value, type) and issubclass(value, nn.Module) and vars(nn).get(value.__name__) is value
    return is_torchs and not required_parameters(value)


def _is_called(group: Group, callee: str) -> bool:
    """Whether a call of a class comes to the constructor of a class of a name, its own or one that it inherits."""
    lineage = group.cls.__mro__ if isinstance(group.cls, type) else ()
    return callee == group.head or any(each.__name__ == callee for each in lineage)


def _is_size(value: Value) -> bool:
    """Whether an expression is a number of which there are several."""
    found = literal(value) if isinstance(value, str) else None
    return type(found) is int and found > 1


def _may_be(value: Value, got: str) -> bool:
    """Whether an expression has a type, or makes something of it where it is called."""
    return type_name(value) == got or (isinstance(value, str) and value == f"torch.nn.{got}")


def _names(choice: Choice, path: str, callee: str) -> bool:
    """Whether a mapping has the name of a class in it."""
    return any(choice.get(joined(path, each)) == repr(callee) for each in fields_in(choice, path))


def _makes(value: Value, cls: type) -> bool:
    """Whether a value is a call of a class."""
    return isinstance(value, Group) and value.cls is cls


def _is_base(value: Value | None, classes: Iterable[type]) -> bool:
    """Whether a value is a call of a class that one of some others inherits from."""
    base = value.cls if isinstance(value, Group) and value.style == "call" else None
    return isinstance(base, type) and any(base in each.__mro__[1:] for each in classes)


def _keeps_all(group: Group, name: str) -> bool:
    """Whether a group is a call of a class of data of a name that takes any keywords, as configurations do."""
    if group.style != "call" or not isinstance(group.cls, type) or issubclass(group.cls, nn.Module):
        return False
    # What wraps a constructor to that end has its signature all the same.
    code = attribute_of(attribute_of(group.cls, "__init__"), "__code__")
    return group.cls.__name__ == name and code is not None and bool(code.co_flags & inspect.CO_VARKEYWORDS)


def _are_sides_of_one(path: str, other: str) -> bool:
    """Whether two places are the height and the width of one picture."""
    (around, name), (beside, another) = owner_of(path), owner_of(other)
    one, two = _SIDE.fullmatch(name), _SIDE.fullmatch(another)
    return one is not None and two is not None and (around, one[1]) == (beside, two[1]) and name != another
