"""What completes arguments: what is not there yet and an error asks for, argument, field, entry or result."""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from torch import nn

from fxworker.changing import name_of
from fxworker.choices import (
    OPTIONS,
    Choice,
    Group,
    Value,
    attribute_of,
    fields_in,
    joined,
    owner_of,
    parameters_of,
    without,
)
from fxworker.complaints import Complaint
from fxworker.likeness import all_alike
from fxworker.stock import any_call, fits, for_call, is_stand_in, takes_any
from fxworker.together import Together
from fxworker.variations import with_key

_ELSEWHERE: Final = 0.2
"""What it costs more to add what is missing to something that is less like what lacked it."""
_PREFIX: Final = re.compile(r"(\w+?_)(?:kw|kwargs|args|arguments|opts?|options|params|parameters|cfg|config)")
"""What a mapping is called of the arguments of one part."""
_TAKING_ANYTHING: Final = re.compile(r"type\('Module', \(torch\.nn\.Identity,\), \{'forward': (lambda .*)\}\)\(\)")
"""How modules are written that stand in for others."""


class Completing(Together):
    """The ways to go on from a choice of arguments in which something is missing."""

    def _called_rightly(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with the arguments that a constructor misses, or without the one that it does not know."""
        choice = _with_groups(choice)
        called = [
            path for path, each in choice.items() if isinstance(each, Group) and _is_called(each, complaint.callee)
        ]
        # A constructor may hand on what it does not know itself to one that misses it.
        passing = [path for cls in complaint.within for path, each in choice.items() if path and makes(each, cls)]
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
                changed, of_module = dict(choice), choice[path] == Group("module")
                for each in all_alike(choice, path):
                    added = joined(each, complaint.lacks)
                    changed[added] = "None"
                    proposed = self._proposed(changed, added)[0]
                    changed = self._with(changed, added, for_call(proposed, complaint.called, of_module=of_module))
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

    def _handing_on(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with what a condition is about that a constructor was not given, in what it is made with.

        That is a mapping of its arguments: `Decoder(**parameters)` that asserts `table is not None`.
        """
        if not complaint.within or complaint.within[0] is self._root.cls:
            return
        cls = complaint.within[0]
        known = parameters_of(cls)
        wanted = [name for name in complaint.tested if name in known and known[name].default is None]
        for path, group in choice.items() if wanted else ():
            fields = set(fields_in(choice, path))
            if isinstance(group, Group) and group.style == "mapping" and set() < fields <= known.keys():
                for rank, name in enumerate(each for each in wanted if each not in fields):
                    inner = joined(path, name)
                    self._proposals.given(inner, cls, name)
                    self._kept.clear()
                    changed = self._with({**choice, inner: "None"}, inner, self._proposed(choice, inner)[0])
                    yield 0.1 + 0.1 * rank, changed

    def _giving(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with what gives as many results as were expected, in place of what stands in for a module."""
        called = complaint.called
        if called is None or not complaint.length:
            return
        results = (0,) * called.results
        for path, value in choice.items():
            if name_of(path) != called.name:
                continue
            if value == Group("module"):
                yield 0.1, {**choice, joined(path, "forward"): takes_any(results)}
            elif is_stand_in(value):
                yield from self._changed(choice, path, any_call(results), 0.1)


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


def _is_called(group: Group, callee: str) -> bool:
    """Whether a call of a class comes to the constructor of a class of a name, its own or one that it inherits."""
    lineage = group.cls.__mro__ if isinstance(group.cls, type) else ()
    return callee == group.head or any(each.__name__ == callee for each in lineage)


def _names(choice: Choice, path: str, callee: str) -> bool:
    """Whether a mapping has the name of a class in it."""
    return any(choice.get(joined(path, each)) == repr(callee) for each in fields_in(choice, path))


def _keeps_all(group: Group, name: str) -> bool:
    """Whether a group is a call of a class of data of a name that takes any keywords, as configurations do."""
    if group.style != "call" or not isinstance(group.cls, type) or issubclass(group.cls, nn.Module):
        return False
    # What wraps a constructor to that end has its signature all the same.
    code = attribute_of(attribute_of(group.cls, "__init__"), "__code__")
    return group.cls.__name__ == name and code is not None and bool(code.co_flags & inspect.CO_VARKEYWORDS)


def makes(value: Value, cls: type) -> bool:
    """Whether a value is a call of a class."""
    return isinstance(value, Group) and value.cls is cls
