"""What stands for the things in packages that are not installed, so that what does not need them can be executed.

While something is imported a stand-in lets everything happen to it: it gives attributes, is called, decorates, is
a base class. Afterwards whoever calls it is told what is missing, but for constructors of models: what they make of it
is a part without a forward (`parts`). What is asserted of its kinds is so, for nobody knows better. A base that is
called a module, or of a class with a forward, is torch's.
"""

import contextlib
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final

from torch import Tensor, nn

from fxengine.errors import text_of
from fxengine.wrapping import find_proxy
from fxworker.absences import ABSENCES, NOWHERE, STAR
from fxworker.arrays import SQUARE, ones, shape_told
from fxworker.callers import (
    asserted,
    defines_forward,
    is_asserted,
    is_constructing,
    is_decorated,
    is_dropped,
    is_raised,
    is_to_import,
    reads_attribute,
    undecorated,
    wanted_by,
)
from fxworker.choices import parameters_of
from fxworker.guarded import is_prepared
from fxworker.having import is_assigned, is_assigned_later
from fxworker.keeping import AbsentBeside, kept
from fxworker.known_kernels import known_kernel
from fxworker.namesakes import HandingOn, handed_on, layer_in, namesake, shipped
from fxworker.parts import Part, PartNumber, part, unless_asserted
from fxworker.records import (
    CALLED,
    arguments_of,
    contained,
    converted,
    is_record,
    number_of,
    recorded,
)
from fxworker.versions import compared

_MODEL: Final = re.compile(r"(?<!Data)Module$")
"""What bases are called that are modules; one of data is none."""

_META: Final = re.compile(r"Meta([cC]lass)?$")
"""What metaclasses are called."""

_RAISED: Final = re.compile(r"[A-Z]\w*(Error|Exception|Warning)")
"""What classes of exceptions are called."""

_SAID: Final = ", which is not installed>"
"""How it ends what is shown of a stand-in."""

_ALSO: Final = "_also"
"""Where what stands for one of several classes has the others: `Box | Discrete`."""

_MEASURING: Final = re.compile(r"[a-z_\d]*(dims?|size|channels|width|length|count|num_[a-z]+)")
"""What functions are called that give a number, whatever they are given."""


_OF_PARAMETERS: Final = frozenset({"device", "dtype"})
"""What a base of modules tells of the parameters, where torch's own has no such attribute."""

_NO_PARAMETER: Final = nn.Parameter()


def beside(star: Any, name: str) -> Any:
    """Return what stands for something in the package from which everything was imported, as `star` says."""
    usual = handed_on(name)
    return _Absent(f"{star.__dict__['_path'].rpartition('.')[0]}.{name}") if usual is None else usual


def is_stand_in(value: Any) -> bool:
    """Whether a value came out of a package that is not installed."""
    kind = type(value)
    return kind in {_Absent, AbsentModule} or (
        isinstance(value, type) and issubclass(value, _AbsentBase) and not is_record(value)
    )


def as_part(value: Any) -> Any:
    """Return the part of a model that something stands for in a package that is not installed, another value as is."""
    return value._as_part() if type(value) is _Absent else value


def path_of(value: Any) -> str:
    """Return the full name of what a stand-in stands for, "" for a base class that is one."""
    return value.__name__ if isinstance(value, AbsentModule) else str(vars(value).get("_path", ""))


def _compared(one: "_Absent", other: object) -> int:
    """Return how a version is to another, while something is imported: one that is not known is new enough."""
    if not ABSENCES.permissive:
        raise ABSENCES.missing(one.__dict__["_path"])
    found = compared(_text_given(one), _text_given(other))
    return 1 if found is None else found


def _text_given(value: object) -> object:
    """Return what a call was given, such as the text of a version, for what it gave; another value as it is."""
    args, _ = vars(value).get(CALLED, ((), {})) if type(value) is _Absent else ((value,), {})
    return args[0] if args else None


def _attribute(path: str, name: str) -> Any:
    if re.fullmatch(r"__\w+__", name):
        if name in {"__version__", "__VERSION__"}:
            return ABSENCES.version_of(path)
        if name in {"__name__", "__qualname__"}:
            return path.rpartition(".")[2]
        if name == "__all__":
            return [STAR, *sorted(ABSENCES.starred)]
        raise AttributeError(name)
    kind = _RAISED.fullmatch(name)
    return _Absent(f"{path}.{name}") if kind is None else _exception(f"{path}.{name}", kind[1])


def _kept_attribute(owner: Any, path: str, name: str) -> Any:
    """Return an attribute of what stands for something by its full name, which is the same one every time."""
    found = _attribute(path, name)
    if type(found) is _Absent:
        owner.__dict__[name] = found
    return found


@lru_cache(maxsize=256)
def _exception(path: str, kind: str) -> type[Exception]:
    """Return a class of exceptions that nothing raises but the code itself: only such can be caught.

    What a model makes of one and does not raise is a part: what is called so may be an error that is measured.
    """
    name = path.rpartition(".")[2]
    if kind == "Warning":
        return types.new_class(name, (Warning,), exec_body=lambda body: body.update(__module__=path))

    def made(cls: type[Exception], *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if cls is own and not is_raised(frame) and (ABSENCES.permissive or is_constructing(frame)):
            return _Absent(path) if ABSENCES.permissive else _given(path, args, kwargs)
        return Exception.__new__(cls, *args, **kwargs)

    own = types.new_class(name, (Exception,), exec_body=lambda body: body.update(__module__=path, __new__=made))
    return own


def _run(path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], file: str) -> Any:
    """Return what a call of something absent gives while a model runs: what its name says, or a step of the graph.

    Args:
        path: Its full name.
        args: What it is called with.
        kwargs: What it is called with by name.
        file: Where it is called.

    Raises:
        ModuleNotFoundError: Nobody knows, and nothing records it. So it is as well where the call lies in another file
            than that which is looked at, which then imports nothing that is absent: nobody would be told.
    """
    known = namesake(path.rpartition(".")[2])
    if any(isinstance(each, Tensor) for each in (*args, *kwargs.values())):
        known = known_kernel(path) or known
    if isinstance(known, types.FunctionType):
        return known(*args, **kwargs)  # What its name says it does anywhere.
    symbolic = find_proxy((args, kwargs)) if file == ABSENCES.document else None
    if symbolic is not None:
        return symbolic.tracer.create_proxy("call_function", _step(path), args, dict(kwargs))
    raise ABSENCES.missing(path)


@lru_cache(maxsize=256)
def _step(path: str) -> types.FunctionType:
    """Return the function that a step of a graph calls in place of one that is absent, by its full name."""

    def step(*args: Any, **kwargs: Any) -> Any:
        if (known := known_kernel(path)) is not None:
            return known(*args, **kwargs)
        raise ABSENCES.missing(path)

    step.__module__, _, step.__name__ = path.rpartition(".")
    step.__qualname__ = step.__name__
    return step


class AbsentModule(types.ModuleType):
    """A module of a package that is not installed."""

    def __getattr__(self, name: str) -> Any:
        usual = handed_on(name) if name in ABSENCES.starred else None
        return _kept_attribute(self, self.__name__, name) if usual is None else usual


class _AbsentBase:
    """What a class has as its base that derives from something absent: it can be defined, not instantiated.

    One that has annotated fields and no constructor is data, and made of these.
    """

    _absent = ""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        if is_record(cls) or issubclass(cls, nn.Module):
            return super().__new__(cls)
        if ABSENCES.permissive:
            return _Absent(cls._absent)
        if is_constructing(sys._getframe(1)):
            return _part(cls._absent)
        raise ABSENCES.missing(cls._absent)

    def __init_subclass__(cls, **_kwargs: Any) -> None:
        super().__init_subclass__()
        recorded(cls)


class _AbsentModel(nn.Module):
    """What a class has as its base that derives from something absent which stands for a module: torch's own.

    What the class calls of the base for nothing that is kept, as `self.save_hyperparameters()`, does nothing, and what
    it reads that is called as a configuration has the arguments of the constructor, as its variables were by then. What
    the base was given by a name it has by that, and what it is made of as one of torch's layers, if it is called one.
    What else the constructor reads, and has not assigned, is the number that is usual for its name, or a part.
    """

    _absent = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Some bases spare their classes `super().__init__()`.
        made = super().__new__(cls)
        nn.Module.__init__(made)
        made.__dict__["_given"] = arguments_of(cls, args, kwargs)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Keep what it is given; a class may add this text to its own."""
        if "_modules" not in self.__dict__:
            super().__init__()
        self.__dict__["_handed"] = kwargs
        layer = layer_in(self._absent)
        if layer is not None:
            self._take_from(layer, args, kwargs)

    def _take_from(self, layer: type[nn.Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take over what one of torch's layers is made of; arguments that it does not know are those of another."""
        known = parameters_of(layer)
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            made = vars(layer(*args, **{name: each for name, each in kwargs.items() if name in known}))
            own = vars(self)
            own.update({**made, **own, "_parameters": {**made["_parameters"], **own["_parameters"]}})

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_handed", ()):
            return self.__dict__["_handed"][name]
        frame = sys._getframe(1)
        found = kept(self, name, frame)
        if found is not NotImplemented:
            return found
        if name in _OF_PARAMETERS and not is_assigned(type(self), name):
            return getattr(next(self.parameters(), _NO_PARAMETER), name)
        is_own = is_assigned(type(self), name) and not is_assigned_later(name, frame)
        if reads_attribute(frame) and is_constructing(frame) and not is_own:
            # What the base computes of its arguments, or has made.
            made, found = _part(f"{self._absent}.{name}"), number_of(name)
            return made if found is None else PartNumber.of(found, made) if type(found) is int else found
        return super().__getattr__(name)

    def __delattr__(self, name: str) -> None:
        with contextlib.suppress(AttributeError):  # What the base has made is not wanted.
            super().__delattr__(name)


def lacks_base(value: Any) -> bool:
    """Whether what a value has not may be what a base that is absent has."""
    return isinstance(value, _AbsentModel | AbsentBeside)


def names_stand_in(error: BaseException) -> bool:
    """Whether an exception shows something that stands in for what is absent."""
    return _SAID in text_of(error)


def speaks_of_stand_in(error: BaseException) -> bool:
    """Whether an exception names the class of something that stands in for what is absent."""
    return f"<class '{__package__}." in text_of(error)


def _computed(operation: Callable[..., Any], *, reflected: bool = False) -> Callable[..., Any]:
    """Return a method that lets something be computed with a stand-in while something is imported.

    To a constructor it is the number that is usual for its name.
    """

    def compute(self: "_Absent", *others: Any) -> Any:
        if ABSENCES.permissive:
            return self
        if not is_constructing(sys._getframe(1)):
            raise ABSENCES.missing(self.__dict__["_path"])
        made = self._as_part()
        number = PartNumber.of(int(made), made)
        return operation(*others, number) if reflected else operation(number, *others)

    return compute


class _Absent:
    """Anything that is not a module in a package that is not installed."""

    def __new__(cls, path: str) -> Any:
        """Return what stands for something by its full name."""
        made = super().__new__(cls)
        made.__dict__["_path"] = path
        return made

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        """Take what a class gives that calls it on itself, `absent.Base.__init__(self, width)`, or adds its text."""

    def __getnewargs__(self) -> tuple[str]:
        # Settings of a package are copied: `deepcopy(absent.settings)`.
        return (self.__dict__["_path"],)

    def __getattr__(self, name: str) -> Any:
        return _kept_attribute(self, self.__dict__["_path"], name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (made := contained(self.__dict__["_path"], args, kwargs)) is not None:
            return made
        if (file := shipped(self.__dict__["_path"], args)) is not None:
            return file
        if not ABSENCES.permissive:
            if not is_constructing(sys._getframe(1)):
                return _run(self.__dict__["_path"], args, kwargs, sys._getframe(1).f_code.co_filename)
            return self if is_dropped(sys._getframe(1)) else _given(self.__dict__["_path"], args, kwargs)
        if tuple(map(type, args)) == (str, tuple, dict) and "__qualname__" in args[2]:
            return type(*args)  # The metaclass of a class that is defined.
        if len(args) == 1 and not kwargs and is_decorated(args[0], sys._getframe(1)):
            return self._decorating(undecorated(args[0]))
        if is_prepared(sys._getframe(1)):
            raise ABSENCES.missing(self.__dict__["_path"])
        made = _Absent(self.__dict__["_path"])
        made.__dict__[CALLED] = (args, kwargs)
        return made

    def _decorating(self, value: Any) -> Any:
        """Return a definition, a function with the attributes that are asked for of what is decorated."""
        if isinstance(value, types.FunctionType):
            for name in ABSENCES.of_decorated:
                vars(value).setdefault(name, _attribute(self.__dict__["_path"], name))
        return value

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        path = self.__dict__["_path"]
        before = bases[: _index(bases, self)]
        if any(is_stand_in(each) and each is not self for each in before):
            return ()
        if nn.Module in before:
            return (type(path.rpartition(".")[2], (AbsentBeside,), {"_absent": path}),)
        name = path.rpartition(".")[2]
        if _META.search(name) is not None:
            return () if any(isinstance(each, type) and issubclass(each, type) for each in bases) else (type,)
        is_model = _MODEL.search(name) is not None or defines_forward(sys._getframe(1))
        return (type(name, (_AbsentModel if is_model else _AbsentBase,), {"_absent": path}),)

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        return None

    def __or__(self, other: Any) -> Any:
        if type(other) is not _Absent:
            return self
        either = _Absent(self.__dict__["_path"])
        either.__dict__[_ALSO] = (*self.__dict__.get(_ALSO, ()), other)
        return either

    def __ror__(self, other: Any) -> Any:
        return self

    __add__, __radd__ = _computed(operator.add), _computed(operator.add, reflected=True)
    __sub__, __rsub__ = _computed(operator.sub), _computed(operator.sub, reflected=True)
    __mul__, __rmul__ = _computed(operator.mul), _computed(operator.mul, reflected=True)
    __truediv__, __rtruediv__ = _computed(operator.truediv), _computed(operator.truediv, reflected=True)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv), _computed(operator.floordiv, reflected=True)
    __mod__, __pow__, __rpow__ = (
        _computed(operator.mod),
        _computed(operator.pow),
        _computed(operator.pow, reflected=True),
    )
    __and__, __rand__ = _computed(operator.and_), _computed(operator.and_, reflected=True)
    __xor__, __lshift__, __rshift__ = map(_computed, (operator.xor, operator.lshift, operator.rshift))
    __neg__, __invert__, __abs__ = map(_computed, (operator.neg, operator.invert, operator.abs))

    @unless_asserted
    def __eq__(self, other: object) -> Any:
        # Of a column each row is compared, so there is more to what comes out than that it is not true.
        return True if other is self else self if ABSENCES.permissive else NotImplemented

    @unless_asserted
    def __ne__(self, other: object) -> Any:
        return False if other is self else self if ABSENCES.permissive else NotImplemented

    __hash__ = object.__hash__

    @unless_asserted
    def __ge__(self, other: object) -> bool:
        return _compared(self, other) >= 0

    @unless_asserted
    def __gt__(self, other: object) -> bool:
        return _compared(self, other) > 0

    @unless_asserted
    def __lt__(self, other: object) -> bool:
        return _compared(self, other) < 0

    @unless_asserted
    def __le__(self, other: object) -> bool:
        return _compared(self, other) <= 0

    def __int__(self) -> int:
        if ABSENCES.permissive or not is_constructing(sys._getframe(1)):
            return 0
        return int(self._as_part())

    __index__ = __int__

    def __array__(self, *_dtype: Any, **_options: Any) -> Any:
        if ABSENCES.permissive:
            return ones(())
        if not is_constructing(sys._getframe(1)):
            raise ABSENCES.missing(self.__dict__["_path"])
        return self._as_part().__array__()

    def _as_part(self) -> Part:
        return _part(self.__dict__["_path"])

    def __fspath__(self) -> str:
        return f"{NOWHERE}/{self.__dict__['_path']}"

    def __iter__(self) -> Iterator[Any]:
        return iter([self] * wanted_by(sys._getframe(1)))

    def __len__(self) -> int:
        # Of a table there are as many rows to a constructor as an array has of which nothing is known.
        return 0 if ABSENCES.permissive or not is_constructing(sys._getframe(1)) else len(self._as_part())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __instancecheck__(self, instance: Any) -> bool:
        # What stands for something bears its name.
        made = isinstance(instance, SimpleNamespace | Part | HandingOn)
        names = made and type(instance).__name__ == self.__dict__["_path"].rpartition(".")[2]
        is_one = names or any(isinstance(instance, each) for each in self.__dict__.get(_ALSO, ()))
        # Of what is absent itself nobody knows what else it might be.
        is_any = is_array(instance)
        return is_one or asserted(sys._getframe(1), or_else=is_any) is True

    @property
    def __bases__(self) -> tuple[type, ...]:
        # With these `issubclass` takes it for a class.
        return ()

    def __subclasscheck__(self, subclass: type) -> bool:
        return is_asserted(sys._getframe(1))

    def __bool__(self) -> bool:
        # Whether something is there, or new enough, is told by a package that is not there: nobody knows better.
        frame = sys._getframe(1)
        return is_asserted(frame) or is_to_import(frame)

    def __repr__(self) -> str:
        # What it was called with may be a version that the code takes, and says.
        given = _text_given(self) if CALLED in self.__dict__ else None
        return f"<{self.__dict__['_path']}{f'({given!r})' if isinstance(given, str) else ''}{_SAID}"


def _given(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what stands for what a call gives that a model makes while it is constructed."""
    found = converted(path, args, kwargs)
    name = path.rpartition(".")[2]
    known = namesake(name)
    if found is None and known is not None:
        # Arguments that torch's layer does not know are those of another thing.
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return known(*args, **kwargs)
    # What a class gives is no number.
    is_number = (not (args or kwargs) and not name[:1].isupper()) or _MEASURING.fullmatch(name)
    found = number_of(path) if found is None and is_number else found
    return _part(path, shape_told(args, kwargs)) if found is None else found


def _part(path: str, shape: tuple[int, ...] = SQUARE) -> Part:
    """Return what stands for a part of a model, or for an array of a shape."""
    return part(path, ABSENCES.missing(path), _attribute, shape)


def is_array(value: Any) -> bool:
    """Whether a value may stand for an array that an absent package makes."""
    return isinstance(value, Part) or type(value) is _Absent


def _index(values: tuple[Any, ...], value: Any) -> int:
    return next(index for index, each in enumerate(values) if each is value)
