"""Stand-ins for third-party packages that are not installed, so that what does not need them can still be executed.

A file may import, through ten other modules, a package that only its data loading wants. Such an import gets a
stand-in, and the person is told; one that the code guards itself, as in `try: import xformers`, fails as it is meant
to. While something is imported a stand-in lets everything happen to it: it gives attributes, is called, decorates, is
a base class. Afterwards whoever calls it is told what is missing, but for constructors of models: what they make of it
is a part without a forward (`parts`). A base that is called a module, or of a class with a forward, is torch's.
"""

import ast
import builtins
import contextlib
import importlib.machinery
import linecache
import os
import re
import sys
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeVar

from torch import nn

from fxengine.syntax import tree_of
from fxworker.arrays import SQUARE, shape_told
from fxworker.callers import (
    calls_attribute,
    defines_forward,
    is_constructing,
    is_decorated,
    is_dropped,
    parsed,
    reads_attribute,
    undecorated,
    wanted_by,
)
from fxworker.compiling import leave_unscripted
from fxworker.conventions import is_configuration
from fxworker.having import is_assigned
from fxworker.namesakes import HandingOn, namesake
from fxworker.parts import Part, part
from fxworker.records import CALLED, Options, arguments_of, contained, converted, is_record, number_of, recorded
from fxworker.versions import NEWEST, REFUSING, compared, place_of_raise, wanted

_NOWHERE: Final = "/nonexistent"
"""Where the files of a package lie that is not installed."""

_COMPILED: Final = re.compile(r"\.(_C|_ext|_cuda|\w+_(cuda|ext|cpp|kernels))$")
"""Names of modules that are compiled, which an installation, or a project that was only downloaded, may lack."""

_CATCHING: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})

_MOST_REFUSALS: Final = 4
"""How often code may ask for another version until it is left as it is."""

_STAR: Final = "everything_of_what_is_not_installed"
"""The name that importing everything of an absent package gives; one with `_` would not be passed on."""

_Result = TypeVar("_Result")


_MODEL: Final = re.compile(r"(?<!Data)Module$")
"""What bases are called that are modules; one of data is none."""


_MEASURING: Final = re.compile(r"[a-z_\d]*(dims?|size|channels|width|length|count|num_[a-z]+)")
"""What functions are called that give a number, whatever they are given."""

_OURS: Final = __file__.rpartition("/")[0] + "/"


class StandIns(Loader):
    """Gives modules to packages that are not installed. Mutable; one in a process, last on `sys.meta_path`.

    Attributes:
        names: The packages that it stands in for, compiled parts of others, and parts of those that several fill.
        found: How each of them was asked for that nobody has asked about yet.
        permissive: Whether something is being imported.
        starred: The names that were asked for of packages of which everything is imported.
        version: What they say that their version is.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.starred: set[str] = set()
        self.version = NEWEST
        self.found: list[ModuleNotFoundError] = []
        self.permissive = 0

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of a package that is stood in for, from now on if it must be."""
        del path, target
        if not self.absent_in(fullname):
            is_separate = "." not in fullname or _COMPILED.search(fullname) is not None or _is_shared(fullname)
            if not is_separate or not self.permissive or not (way := _unguarded()):
                return None
            if not self.names:
                leave_unscripted()
            self.names.add(fullname)
            self.found.append(_not_found(fullname).with_traceback(way))
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = []
        return spec

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Yield the metadata of a package that is stood in for, which is asked for its version."""
        asked = str(context.name or "").replace("-", "_").lower()
        yield from (_AbsentDistribution(each) for each in self.names if each.lower() == asked)

    def absent_in(self, path: str) -> str:
        """Return the name of what is stood in for that a path leads into, "" where it leads into nothing of it."""
        parts = path.split(".")
        names = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return next((each for each in names if each in self.names), "")

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Return the stand-in."""
        return _AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: there is nothing to execute."""

    @contextlib.contextmanager
    def permitting(self) -> Generator[None]:
        """Let everything be done with stand-ins in the body, and new ones be made."""
        if self not in sys.meta_path:
            sys.meta_path.append(self)
        self.permissive += 1
        try:
            yield
        finally:
            self.permissive -= 1


class _AbsentDistribution(Distribution):
    """The metadata of a package that is not installed: its name and a version."""

    def __init__(self, name: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {_STAND_INS.version}\n"

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata, None for one that there is not."""
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return where a file of the package would lie."""
        return Path(_NOWHERE, path)


_STAND_INS: Final = StandIns()


def importing(work: Callable[[], object]) -> list[ModuleNotFoundError]:
    """Do what imports something, with stand-ins for packages that are missing, and return what was missing.

    Raises:
        BaseException: What it raises for another reason, or although the package is stood in for.
    """
    with _STAND_INS.permitting():
        _with_versions(lambda: with_stars(work))
    found, _STAND_INS.found = _STAND_INS.found, []
    return found


def _with_versions(work: Callable[[], object]) -> None:
    """Import something, where need be with versions of what is absent that the code takes.

    What one version lets be imported stays so; what comes after it may ask for that of another package.
    """
    refused = _refused(work, REFUSING)
    for _ in range(_MOST_REFUSALS if _STAND_INS.names else 0):
        before = refused
        refused = _past(before, work) if before is not None else None
        if refused is None or refused is before:
            break
    if refused is not None:
        raise refused


def _past(refused: BaseException, work: Callable[[], object]) -> BaseException | None:
    """Return what is raised after a refusal with a version that it takes, or the refusal; None where nothing is."""
    for version in wanted(refused):
        _STAND_INS.version = version
        try:
            error = _refused(work, Exception)
        finally:
            _STAND_INS.version = NEWEST
        if error is None:
            return None
        if place_of_raise(error) != place_of_raise(refused):
            return _refused(work, REFUSING)
    return refused


def _refused(work: Callable[[], object], kinds: type[Exception] | tuple[type[Exception], ...]) -> BaseException | None:
    """Do something, and return what it raised of some kinds."""
    try:
        work()
    except kinds as error:
        return error
    return None


def with_stars(work: Callable[[], _Result]) -> _Result:
    """Do something, again as often as a name is missing that may come out of `from absent import *`.

    Raises:
        BaseException: What it raises for another reason.
    """
    while True:
        try:
            return work()
        except NameError as error:
            if not _supplied(error):
                raise


def _supplied(error: NameError) -> bool:
    """Whether a name that was missing is there now: that of something in a package of which everything was imported."""
    way = error.__traceback__
    while way is not None and way.tb_next is not None:
        way = way.tb_next
    scope = way.tb_frame.f_globals if way is not None else {}
    name, star = error.name, scope.get(_STAR)
    if not name or name in scope or not is_stand_in(star):
        return False
    _STAND_INS.starred.add(name)
    # What imports everything from a module that did the same has it from there.
    for each in (scope, *(getattr(module, "__dict__", {}) for module in [*sys.modules.values()])):
        if is_stand_in(each.get(_STAR)):
            each.setdefault(name, _beside(each[_STAR], name))
    return True


def give_starred(namespace: dict[str, Any], tree: ast.Module) -> None:
    """Give a file the names that it uses and defines nowhere, if it imported everything from an absent package."""
    star = namespace.get(_STAR)
    if not is_stand_in(star):
        return
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if not isinstance(each.ctx, ast.Load)} | set(dir(builtins))
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.arg(arg=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case _:
                pass
    for each in names:
        if each.id not in bound:
            namespace.setdefault(each.id, _beside(star, each.id))


def _beside(star: Any, name: str) -> Any:
    """Return what stands for something in the package from which everything was imported, as `star` says."""
    return _Absent(f"{star.__dict__['_path'].rpartition('.')[0]}.{name}")


def is_still_absent() -> bool:
    """Whether none of the packages that are stood in for was installed in the meantime."""
    return all(importlib.machinery.PathFinder.find_spec(name, _place_of(name)) is None for name in _STAND_INS.names)


def _is_shared(name: str) -> bool:
    """Whether a module would be in a package that several distributions fill, and that is none of the project's."""
    around = sys.modules.get(name.rpartition(".")[0])
    if around is None or getattr(around, "__file__", None) is not None:
        return False
    return not any(str(each).startswith(os.getcwd()) for each in getattr(around, "__path__", ()))


def _place_of(name: str) -> Sequence[str] | None:
    """Return the folders that a module is looked for in, None for those of every package."""
    around = name.rpartition(".")[0]
    return getattr(sys.modules.get(around), "__path__", []) if around else None


def is_stand_in(value: Any) -> bool:
    """Whether a value came out of a package that is not installed."""
    kind = type(value)
    return kind in {_Absent, _AbsentModule} or (
        isinstance(value, type) and issubclass(value, _AbsentBase) and not is_record(value)
    )


def path_of(value: Any) -> str:
    """Return the full name of what a stand-in stands for, "" for a base class that is one."""
    return value.__name__ if isinstance(value, _AbsentModule) else str(vars(value).get("_path", ""))


def _unguarded() -> types.TracebackType | None:
    """Return the way to an import that is going on, None where something on it is prepared for the import to fail."""
    frame: types.FrameType | None = sys._getframe(2)
    way: types.TracebackType | None = None
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        path, line = frame.f_code.co_filename, frame.f_lineno
        if path.startswith("<frozen importlib.util"):
            return None  # It only asks whether there is one.
        if not path.startswith("<frozen"):
            # A module may be executed statement by statement, without the handlers that stand around them.
            may_catch = frame.f_code.co_exceptiontable or frame.f_code.co_name == "<module>"
            if may_catch and any(first <= line <= last for first, last in _guarded("".join(linecache.getlines(path)))):
                return None
            way = types.TracebackType(way, frame, frame.f_lasti, line)
        frame = frame.f_back
    return way


@lru_cache(maxsize=256)
def _guarded(text: str) -> tuple[tuple[int, int], ...]:
    """Return the lines of a text, from and to, in which it catches that something cannot be imported."""
    found: list[tuple[int, int]] = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
            found.append((node.body[0].lineno, node.body[-1].end_lineno or 0))
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(each.context_expr) for each in node.items):
            found.append((node.lineno, node.end_lineno or 0))
    return tuple(found)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches an `ImportError`, and does not only raise it, or another, again."""
    if isinstance(handler.body[-1], ast.Raise):
        return False
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = ("Exception" if each is None else ast.unparse(each).rpartition(".")[2] for each in kinds)
    return any(name in _CATCHING for name in names)


def _not_found(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named '{name}'", name=name)


def _refuse(path: str) -> NoReturn:
    raise _not_found(_STAND_INS.absent_in(path) or path.partition(".")[0])


def _compared(one: "_Absent", other: object) -> int:
    """Return how a version is to another, while something is imported: one that is not known is new enough."""
    if not _STAND_INS.permissive:
        _refuse(one.__dict__["_path"])
    found = compared(_text_given(one), _text_given(other))
    return 1 if found is None else found


def _text_given(value: object) -> object:
    """Return what a call was given, such as the text of a version, for what it gave; another value as it is."""
    args, _ = vars(value).get(CALLED, ((), {})) if type(value) is _Absent else ((value,), {})
    return args[0] if args else None


def _attribute(path: str, name: str) -> Any:
    if re.fullmatch(r"__\w+__", name):
        if name in {"__version__", "__VERSION__"}:
            return _STAND_INS.version
        if name in {"__name__", "__qualname__"}:
            return path.rpartition(".")[2]
        if name == "__all__":
            return [_STAR, *sorted(_STAND_INS.starred)]
        raise AttributeError(name)
    return _Absent(f"{path}.{name}")


class _AbsentModule(types.ModuleType):
    """A module of a package that is not installed."""

    def __getattr__(self, name: str) -> Any:
        return _attribute(self.__name__, name)


class _AbsentBase:
    """What a class has as its base that derives from something absent: it can be defined, not instantiated.

    One that has annotated fields and no constructor is data, and made of these.
    """

    _absent = ""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        if is_record(cls):
            return super().__new__(cls)
        if _STAND_INS.permissive:
            return _Absent(cls._absent)
        if is_constructing(sys._getframe(1)):
            return _part(cls._absent)
        _refuse(cls._absent)

    def __init_subclass__(cls, **_kwargs: Any) -> None:
        super().__init_subclass__()
        recorded(cls)


class _AbsentModel(nn.Module):
    """What a class has as its base that derives from something absent which stands for a module: torch's own.

    What the class calls of the base for nothing that is kept, as `self.save_hyperparameters()`, does nothing, and what
    it reads that is called as a configuration has the arguments of the constructor, as its variables were by then. What
    the constructor reads, and nothing assigns, is the number that is usual for its name.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Some bases spare their classes `super().__init__()`.
        made = super().__new__(cls)
        nn.Module.__init__(made)
        made.__dict__["_given"] = arguments_of(cls, args, kwargs)
        return made

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        if "_modules" not in self.__dict__:
            super().__init__()

    def __getattr__(self, name: str) -> Any:
        if name in _called_for_nothing(type(self)) and name not in self.__dict__.get("_modules", ()):
            return self._keep_arguments
        if is_configuration(name) and "_given" in self.__dict__ and not calls_attribute(sys._getframe(1)):
            # What a base keeps of the arguments.
            return self.__dict__.setdefault(name, Options(self.__dict__["_given"]))
        frame = sys._getframe(1)
        if reads_attribute(frame) and is_constructing(frame) and not is_assigned(type(self), name):
            # What the base computes of its arguments.
            found = number_of(name)
            if found is not None:
                return found
        return super().__getattr__(name)

    def _keep_arguments(self, *_args: Any, **_kwargs: Any) -> None:
        """Stand for a method of the base, which may look at what the constructor made of its arguments."""
        variables = sys._getframe(1).f_locals
        if variables.get("self") is self:
            given = self.__dict__["_given"]
            given.update((name, variables[name]) for name in given if name in variables)


def lacks_base(value: Any) -> bool:
    """Whether what a value has not may be what a base that is absent has."""
    return isinstance(value, _AbsentModel)


@lru_cache(maxsize=256)
def _called_for_nothing(cls: type) -> frozenset[str]:
    """Return the methods that a class and its bases call on themselves without keeping what they give."""
    own = [each for each in cls.__mro__ if not (each.__module__.startswith("torch.") or each is object)]
    names, found = {each.__name__ for each in own}, set[str]()
    for path in {getattr(sys.modules.get(each.__module__), "__file__", None) for each in own}:
        tree = tree_of(path) if isinstance(path, str) and path != __file__ else None
        for node in ast.walk(tree) if tree is not None else ():
            for each in ast.walk(node) if isinstance(node, ast.ClassDef) and node.name in names else ():
                match each:
                    case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))):
                        found.add(name)
                    case _:
                        pass
    return frozenset(found)


class _Absent:
    """Anything that is not a module in a package that is not installed."""

    def __new__(cls, path: str) -> Any:
        """Return what stands for something by its full name."""
        made = super().__new__(cls)
        made.__dict__["_path"] = path
        return made

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        # A class may call it on itself: `absent.Base.__init__(self, width)`.
        pass

    def __getattr__(self, name: str) -> Any:
        return _attribute(self.__dict__["_path"], name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (made := contained(self.__dict__["_path"], args, kwargs)) is not None:
            return made
        if not _STAND_INS.permissive:
            if not is_constructing(sys._getframe(1)):
                _refuse(self.__dict__["_path"])
            return self if is_dropped(sys._getframe(1)) else _given(self.__dict__["_path"], args, kwargs)
        if len(args) == 1 and not kwargs and is_decorated(args[0], sys._getframe(1)):
            return undecorated(args[0])
        made = _Absent(self.__dict__["_path"])
        made.__dict__[CALLED] = (args, kwargs)
        return made

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        path = self.__dict__["_path"]
        if any(is_stand_in(each) and each is not self for each in bases[: _index(bases, self)]):
            return ()
        name = path.rpartition(".")[2]
        is_model = _MODEL.search(name) is not None or defines_forward(sys._getframe(1))
        return (type(name, (_AbsentModel if is_model else _AbsentBase,), {"_absent": path}),)

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        return None

    def __or__(self, other: Any) -> Any:
        return self

    def __ror__(self, other: Any) -> Any:
        return self

    def _computed(self, *_others: Any) -> Any:
        """Let something be computed with it, while something is imported."""
        if not _STAND_INS.permissive:
            _refuse(self.__dict__["_path"])
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __rand__ = _computed
    __xor__ = __lshift__ = __rshift__ = __neg__ = __invert__ = __abs__ = _computed

    def __ge__(self, other: object) -> bool:
        return _compared(self, other) >= 0

    def __gt__(self, other: object) -> bool:
        return _compared(self, other) > 0

    def __lt__(self, other: object) -> bool:
        return _compared(self, other) < 0

    def __le__(self, other: object) -> bool:
        return _compared(self, other) <= 0

    def __int__(self) -> int:
        if _STAND_INS.permissive or not is_constructing(sys._getframe(1)):
            return len(self)
        return int(self._as_part())

    __index__ = __int__

    def __array__(self, *_dtype: Any, **_options: Any) -> Any:
        if not is_constructing(sys._getframe(1)):
            _refuse(self.__dict__["_path"])
        return self._as_part().__array__()

    def _as_part(self) -> Part:
        return _part(self.__dict__["_path"])

    def __fspath__(self) -> str:
        return f"{_NOWHERE}/{self.__dict__['_path']}"

    def __iter__(self) -> Iterator[Any]:
        return iter([self] * wanted_by(sys._getframe(1)))

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __instancecheck__(self, instance: Any) -> bool:
        # What stands for something bears its name.
        made = isinstance(instance, SimpleNamespace | Part | HandingOn)
        return made and type(instance).__name__ == self.__dict__["_path"].rpartition(".")[2]

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self.__dict__['_path']}, which is not installed>"


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
    return part(path, _not_found(_STAND_INS.absent_in(path) or path.partition(".")[0]), _attribute, shape)


def is_array(value: Any) -> bool:
    """Whether a value may stand for an array that an absent package makes."""
    return isinstance(value, Part) or type(value) is _Absent


def _index(values: tuple[Any, ...], value: Any) -> int:
    return next(index for index, each in enumerate(values) if each is value)
