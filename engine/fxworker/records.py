"""Data as packages of configurations have it, in place of those that are not installed: mappings with attributes.

A configuration is no part of a model, and what these packages do with one is the same in all of them: it is filled by
attributes or by items, copied, merged, frozen, and made a plain dictionary again. So are the records of those packages
that make a constructor of a class's annotations.
"""

import argparse
import contextlib
import copy
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, Self

from torch import Tensor, nn

from fxworker.choices import is_number, literal, parameters_of
from fxworker.conventions import is_configuration, usual_values

_CONVERTING: Final = re.compile(
    r"to_(container|object|dict|list|primitive|tuple)|create|\w*[dD]ict(Config)?|\w*Box|Munch"
)
"""What is called that gives data in another form."""

_CONTAINER: Final = re.compile(r"(\w*[a-z])?(Dict|DictConfig|ConfigDict|CfgNode|ConfigNode|Munch)|edict|CN")
"""What is called that makes a configuration, of nothing or of a mapping."""

_MERGING: Final = re.compile(r"(deep_?|recursive_?)?(merge|update)(_\w*(dicts?|configs?|cfgs?|params))?")
"""What is called that makes one mapping of several."""

CALLED: Final = "_called"
"""Where what stands for what a call gave has the arguments of that: `Field(3, ge=1)`."""

KEEPING: Final = re.compile(r"_*(save|set|store|keep|register)_(hyper_?param\w*|h?params|config\w*|options)")
"""What is called that keeps a configuration."""

_PROCESSES: Final = re.compile(r"(get_)?(\w+_)?world_?size")
_PROCESS: Final = re.compile(r"(get_)?(\w+_)?rank")

_IDLE: Final = frozenset({"freeze", "defrost", "lock", "unlock", "merge_from_file", "merge_from_list"})
"""Methods of configurations that leave what is known of one as it is."""


_PLAIN: Final = frozenset({"todict", "to_dict", "toDict", "as_dict", "asdict"})
"""Methods that give what is in one as a plain dictionary."""


class Record(dict[str, Any]):
    """A mapping whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name in _IDLE:
            return _do_nothing
        if name in _PLAIN and name not in self:
            return lambda: copy.deepcopy(dict(self))
        if name not in self:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        value = self[name]
        if type(value) in {dict, list}:
            value = self[name] = _with_attributes(value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)({key: copy.deepcopy(value, memo) for key, value in self.items()})

    def copy(self) -> Self:
        """Return a mapping with the same items."""
        return type(self)(self)

    def clone(self) -> Self:
        """Return a copy that shares nothing."""
        return copy.deepcopy(self)


def _with_attributes(data: Any) -> Any:
    """Return data whose mappings are records, those in lists too."""
    if type(data) is list:
        return [_with_attributes(each) for each in data]
    return Record(data) if type(data) is dict else data


class Options(Record):
    """What a base keeps of the arguments of a constructor; what was not among them is what is usual for its name."""

    def __getattr__(self, name: str) -> Any:
        found = number_of(name) if name not in self else None
        return super().__getattr__(name) if found is None else found

    def __missing__(self, name: str) -> Any:
        found = number_of(name)
        if found is None:
            raise KeyError(name)
        return found


def number_of(path: str) -> int | float | None:
    """Return the number that something of a name usually is, None where it is none."""
    name = path.rpartition(".")[2]
    if _PROCESSES.fullmatch(name):
        return 1
    if _PROCESS.fullmatch(name):
        return 0
    found = next(iter(usual_values(name.removeprefix("get_"))), "")
    return literal(found) if is_number(found) else None


def contained(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Record | None:
    """Return the configuration that a call makes, of nothing or of a mapping; None for another call."""
    name = path.rpartition(".")[2]
    several = [each for each in args if isinstance(each, Mapping)]
    if several and is_configuration(name) and all(each is None or isinstance(each, Mapping) for each in args):
        # What is given comes before what there is by default: `HParams(options, defaults)`.
        return _merged([*several[::-1], kwargs])
    if not _CONTAINER.fullmatch(name) or len(args) > 1:
        return None
    given: Any = args[0] if args else {}
    if isinstance(given, Iterator | list):
        # Keys with their values.
        with contextlib.suppress(TypeError, ValueError):
            given = dict(given)
    return Record({**given, **kwargs}) if isinstance(given, Mapping) else None


def converted(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the data that a call gives in another form, with items that are attributes too; None for another call."""
    name = path.rpartition(".")[2]
    if args and not kwargs and _MERGING.fullmatch(name):
        return _merged(args)
    if not _CONVERTING.fullmatch(name):
        return None
    if not args and kwargs:
        return Record(kwargs)
    is_data = len(args) == 1 and not isinstance(args[0], nn.Module | Tensor) and not callable(args[0])
    if not is_data or not all(isinstance(each, bool) for each in kwargs.values()):
        return None
    data: Any = entries_of(args[0])
    return Record(data) if type(data) is dict else data


def _merged(several: Sequence[Any]) -> Record | None:
    """Return a mapping with the items of several, of which the last counts; None where they are no mappings."""
    mappings = [entries_of(each) for each in several if each is not None]
    if not mappings or not all(isinstance(each, Mapping) for each in mappings):
        return None
    found = Record()
    for each in mappings:
        for key, value in each.items():
            before = found.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            found[key] = _merged((before, value)) if both else value
    return found


def entries_of(data: Any) -> Any:
    """Return the dictionary of what an object's attributes are that only holds data, other data as they are."""
    if isinstance(data, SimpleNamespace | argparse.Namespace):
        return {key: entries_of(value) for key, value in vars(data).items()}
    return data


def _do_nothing(*_args: Any, **_kwargs: Any) -> None:
    """Stand for a method that has nothing to do here."""


def recorded(cls: type) -> None:
    """Give a class that has annotated fields and no constructor of its own one that takes these."""
    if is_record(cls) and inspect.getattr_static(cls, "__init__") is object.__init__:
        cls.__init__ = _fill
        given = [name for name in _fields(cls) if not _is_set_inside(cls, name)]
        kinds = ((name, inspect.signature(_fill).parameters["given"].replace(name=name)) for name in given)
        cls.__signature__ = inspect.Signature(
            [
                each.replace(kind=each.KEYWORD_ONLY, default=_default(cls, name), annotation=_fields(cls)[name])
                for name, each in kinds
            ]
        )


def is_record(cls: type) -> bool:
    """Whether a class is one of data: it has annotated fields, and a constructor that comes of them or none."""
    constructor = inspect.getattr_static(cls, "__init__", None)
    return bool(_fields(cls)) and (
        constructor in {object.__init__, _fill} or any("__dataclass_fields__" in vars(each) for each in cls.__mro__)
    )


def _fields(cls: type) -> dict[str, Any]:
    """Return the annotated fields of a class, and of those it inherits from."""
    found: dict[str, Any] = {}
    for each in cls.__mro__[-2::-1]:
        try:
            found |= inspect.get_annotations(each)
        except NameError:
            continue  # One that is evaluated late names what is imported for the checker of types alone.
    return {name: hint for name, hint in found.items() if name[0] != "_" and "ClassVar" not in str(hint)}


def _fill(self: Any, *args: Any, **given: Any) -> None:
    """Give an object its fields."""
    fields = _fields(type(self))
    values = {**dict(zip(fields, args, strict=False)), **given}
    defaults = {name: _default(type(self), name) for name in fields if name not in values}
    unknown = [name for name, each in defaults.items() if each is inspect.Parameter.empty]
    missing = [name for name in unknown if not _is_set_inside(type(self), name)]
    if missing:
        names = " and ".join(map(repr, missing))
        text = f"{type(self).__name__}.__init__() missing {len(missing)} required keyword-only arguments: {names}"
        raise TypeError(text)
    vars(self).update(copy.deepcopy({name: each for name, each in defaults.items() if name not in unknown}))
    vars(self).update((name, value) for name, value in values.items() if name in fields)
    for name in ("__post_init__", "__attrs_post_init__"):
        getattr(self, name, _do_nothing)()


def _is_set_inside(cls: type, name: str) -> bool:
    """Whether a field is no argument, and gets its value from what the class does itself."""
    found = inspect.getattr_static(cls, name, None)
    return isinstance(found, dataclasses.Field) and not found.init


def _default(cls: type, name: str) -> Any:
    """Return the default of a field; `Parameter.empty` where it has none, or one that nobody knows."""
    found = inspect.getattr_static(cls, name, inspect.Parameter.empty)
    if isinstance(found, dataclasses.Field):
        made = _made_by(found.default_factory) if callable(found.default_factory) else found.default
        return inspect.Parameter.empty if made is dataclasses.MISSING else made
    if type(found).__name__ in {"member_descriptor", "property"}:
        return inspect.Parameter.empty
    args, kwargs = vars(found).get(CALLED, ((), None)) if hasattr(found, "__dict__") else ((), None)
    if kwargs is None:
        return found
    if factory := kwargs.get("default_factory", kwargs.get("factory")):
        return _made_by(factory)
    default = kwargs.get("default", *args[:1]) if args else kwargs.get("default", ...)
    return inspect.Parameter.empty if default is ... else default


def _made_by(factory: Callable[[], Any]) -> Any:
    """Return the default that a function makes; `Parameter.empty` where it makes none, and one has to be given."""
    try:
        return factory()
    except Exception:  # noqa: BLE001 — User code raises whatever it likes.
        return inspect.Parameter.empty


def arguments_of(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor by their names, defaults among them; none where they do not fit.

    What the constructors of its bases have by default is among them.
    """
    constructor = inspect.getattr_static(cls, "__init__", None)
    if not inspect.isfunction(constructor):
        return {}
    signature = inspect.signature(constructor)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError:
        return {}
    bound.apply_defaults()
    _, *found = bound.arguments.items()
    several = {name for name, each in signature.parameters.items() if each.kind is each.VAR_KEYWORD}
    return inherited_by(cls) | {
        key: value for name, given in found for key, value in (given.items() if name in several else [(name, given)])
    }


def inherited_by(cls: type) -> dict[str, Any]:
    """Return what the constructors of a class's bases have by default."""
    bases = [parameters_of(each) for each in cls.__mro__[-2:0:-1]]
    return {name: each.default for base in bases for name, each in base.items() if each.default is not each.empty}
