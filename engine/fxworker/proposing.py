"""What an argument may be: proposals for a parameter, or for a field of a configuration, best first.

They come from what it is compared with, its annotation, what the constructor does with it, the configurations and
classes of the file, its name, and what parameters of that name have as default elsewhere.
"""

import ast
import enum
import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import Any, Final

from torch import nn

from fxworker.absent import is_stand_in
from fxworker.annotations import annotations_of
from fxworker.choices import (
    Choice,
    Group,
    Value,
    called_around,
    every_parameter_of,
    fields_in,
    handed_parameters_of,
    is_number,
    literal,
    owner_of,
    parameters_of,
    required_parameters,
    would_hold_itself,
)
from fxworker.conventions import FILE, is_configuration, usual_values
from fxworker.evidence import GIVEN, Kind, Usage, Use, fields_of
from fxworker.examples import FEW, lists_of, spaces
from fxworker.having import lacked_by_all
from fxworker.hints import ARRAYS, MAPPINGS, PLAIN, Hints, is_of
from fxworker.indexing import as_indices
from fxworker.keywords import keys_of_keywords
from fxworker.lineages import is_out_of_place
from fxworker.neighbours import Neighbours, is_module_name
from fxworker.packages import full_name
from fxworker.settings import NO_SETTINGS, Settings
from fxworker.slots import (
    Slot,
    as_used,
    is_other,
    is_section,
    length_of_items,
    may_hold,
    one_for_all,
    parted,
    told_apart,
)
from fxworker.stock import OF_KIND, UNKNOWN, fits, giving, layers_read, of_convolutions
from fxworker.usage import usage_of

_NESTED: Final = re.compile(r"[\[(]{2}")
"""How a list of lists begins."""

_EMPTY: Final = frozenset({"''", "[]", "()", "{}", "set()"})
_LEFT_OUT: Final = frozenset({None, "object", "mapping", "callable", "class", "tensor"})
"""What an object has not if it has None: a part of its own, or who knows what."""
_ITEM: Final = re.compile(r"\.\d+(?=\.|$)")
_CHANNELS: Final = re.compile(r"(n|num|nb)?_?(ch|chans?|channels)|c", re.IGNORECASE)
"""Names of channels that do not say whether they enter."""
_GIVEN: Final = frozenset({"in_channels", "in_ch", "in_chans", "in_planes", "inplanes"})
_MADE: Final = frozenset(
    {"out_channels", "out_ch", "out_chans", "out_planes", "num_features", "num_channels", "planes"}
)
_OF_SECTION: Final = re.compile(r"\.\w+(\.\w|\[)")
"""What the paths of values are like that are in an entry of a table."""
_FLAG: Final = re.compile(r"(use|is|has|with|no)_")
"""How names begin of what is so or is not so, though a number may be made of it."""
_GETTING: Final = re.compile(r"^_*(get|read|load)_+")
"""How functions are called that give what the rest of their names says."""
_PLAIN_KINDS: Final = frozenset({"number", "string", "sequence", "mapping"})
"""What a function gives that is no part of a model."""
_MISSING: Final = "???"
"""What omegaconf's configurations have where whoever uses them must say something."""

_BATCHES: Final = ("torch.ones(64, 64)", "torch.ones(64)", "torch.ones(1, 64, 64)")
"""Tensors that stand for observations or features: several of them mostly."""

_ITEMS: Final = 2
"""How many items a list of objects has, and entries a mapping with any keys."""

_SIZE: Final = 1000
"""How long an object is that is none of Python's own: mostly it is a vocabulary."""


class Proposals:
    """Makes proposals for the places of one search. Mutable: what was found out about classes is kept.

    Args:
        scope: The names of the file.
        root: The class that is searched for, which is never a part of itself.
        settings: What the project says about values.
        inner: Whether other classes of the file use it.
    """

    def __init__(self, scope: Mapping[str, Any], root: Any, settings: Settings = NO_SETTINGS, *, inner: bool) -> None:
        self._scope = scope
        self._root = root
        self._settings = settings
        self._inner = inner
        self._usages: dict[int, Usage] = {}
        self._given: dict[str, tuple[type, str]] = {}
        self._noted: dict[tuple[str | int, ...], Usage] = {}
        self._hints: dict[int, dict[str, Any]] = {}
        self._annotations = Hints(scope, root)
        self._neighbours = Neighbours(scope, root)
        self._defaults = _defaults(scope, root)
        enumerations = {name: value for name, value in scope.items() if isinstance(value, enum.EnumType)}
        self._enumerations = {name: full_name(cls) for name, cls in enumerations.items()}

    def of(self, choice: Choice, path: str) -> list[Value]:
        """Return what a place may hold, best first."""
        slot = self.slot(choice, path)
        around, name = owner_of(path)
        owner = choice.get(around)
        items = self.fields(choice, around) if isinstance(owner, Group) and owner.style in {"list", "mapping"} else []
        if isinstance(owner, Group) and owner.size and name in items:
            return self._of_list(owner, items.index(name), self._usage_around(choice, around).get("[]", Use()).kind)
        said = [self._with_entries(each, choice, slot) for each in self._said(slot)]
        # The annotation of a model's parameter may be an inherited one, where the file has a class of its own.
        is_data = isinstance(owner, Group) and isinstance(owner.cls, type) and not issubclass(owner.cls, nn.Module)
        far = [each for each in said if isinstance(each, Group) and self._is_far(each) and not is_data]
        known = of_convolutions(self._known(slot), owner.cls if isinstance(owner, Group) else None)
        near, own = parted([each for each in said if each not in far], known, called_around(choice, path))
        found: list[Value] = [*told_apart(path, slot), *self._of_table(choice, path)]
        found += self._set(slot, said)
        found += [] if said else spaces(slot.name, slot.fields)
        if slot.kind == "object" and slot.fields and lacked_by_all(said, slot.fields):
            # It is annotated with what stands for any object, or with a class that gives attributes by itself.
            found.append(_namespace(slot.use))
        found += (held := [*_of_holder(owner, slot, is_of_objects=bool(self._of_objects(choice, slot)))])
        if is_section(path, slot) and isinstance(owner, Group) and owner.style == "namespace":
            found.append(_namespace(slot.use))
        found += [*(ARRAYS if slot.use.array else ()), *near]
        found += [*layers_read(slot.fields, slot.kind), *_of_owner(choice, path, slot.name)]
        gives_plain = slot.gives in _PLAIN_KINDS or (slot.gives is None and _gives_number(slot.name))
        found += [Group("function")] if gives_plain and slot.is_called else []
        found += self._of_unread(slot)
        kind, plain = slot.probable_kind, PLAIN.get(slot.hint, ())
        is_structured = slot.use.kinds.get("class") or kind in {"object", "mapping", "callable"}
        is_wanted = is_structured or not (known or plain) or (kind is None and self._neighbours.has_module(slot.name))
        fitting, odd = self._beside(choice, slot) if is_wanted else ([], [])
        found += [*fitting, *far, *odd]
        # A name says how much, an annotation says what, and the default of a text more than a name of any text.
        found += [each for each in slot.use.defaults if kind == "string" and fits(kind, each)]
        is_flag = kind == "number" and _FLAG.match(slot.name) is not None
        found += [each for each in known if (not plain or is_of(each, slot.hint)) and (is_flag or fits(kind, each))]
        found += own
        found += [each for each in (*self._defaults.get(slot.name, ()), *slot.use.defaults) if fits(kind, each)]
        if kind == "mapping" and (slot.fields or slot.use.least or slot.use.kinds.get("sequence")):
            # What is gone over has something in it.
            found.append(Group("mapping") if slot.fields else self._entries(choice, path))
        if kind == "object" and (slot.use.kinds.get("sequence") or slot.use.titles):
            found.append(_namespace(slot.use))
        found += [Group("function")] if slot.gives is not None and slot.is_called else []
        lists = lists_of(self._usage_around(choice, slot.path), slot.name) if kind == "sequence" else []
        # What it is unpacked into says more than what is plainly annotated.
        found += lists[:1] if slot.use.count else []
        found += plain or (PLAIN[dict] if typing.get_origin(slot.hint) in MAPPINGS else ())
        if kind == "sequence":
            found += self._sequences(choice, slot, lists or ["[]"], known)
        if kind is not None:
            found += OF_KIND[kind]
        found += [*known, *UNKNOWN, *OF_KIND["object"]]
        if kind == "sequence":
            # A model without layers is built, and says nothing; what the annotation allows may be no sequence at all.
            found.sort(key=lambda each: 2 * (each in _EMPTY) + (each not in held and is_other(each, slot, known)))
        used = (self.as_used(choice, path, giving(each, slot.use.results)) for each in found)
        return [
            each
            for each in dict.fromkeys((*(usual_values(name) if name in _content_of(owner) else ()), *used))
            if each != repr(slot.default)
            and not (known[:1] == [FILE] and _is_open(each))
            and not would_hold_itself(choice, path, each)
        ]

    def _sequences(self, choice: Choice, slot: Slot, lists: list[str], known: list[str]) -> list[Value]:
        """Return the lists that a place may hold, best first."""
        first, *others = lists
        of_objects = self._of_objects(choice, slot)
        is_of_mappings = self._usage_around(choice, slot.path).get("[]", Use()).kind == "mapping"
        begun = [*of_objects, first] if is_of_mappings else [first]
        return [*begun, *one_for_all(slot, known), *of_objects, *others]

    def _of_objects(self, choice: Choice, slot: Slot) -> list[Value]:
        """Return a list of objects from whose items attributes are read, or of mappings, which may be empty."""
        kind = self._usage_around(choice, slot.path).get("[]", Use()).kind
        is_read = kind == "mapping" or (kind == "object" and bool(self.item_fields(choice, slot.path)))
        return [Group("list", size=max(slot.use.count, slot.use.least, _ITEMS))] if is_read else []

    def _of_list(self, group: Group, at: int, kind: Kind | None) -> list[Value]:
        """Return what an item of a list, or of a mapping with any keys, may be: one of a kind."""
        cls = group.cls[at] if isinstance(group.cls, tuple) else group.cls
        if cls is str:
            # Several of them are names mostly.
            return [repr(chr(ord("a") + at))]
        if cls is None and kind == "tensor":
            return [*_BATCHES]
        return self.instances_of(cls) if cls is not None else [Group("mapping" if kind == "mapping" else "namespace")]

    def model(self, name: str) -> type[nn.Module] | None:
        """Return the class of models that has a name in the file, None where it is that of something else."""
        found = self._scope.get(name)
        return found if isinstance(found, type) and issubclass(found, nn.Module) else None

    def fields(self, choice: Choice, path: str) -> list[str]:
        """Return the fields that a group needs: a constructor's required parameters, or what is read from an object."""
        group = choice[path]
        assert isinstance(group, Group)
        if group.style == "list":
            return [str(each) for each in range(group.size)]
        if group.style == "mapping" and group.size:
            return list(ascii_lowercase[: group.size])
        if group.style == "function":
            return [GIVEN]
        if group.style != "call":
            # What its class has by itself need not be given, nor what it is asked for whether it has it.
            kinds = self._kinds_of(choice, path, group)
            usage = self._usage_around(choice, path)
            # Of several alike each has something to tell.
            is_item = isinstance(around := choice.get(owner_of(path)[0]), Group) and bool(around.size)
            spared = _spared(usage) if not is_item else []
            read = [each for each in fields_of(usage, "") if each not in spared]
            return [each for each in read if not any(hasattr(cls, each) for cls in kinds)]
        wanted = [name for name, each in parameters_of(group.cls).items() if _is_wanted(each)]
        return wanted or _content_of(group)

    def _kinds_of(self, choice: Choice, path: str, group: Group) -> list[type]:
        """Return the classes of a module that is made up, or of a mapping that is one of a class of its own."""
        if group.style == "module":
            return [nn.Module]
        hint = self.slot(choice, path).hint if group.style == "mapping" and group.head else None
        return [each for each in (hint, *typing.get_args(hint)) if isinstance(each, type) and issubclass(each, Mapping)]

    def slot(self, choice: Choice, path: str) -> Slot:
        """Return what is known of a place."""
        around, name = owner_of(path)
        group = choice.get(around)
        hint: Any = inspect.Parameter.empty
        default: Any = inspect.Parameter.empty
        owner = _owner_of_parameter(group.cls, name) if isinstance(group, Group) and group.style == "call" else None
        if owner is not None:
            parameter = every_parameter_of(owner)[name]
            hint = self._hints_of(owner).get(name, parameter.annotation)
            default = parameter.default
        usage = self._usage_around(choice, path)
        items = usage.get("[]", Use())
        if name == GIVEN:
            # What it gives is called as the function is.
            name = _GETTING.sub("", owner_of(around)[1])
        gives = usage.get(f".{GIVEN}", Use()).kind
        fields, nested = tuple(fields_of(usage, "")), items.kind == "sequence"
        use, letters = usage.get("", Use()), tuple(items.literals)
        return Slot(path, name, hint, default, use, fields, nested, gives, letters, items.count)

    def optional(self, choice: Choice, path: str) -> list[str]:
        """Return the parameters of a constructor that need not be given, or what an object may lack."""
        group = choice[path]
        assert isinstance(group, Group)
        if group.style != "call":
            return _spared(self._usage_around(choice, path))
        own = parameters_of(group.cls)
        named = [
            name
            for name, each in handed_parameters_of(group.cls).items()
            if each.default is not each.empty or name not in own
        ]
        return list(dict.fromkeys([*named, *keys_of_keywords(group.cls)]))

    def given(self, path: str, cls: type, parameter: str) -> None:
        """Note that what is in a place is given to a constructor, as a parameter of it: nobody could read that."""
        self._given[path] = cls, parameter
        self._noted.clear()

    def for_kind(self, kind: Kind, slot: Slot, choice: Choice) -> list[Value]:
        """Return values of a kind for a place that turned out to need one."""
        known: list[Value] = [each for each in self._known(slot) if fits(kind, each)]
        if kind in {"object", "mapping", "callable", "class"}:
            known += self._of_file(slot, kind)
        if kind == "sequence":
            known += lists_of(self._usage_around(choice, slot.path), slot.name)
        if kind == "object" and (is_module_name(slot.name) or slot.hint is nn.Module):
            known.append(Group("module"))
        return [self.as_used(choice, slot.path, each) for each in dict.fromkeys([*known, *OF_KIND[kind]])]

    def as_used(self, choice: Choice, path: str, value: Value) -> Value:
        """Return a value for a place with indices for the numbers in its tensors, where such are what they must be."""
        usage = self._usage_around(choice, path)
        is_index = any(usage.get(each, Use()).indexing for each in ("", "[]"))
        return as_indices(value) if is_index and isinstance(value, str) else value

    def item_fields(self, choice: Choice, path: str) -> list[str]:
        """Return the attributes that are read from the items of a sequence."""
        return fields_of(self._usage_around(choice, path), "[]")

    def instances_of(self, cls: type) -> list[Value]:
        """Return values that are instances of a class, for a place that turned out to need one."""
        return self._annotations.instances_of(cls)

    def _of_table(self, choice: Choice, path: str) -> Iterator[Value]:
        """Yield the position of an item in a table such as a vocabulary, whose length is asked for."""
        around, name = owner_of(path)
        group = choice.get(around)
        usage = self._usage_around(choice, around)
        # What has sections is a configuration, and no such table.
        if isinstance(group, Group) and group.style == "mapping" and not any(map(_OF_SECTION.match, usage)):
            kinds = usage.get("", Use()).kinds
            is_text = fits("string", next(iter(usual_values(name)), "0"))
            if ("sequence" in kinds or not name.isidentifier()) and not is_text:
                names = fields_in(choice, around)
                yield str(names.index(name) if name in names else len(names))

    def _usage(self, cls: Any) -> Usage:
        if id(cls) not in self._usages:
            self._usages[id(cls)] = usage_of(cls)
        return self._usages[id(cls)]

    def _hints_of(self, cls: Any) -> dict[str, Any]:
        if id(cls) not in self._hints:
            self._hints[id(cls)] = annotations_of(cls)
        return self._hints[id(cls)]

    def _usage_around(self, choice: Choice, path: str) -> Usage:
        """Return what is known of a value and its parts, relative to it, from all constructors that it passes."""
        calls: list[tuple[Any, str]] = []
        around = path
        while around:
            around = around.rpartition(".")[0]
            group = choice.get(around)
            if isinstance(group, Group) and group.style == "call":
                calls.append((group.cls, path[len(around) + 1 :] if around else path))
        key = path, *(id(cls) for cls, _ in calls)
        if key not in self._noted:
            found: Usage = {}
            for cls, inner in calls:
                self._note_of(found, cls, inner)
            for place, (cls, parameter) in self._given.items():
                if path == place or path.startswith(f"{place}."):
                    self._note_of(found, cls, parameter + path[len(place) :])
            self._noted[key] = found
        return self._noted[key]

    def _note_of(self, found: Usage, cls: Any, path: str) -> None:
        """Add what a constructor says of a value and its parts, by the path that it has there."""
        usage = self._usage(cls)
        inner = _known_path(usage, _ITEM.sub("[]", path))
        for other, use in usage.items():
            if other == inner or other.startswith((f"{inner}.", f"{inner}[")):
                found.setdefault(other[len(inner) :], Use()).merge(use)

    def _known(self, slot: Slot) -> list[str]:
        """Return what values of this name usually are, by its own name or that of a parameter which it becomes."""
        if slot.use.axis:
            return list(usual_values("axis"))
        unfit: list[str] = []
        # What a library calls it tells more than its own name.
        for name in sorted((slot.name, *slot.use.names), key=lambda each: not each.endswith("name_or_path")):
            known = usual_values(name)
            if slot.nested:
                known = tuple(each for each in known if _NESTED.match(each) and slot.each in {0, length_of_items(each)})
            if _CHANNELS.fullmatch(name) and not _GIVEN.isdisjoint(slot.use.names) and _MADE.isdisjoint(slot.use.names):
                known = usual_values("in_channels")
            if self._inner and known[:1] == ("3",):
                # Channels of an image enter the outermost model; a part of it takes what its neighbours give.
                known = known[1:]
            known = as_used(known, slot)
            if any(fits(slot.kind, each) for each in known):
                return list(known)
            unfit = unfit or list(known)
        return list(FEW) if slot.use.counts else unfit

    def _of_unread(self, slot: Slot) -> list[Value]:
        """Return objects for what is called a configuration, where something else knows what is read from it."""
        if slot.kind is not None or slot.hint is not inspect.Parameter.empty or not is_configuration(slot.name):
            return []
        return [*self._of_file(slot), Group("namespace")]

    def _said(self, slot: Slot) -> Iterator[Value]:
        """Yield what the code says: literals it compares with, and what the annotation allows."""
        if slot.use.textual or slot.kind not in {"sequence", "object", "mapping"}:
            letters = slot.letters if slot.hint is str else ()
            yield from dict.fromkeys(map(self._shortened, (*slot.use.literals, *letters)))
        elif slot.kind == "sequence":
            yield from dict.fromkeys(each for each in slot.use.literals if each[:1] in {"[", "("})
        elif slot.kind == "object":
            # Members of enumerations have attributes.
            members = (each for each in slot.use.literals if literal(each) is NotImplemented)
            yield from dict.fromkeys(map(self._shortened, members))
        if slot.use.contents and (slot.hint is list or typing.get_origin(slot.hint) in {list, Sequence}):
            yield f"[{', '.join(dict.fromkeys(slot.use.contents))}]"
        said = self._annotations.values(slot.hint, slot.name)
        # What is read from a mapping, or from an object, says more than what any mapping may have.
        yield from (each for each in said if not (slot.fields and isinstance(each, str) and each.startswith("{")))

    def _set(self, slot: Slot, said: Sequence[Value]) -> list[Value]:
        """Return what the project says about a place, unless the code says otherwise."""
        if _ITEM.search(slot.path):
            return []
        # Sizes of one model go together.
        together = required_parameters(self._root) if "." not in slot.path else ()
        known = self._settings.of(slot.path, getattr(self._root, "__name__", ""), together)
        texts = [each for each in said if isinstance(each, str) and fits("string", each)]
        return [each for each in known if may_hold(slot, each) and not (texts and each not in texts)]

    def _shortened(self, expression: str) -> str:
        """Return the member of an enumeration as the file would name it, another expression as it is."""
        around, _, member = expression.rpartition(".")
        cls = next((name for name, full in self._enumerations.items() if around and around == full), "")
        return f"{cls}.{member}" if cls else expression

    def _beside(self, choice: Choice, slot: Slot) -> tuple[list[Value], list[Value]]:
        """Return what the file has for a place, and what of that comes after what the annotation says."""
        holders = called_around(choice, slot.path)
        found = self._of_file(slot)
        calls = [each for each in found if isinstance(each, Group) and each.style == "call"]
        odd: list[Value] = [each for each in calls if is_out_of_place(each.cls, slot.hint, holders)]
        return [each for each in found if each not in odd], odd

    def _is_far(self, group: Group) -> bool:
        """Whether a group is a call of a class that the file has no name for."""
        return group.style == "call" and group.head.partition(".")[0] not in self._scope

    def _with_entries(self, value: Value, choice: Choice, slot: Slot) -> Value:
        """Return a mapping of a class of its own with entries, if some are taken from it and none has a name."""
        is_mapping = isinstance(value, Group) and value.style == "mapping" and value.head and not slot.fields
        if not isinstance(value, Group) or not is_mapping or "[]" not in self._usage_around(choice, slot.path):
            return value
        return replace(value, size=_ITEMS)

    def _of_file(self, slot: Slot, kind: Kind | None = None) -> list[Value]:
        """Return what the file has for a place: configurations, their classes, and its modules."""
        owner = owner_of(owner_of(slot.path)[0])[1]
        is_class = "class" in slot.use.kinds
        return self._neighbours.for_place(slot.name, kind or slot.kind, slot.fields, called=is_class, owner=owner)

    def _entries(self, choice: Choice, path: str) -> Value:
        """Return a mapping with two entries, where any keys will do."""
        usage = self._usage_around(choice, path)
        item = usage.get("[]", Use()).kind
        if item in {"object", "mapping"} and fields_of(usage, "[]"):
            return Group("mapping", size=_ITEMS)
        value = {"callable": "torch.nn.Identity()", "class": "torch.nn.Identity", "string": "'a'"}.get(item or "", "64")
        return f"{{'a': {value}, 'b': {value}}}"


def _known_path(usage: Usage, path: str) -> str:
    """Return a path with `[]` for the names of entries that nothing is known of, but of any entry there."""
    found = ""
    for name in path.split("."):
        inner = f"{found}.{name}" if found else name
        has_own = any(each == inner or each.startswith((f"{inner}.", f"{inner}[")) for each in usage)
        found = f"{found}[]" if found and not has_own and f"{found}[]" in usage else inner
    return found


def _spared(usage: Usage) -> list[str]:
    """Return what a value is asked for whether it has it, and what is replaced where it lacks it."""
    replaced = [
        each for each in fields_of(usage, "") if (use := usage.get(f".{each}")) and use.replaced and not use.read
    ]
    return list(dict.fromkeys([*usage.get("", Use()).asked, *replaced]))


def _gives_number(name: str) -> bool:
    """Whether a function says by its name that it gives a number: `get_out_size`."""
    given = _GETTING.sub("", name)
    return given != name and any(map(is_number, usual_values(given)[:1]))


def _of_holder(owner: Value | None, slot: Slot, *, is_of_objects: bool) -> Iterator[Value]:
    """Yield what a field may be because of what it is a field of; `is_of_objects` says that its items are objects."""
    if not isinstance(owner, Group):
        return
    is_own = slot.name.startswith("_") and slot.kind is None
    if owner.style != "call" and (is_own or slot.use.optional) and (slot.kind in _LEFT_OUT or is_of_objects):
        # What an object may lack, or sets by itself, need not be made up.
        yield "None"
    if owner.style == "module" and slot.name == "parameters":
        yield "True"  # Which says that it has some.
    if owner.style == "mapping" and owner.head and slot.kind == "object":
        # Such a mapping gives its items as attributes, and takes no others.
        yield Group("mapping")


def _of_owner(choice: Choice, path: str, name: str) -> Iterator[Value]:
    """Yield calls of the classes that a class itself names for a parameter: `Net.config_class()` for `config`."""
    owner = choice.get(owner_of(path)[0])
    if isinstance(owner, Group) and owner.style == "call" and isinstance(owner.cls, type):
        for attribute in dir(owner.cls):
            found = inspect.getattr_static(owner.cls, attribute, None)
            if attribute.lower().startswith(f"{name}_cl") and isinstance(found, type):
                yield Group("call", f"{owner.head}.{attribute}", found)


def _owner_of_parameter(cls: Any, name: str) -> Any:
    """Return the callable that has a parameter: the one that is called, or a base that it hands its keywords on to."""
    lineage = cls.__mro__[1:] if isinstance(cls, type) else ()
    return next((each for each in (cls, *lineage) if name in every_parameter_of(each)), None)


def _is_wanted(parameter: inspect.Parameter) -> bool:
    """Whether a parameter has no default, one of a missing package, or that which says that it is missing."""
    default = parameter.default
    return default is parameter.empty or is_stand_in(default) or (isinstance(default, str) and default == _MISSING)


def _content_of(owner: Value | None) -> list[str]:
    """Return the parameter that says what is in a sequence which is empty by default, if its name tells what that is.

    So that of `e3nn.o3.Irreps` does: without it there are no numbers at all.
    """
    cls = owner.cls if isinstance(owner, Group) and owner.style == "call" else None
    if not isinstance(cls, type) or not issubclass(cls, Sequence):
        return []
    first = next(iter(parameters_of(cls).values()), None)
    return [first.name] if first is not None and not first.default and usual_values(first.name) else []


def _namespace(use: Use) -> Group:
    """Return an object with attributes, with a length where that is asked for."""
    head = f"type({use.titles[0]}, (SimpleNamespace,), {{}})" if use.titles else ""
    return Group("namespace", head, size=_SIZE if "sequence" in use.kinds else 0)


def _is_open(value: Value) -> bool:
    """Whether a value would be taken for the number of an open file, which would then be closed."""
    return isinstance(value, str) and isinstance(literal(value), int)


def _defaults(scope: Mapping[str, Any], cls: Any) -> dict[str, list[str]]:
    """Return the plain defaults that parameters of the same name have in other classes and functions of the file."""
    found: dict[str, list[str]] = {}
    module = getattr(cls, "__module__", None)
    for value in scope.values():
        if not (inspect.isclass(value) or inspect.isfunction(value)) or value.__module__ != module:
            continue
        for each in parameters_of(value).values():
            if isinstance(each.default, bool | int | float | str | tuple | list | dict) and _is_literal(each.default):
                found.setdefault(each.name, []).append(repr(each.default))
    # What most of them have comes first, wherever in the file they stand.
    return {
        name: sorted(dict.fromkeys(values), key=lambda each, all_=values: (-all_.count(each), each))
        for name, values in found.items()
    }


def _is_literal(value: Any) -> bool:
    try:
        return ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError):
        return False
