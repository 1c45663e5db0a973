"""Changes of several arguments at once: what goes together, what there have to be as many of, what is too much.

What an error says about one of them is read elsewhere.
"""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from torch import Tensor

from fxengine.errors import text_of
from fxworker.beyond import numbered
from fxworker.changing import Changing, length_of, name_of
from fxworker.choices import OPTIONS, Choice, Group, Value, fields_in, joined, literal, owner_of, without
from fxworker.complaints import Complaint
from fxworker.having import has_field
from fxworker.likeness import all_alike
from fxworker.patience import OutOfPatience
from fxworker.variations import of_length, of_length_throughout, type_name, written_like
from fxworker.wording import is_repeated

_ITEMS: Final = 2
"""How many items a list of objects has."""
_MANY: Final = 32
"""How many items of a list at most a number may ask for."""
_AS_MANY: Final = 0.7
"""What it costs to give lists as many items as a number says."""
_FEW: Final = 2
"""How many items each of some lists has of which one is longer."""
_ENOUGH: Final = 12
_LENGTHENED: Final = 0.4
"""How many items are enough to leave some out, as vocabularies do, and what it costs to give so many."""
_ALONE: Final = 0.5
"""What it costs to give a list one object alone."""
_AS_CLASS: Final = 0.1
"""What it costs to give a class where an instance of it was called as one."""
_FORWARD_REFUSED: Final = re.compile(r"([\w.]+)\.forward\(\) (?:got an unexpected|missing|takes)")
"""What Python says of a module that is called with what its forward does not take."""
_TOGETHER: Final = 1.0
_MOST_TOGETHER: Final = 4
"""What it costs to give several arguments that may be left out, and how many of them are tried in pairs."""
_CONFIGURING: Final = frozenset({"mapping", "namespace"})
"""The styles of what holds options by their names."""
_TENSORS: Final = "[torch.ones(64, 64), torch.ones(64, 64)]"
"""What is a list of tensors."""
_SMALL: Final = "64"
_LEAST: Final = 8
"""What is little enough of most, and the least of a size that works."""


class Together(Changing):
    """The changes that concern several places of a choice."""

    def _at_once(
        self, choice: Choice, error: BaseException, blamed: list[str], complaint: Complaint
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with several other arguments that an error asks for at once."""
        yield from self._as_demanded(choice, complaint)
        yield from self._without_refused(choice, complaint)
        yield from self._numbered(choice, complaint)
        yield from self._as_classes(choice, error) if complaint.within else ()
        if isinstance(error, AssertionError | ValueError | TypeError):
            yield from self._together(choice, blamed, complaint)
        if isinstance(error, OutOfPatience):
            yield from self._smaller(choice)

    def _as_demanded(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with all that a loop demands of the attributes of what was being constructed."""
        groups = [(path, each) for path, each in choice.items() if isinstance(each, Group) and each.style == "call"]
        for path, group in groups if complaint.demanded else ():
            known = {*self._proposals.fields(choice, path), *self._proposals.optional(choice, path)}
            changed = {**choice, **{joined(path, name): value for name, value in complaint.demanded if name in known}}
            if group.cls in complaint.within and changed != choice:
                yield 0.0, changed

    def _as_classes(self, choice: Choice, error: BaseException) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with a class instead of a module that a constructor called with what its forward does not take.

        An annotation may name the class of what is made: `block: Union[Basic, Bottleneck]`.
        """
        refused = _FORWARD_REFUSED.match(text_of(error)) if isinstance(error, TypeError) else None
        for path, each in choice.items() if refused is not None else ():
            if path and isinstance(each, Group):
                lineage = each.cls.__mro__ if each.style == "call" and isinstance(each.cls, type) else ()
                names, cls = [one.__qualname__ for one in lineage], each.head
            else:
                cls, _, given = each.partition("(") if isinstance(each, str) else ("", "", "")
                names = [cls.rpartition(".")[2]] if given and cls.startswith("torch.nn.") else []
            if refused is not None and refused[1] in names:
                yield from self._changed(choice, path, cls, _AS_CLASS)

    def _prefixed(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with what is missing in a configuration, by names that a prefix is taken off."""
        names = complaint.missing or (complaint.lacks,)
        groups = [path for path, each in choice.items() if isinstance(each, Group) and each.style in _CONFIGURING]
        for prefix, path in itertools.product(dict.fromkeys(complaint.prefixes), groups):
            changed = dict(choice)
            for name in names:
                if (place := joined(path, prefix + name)) not in changed:
                    changed = self._with(changed, place, self._proposed(changed, joined(path, name))[0])
            if changed != choice:
                is_begun = any(each.startswith(prefix) for each in fields_in(choice, path))
                yield 0.1 if is_begun else 0.4, changed

    def _without_refused(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice without the entries of mappings that are said not to be known."""
        tables = [path for path, each in choice.items() if isinstance(each, Group) and each.style == "mapping"]
        changed = dict(choice)
        for path in (joined(table, name) for table in tables for name in complaint.refused):
            changed = without(changed, path)
        if changed != choice:
            yield 0.0, changed

    def _numbered(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with numbers of items that there are, for one whose item was taken and is not there."""
        beyond = complaint.beyond
        if beyond is None:
            return
        changed = {path: value for path, each in choice.items() if path and (value := numbered(each, beyond))}
        named = [path for path in changed if name_of(path) in beyond.names]
        for rank, path in enumerate(dict.fromkeys([*named, *changed])):
            yield from self._changed(choice, path, changed[path], 0.1 + 0.1 * rank + 0.3 * (path not in named))

    def _together(
        self, choice: Choice, blamed: list[str], complaint: Complaint
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with several of the arguments that a condition is about, where each may be left out."""
        nothing = [path for path in blamed if owner_of(path)[1] in complaint.tested and self._is_nothing(choice, path)]
        several = [*itertools.combinations(nothing[:_MOST_TOGETHER], 2)]
        for paths in [*several, nothing] if len(nothing) > len(several[:1]) + 1 else several:
            changed = dict(choice)
            for path in paths:
                changed = self._with(changed, path, self._proposed(changed, path)[0])
            yield _TOGETHER, changed

    def _smaller(self, choice: Choice) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with small numbers for what is large by default, or for all: it takes too long as it is."""
        changed: dict[str, Value] = dict(choice)
        for name in self._proposals.optional(choice, ""):
            default = self._proposals.slot(choice, name).default
            if type(default) is int and default > int(_SMALL) and name not in choice:
                changed[name] = _SMALL
        if changed != choice:
            yield 0.0, changed
            return
        for path, each in choice.items():
            number = literal(each) if path and isinstance(each, str) else None
            if type(number) is int and number > _LEAST:
                # What is larger than sizes mostly are stays larger than they.
                changed[path] = str(_LEAST if number <= int(_SMALL) else 2 * _LEAST)
        if changed != choice:
            yield 0.0, changed

    def _with_items(
        self, choice: Choice, blamed: list[str], complaint: Complaint
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with lists of what their items should have been, all at once in the places to blame."""
        lists = [path for path in blamed if _holds(choice.get(path), complaint)]
        if not lists:
            return
        if complaint.kind == "tensor":
            # Their items lack what only tensors have.
            changed = dict(choice)
            for path in lists:
                changed = self._with(changed, path, self._proposals.as_used(changed, path, _TENSORS))
            yield 0.2, changed
        wanted = [*complaint.classes, *complaint.records]
        known = [each for each in wanted if self._proposals.instances_of(each)]
        fields = {each for path in lists for each in self._proposals.item_fields(choice, path)}
        whole = [each for each in known if all(has_field(each, name) for name in fields)]
        # Where the items are of several classes, none of them has all that is read.
        kinds = [*(whole or [None] * bool(complaint.lacks)), *(each for each in known if each not in whole)]
        # What texts alone have: they are words.
        kinds = [str] * _is_of_text(complaint) + [dict] * (complaint.kind == "mapping") + kinds
        several = tuple(each for each in dict.fromkeys(complaint.classes) if each in known)
        # Where they are told apart by what they are, something is made for one of each.
        told_apart = [Group("list", cls=several, size=len(several))] * (len(several) > 1)
        groups = [*told_apart, *(Group("list", cls=each, size=_ITEMS) for each in kinds)]
        for step, group in enumerate(groups):
            changed = dict(choice)
            for path in lists:
                changed = self._with(changed, path, group)
            yield 0.3 + 0.2 * step, changed
        # Or one of them alone, where the others are only named beside it.
        for rank, path in enumerate(lists if len(lists) > 1 else ()):
            yield from (
                (0.4 + 0.1 * rank + 0.2 * step, self._with(choice, path, each)) for step, each in enumerate(groups)
            )

    def _of_one_length(self, choice: Choice, blamed: list[str]) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with lists of another length together: those of one owner have something for each layer."""
        owners = {owner_of(path)[0] for path in blamed if path in choice}
        several = [path for path in choice if path and owner_of(path)[0] in owners and is_list(choice[path])]
        for step, length in enumerate((4, 3, 5) if len(several) > 1 else ()):
            changed = dict(choice)
            for path in several:
                changed = self._everywhere(changed, path, of_length(choice[path], length)[0])
            yield 0.7 + 0.2 * step, changed
        # What is between layers there is one less of than of layers: `len(widths) - 1`.
        for rank, longer in enumerate(several[:_MOST_TOGETHER] if len(several) > 1 else ()):
            changed = dict(choice)
            for path in several:
                changed = self._everywhere(changed, path, of_length(choice[path], _FEW + (path == longer))[0])
            yield 0.75 + 0.1 * rank, changed

    def _told_apart(
        self, choice: Choice, blamed: list[str], error: BaseException
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with different numbers in a list of the same ones, where a message says that it may not be."""
        for path in blamed if is_repeated(text_of(error)) else ():
            value = choice.get(path, "")
            items = literal(value) if isinstance(value, str) and is_list(value) else ()
            if len(set(map(repr, items))) < len(items):
                several = [str(number) for number in range(1, len(items) + 1)]
                yield 0.2, self._everywhere(choice, path, written_like(items, several))

    def _lengthened(self, choice: Choice) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with long lists: from how many items one has so many were taken away that none are left."""
        changed = dict(choice)
        for path in [each for each in choice if each and is_list(choice[each]) and length_of(choice[each]) < _ENOUGH]:
            changed = self._everywhere(changed, path, of_length(choice[path], _ENOUGH)[0])
        if changed != choice:
            yield _LENGTHENED, changed

    def _of_one_item(self, choice: Choice) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with a list of one object, and one item for it in the lists beside: alone it suits itself."""
        for around in dict.fromkeys(owner_of(path)[0] for path, each in choice.items() if _is_of_objects(each)):
            changed = dict(choice)
            for each in [each for each in choice if each and owner_of(each)[0] == around]:
                value = choice[each]
                if isinstance(value, Group) and _is_of_objects(value):
                    for name in fields_in(choice, each)[1:]:
                        changed = without(changed, joined(each, name))
                    changed[each] = replace(value, size=1)
                elif is_list(value):
                    changed[each] = of_length(value, 1)[0]
            yield _ALONE, changed

    def _as_many(self, choice: Choice, blamed: list[str]) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with lists of as many items as a number says that is to blame as well, be it by default."""
        values = {path: choice.get(path) or repr(self._proposals.slot(choice, path).default) for path in blamed}
        counts = [int(each) for each in values.values() if isinstance(each, str) and each.isdecimal()]
        lists = {path: each for path, each in values.items() if is_list(each)}
        for count in dict.fromkeys(each for each in counts if 0 < each <= _MANY):
            for alike in (of_length, of_length_throughout):
                changed = dict(choice)
                for path, value in lists.items():
                    if length_of(value) != count or alike is of_length_throughout:
                        changed = self._everywhere(changed, path, alike(value, count)[0])
                if changed != choice:
                    yield _AS_MANY, changed

    def _as_mapping(
        self, choice: Choice, objects: Iterable[str], asked: str
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield the choice with a mapping for an object that is asked for what mappings have."""
        for path in objects if hasattr(dict, asked) else ():
            changed = dict(choice)
            for each in all_alike(choice, path):
                value = choice[each]
                if isinstance(value, Group) and value.style == "namespace" and not value.size:
                    changed[each] = Group("mapping", OPTIONS if fields_in(choice, each) else "")
            if changed != choice:
                yield 0.0, changed


def is_list(value: Value) -> bool:
    """Whether an expression is a list or tuple with something in it."""
    return isinstance(value, str) and isinstance(literal(value), list | tuple) and bool(literal(value))


def _is_of_objects(value: Value) -> bool:
    """Whether a value is a list of several things that are made for it."""
    return isinstance(value, Group) and value.style == "list" and value.size > 1


def _holds(value: Value | None, complaint: Complaint) -> bool:
    """Whether a list has items of the type that a complaint is about, or that are no instances of what it asks for."""
    if isinstance(value, Group):
        # What is only known by its attributes is an instance of nothing.
        return value.style == "list" and value.cls is None and bool(complaint.classes) and not complaint.lacks
    items = _types_in(value) if value is not None else []
    if complaint.lacks:
        return complaint.got in items
    wanted = {each.__name__ for each in complaint.classes}
    return bool(items) and bool(wanted) and wanted.isdisjoint((*items, "list", "tuple"))


def _is_of_text(complaint: Complaint) -> bool:
    """Whether a number lacks what texts have, and neither tensors nor Python's other values do."""
    name = complaint.lacks
    others = (Tensor, list, tuple, dict)
    return complaint.got in {"int", "float"} and hasattr(str, name) and not any(hasattr(each, name) for each in others)


def _types_in(expression: str) -> list[str]:
    """Return the names of the types that the items of a list have; none for another expression."""
    tree = ast.parse(expression, mode="eval").body
    items = tree.elts if isinstance(tree, ast.List | ast.Tuple) else []
    return [type_name(ast.unparse(each)) for each in items]
