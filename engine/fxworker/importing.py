"""Imports that go on where a package is not installed: it gets a stand-in, and the person is told.

A file may import, through ten other modules, a package that only its data loading wants. Such an import gets a
stand-in (`absent`); one that the code guards itself, as in `try: import xformers`, fails as it is meant to (`guarded`).
"""

import abc
import ast
import builtins
import contextlib
import functools
import importlib.machinery
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from typing import Any, Final, TypeVar

from torch import nn

from fxworker.absences import ABSENCES, NOWHERE, STAR, not_found
from fxworker.absent import AbsentModule, as_part, beside, is_stand_in
from fxworker.broken import are_still_broken, is_broken, is_installed, may_lack, package_of, without_broken
from fxworker.callers import is_constructing
from fxworker.checking import without_check
from fxworker.circular import entered_elsewhere
from fxworker.compiling import leave_unscripted
from fxworker.guarded import unguarded
from fxworker.imported import attributes_of, file_of
from fxworker.offline import without_weights
from fxworker.registering import registered_anew
from fxworker.resuming import modules_kept
from fxworker.retrying import again
from fxworker.versions import NEWEST, REFUSING, named_in, place_of_raise, wanted

_COMPILED: Final = re.compile(r"\.(_C|_ext|_cuda|\w+_(cuda|ext|cpp|kernels))$")
"""Names of modules that are compiled, which an installation, or a project that was only downloaded, may lack."""

_MOST_REFUSALS: Final = 4
"""How often code may ask for another version until it is left as it is."""

_Result = TypeVar("_Result")


class StandIns(Loader):
    """Gives modules to packages that are not installed. One in a process, last on `sys.meta_path`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of a package that is stood in for, from now on if it must be."""
        del path, target
        if not ABSENCES.leads_into(fullname):
            is_separate = "." not in fullname or _COMPILED.search(fullname) is not None or _is_lost(fullname)
            is_wanted = ABSENCES.permissive or is_constructing(sys._getframe(1))
            if not is_separate or not is_wanted or not (way := unguarded()):
                return None
            if not ABSENCES.names:
                leave_unscripted()
                _leave_warnings()
                _leave_dispatch()
                _leave_abstract()
                _leave_modules()
            ABSENCES.names.add(fullname)
            ABSENCES.found.append(not_found(fullname).with_traceback(way))
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = []
        return spec

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Yield the metadata of a package that is stood in for, which is asked for its version."""
        asked = str(context.name or "").replace("-", "_").lower()
        yield from (_AbsentDistribution(each) for each in ABSENCES.names if each.lower() == asked)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Return the stand-in."""
        return AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: there is nothing to execute."""

    @contextlib.contextmanager
    def permitting(self) -> Generator[None]:
        """Let everything be done with stand-ins in the body, and new ones be made."""
        if self not in sys.meta_path:
            sys.meta_path.append(self)
            sys.meta_path.insert(0, _BROKEN_FIRST)
        ABSENCES.permissive += 1
        try:
            yield
        finally:
            ABSENCES.permissive -= 1


class _BrokenFirst(StandIns):
    """Finds packages that are installed and cannot be imported, before anybody else finds them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a stand-in, None for a module of another package."""
        return super().find_spec(fullname, path, target) if is_broken(fullname) else None


class _AbsentDistribution(Distribution):
    """The metadata of a package that is not installed: its name and a version."""

    def __init__(self, name: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {ABSENCES.version_of(name)}\n"

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata, None for one that there is not."""
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return where a file of the package would lie."""
        return Path(NOWHERE, path)


def _leave_warnings() -> None:
    """Let nothing be said of warnings of an absent package's own kind: there will be none."""
    for name in ("filterwarnings", "simplefilter"):
        original = getattr(warnings, name)

        @functools.wraps(original)
        def filtered(*args: Any, _original: Callable[..., None] = original, **kwargs: Any) -> None:
            if not any(is_stand_in(each) for each in (*args, *kwargs.values())):
                _original(*args, **kwargs)

        setattr(warnings, name, filtered)


def _leave_dispatch() -> None:
    """Let functions that do something of their own for each class leave out those for classes that are absent."""
    original = functools.singledispatch

    @functools.wraps(original)
    def singledispatch(func: Callable[..., Any]) -> Any:
        found: Any = original(func)
        register = found.register

        @functools.wraps(register)
        def registered(cls: Any, func: Any = None) -> Any:
            # Without a class it is said by the annotation of the first argument.
            kinds = () if isinstance(cls, type) else getattr(cls, "__annotations__", {}).values()
            if is_stand_in(cls) or any(map(is_stand_in, kinds)):
                return func if func is not None else (lambda each: each) if is_stand_in(cls) else cls
            return register(cls, func)

        found.register = registered
        return found

    functools.singledispatch = singledispatch


def _leave_abstract() -> None:
    """Let abstract classes leave out the classes that are absent of those that count as theirs."""
    original = abc.ABCMeta.register

    @functools.wraps(original)
    def register(cls: abc.ABCMeta, subclass: Any) -> Any:
        return subclass if is_stand_in(subclass) else original(cls, subclass)

    abc.ABCMeta.register = register


def _leave_modules() -> None:
    """Let modules take what was made of an absent package while something was imported: it is a part of theirs."""
    original = nn.Module.add_module

    @functools.wraps(original)
    def add_module(self: nn.Module, name: str, module: nn.Module | None) -> None:
        original(self, name, as_part(module))

    nn.Module.add_module = add_module


_STAND_INS: Final = StandIns()
_BROKEN_FIRST: Final = _BrokenFirst()


def importing(work: Callable[[], object]) -> list[ImportError]:
    """Do what imports something, with stand-ins for packages that are missing, and return what was missing.

    Raises:
        BaseException: What it raises for another reason, or although the package is stood in for.
    """
    before, ABSENCES.found = ABSENCES.found, []
    try:
        with _STAND_INS.permitting(), modules_kept():
            without_broken(lambda: without_weights(lambda: _with_versions(lambda: _whole(work))))
        return ABSENCES.found
    finally:
        # What an import wanted that failed is not what the next one wants.
        ABSENCES.found = before


def _whole(work: Callable[[], object]) -> None:
    """Import something, again as often as what its code asks for can be supplied."""
    registered_anew(lambda: _unhindered(lambda: with_stars(work)))


def _unhindered(work: Callable[[], object]) -> None:
    """Import something, again where a circle is in the way, or decorators are, of absent packages or for want of such.

    The former may give functions attributes that code asks them for.
    """
    again(
        work, lambda error: _is_of_decorated(error) or without_check(error) or entered_elsewhere(error), _MOST_REFUSALS
    )


def _is_of_decorated(error: Exception) -> bool:
    """Whether a function was asked for an attribute, which such a decorator is taken to give from now on."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, types.FunctionType):
        return False
    if error.name in ABSENCES.of_decorated or not ABSENCES.names:
        return False
    ABSENCES.of_decorated.add(str(error.name))
    return True


def _with_versions(work: Callable[[], object]) -> None:
    """Import something, where need be with versions of what is absent that the code takes.

    What one version lets be imported stays so; what comes after it may ask for that of another package.
    """
    refused = _refused(work, REFUSING)
    try:
        for _ in range(_MOST_REFUSALS if ABSENCES.names else 0):
            before = refused
            refused = _past(before, work) if before is not None else None
            if refused is None or refused is before:
                break
    finally:
        ABSENCES.versions.clear()
    if refused is not None:
        raise refused


def _past(refused: BaseException, work: Callable[[], object]) -> BaseException | None:
    """Return what is raised after a refusal with a version that it takes, or the refusal; None where nothing is."""
    for version in wanted(refused):
        ABSENCES.version = version
        try:
            error = _refused(work, Exception)
        finally:
            ABSENCES.version = NEWEST
        if error is None:
            return None
        if place_of_raise(error) != place_of_raise(refused):
            ABSENCES.versions |= dict.fromkeys(named_in(refused, ABSENCES.names), version)
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
    name, star = error.name, scope.get(STAR)
    if not name or name in scope or not is_stand_in(star):
        return False
    ABSENCES.starred.add(name)
    # What imports everything from a module that did the same has it from there.
    for each in (scope, *map(attributes_of, [*sys.modules])):
        if is_stand_in(each.get(STAR)):
            each.setdefault(name, beside(each[STAR], name))
    return True


def give_starred(namespace: dict[str, Any], tree: ast.Module) -> None:
    """Give a file the names that it uses and defines nowhere, if it imported everything from an absent package."""
    star = namespace.get(STAR)
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
            namespace.setdefault(each.id, beside(star, each.id))


def is_still_absent() -> bool:
    """Whether none of the packages that are stood in for was installed in the meantime."""
    names = (each for each in ABSENCES.names if not is_broken(each))
    are_absent = all(importlib.machinery.PathFinder.find_spec(each, _place_of(each)) is None for each in names)
    return are_absent and are_still_broken()


def _is_lost(name: str) -> bool:
    """Whether a module would be in a package that several distributions fill, of another version, or the project's.

    What is imported out of a package of the project may be anything that this has not, or not yet, and no module.
    """
    around = name.rpartition(".")[0]
    if file_of(around) is None:
        return sys.modules.get(around) is not None
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name == "_handle_fromlist":
            return False
        frame = frame.f_back
    is_own = any(map(_is_open, attributes_of(around).get("__path__", ()))) or not is_installed(name.partition(".")[0])
    return is_own or (frame is not None and may_lack(name, package_of(frame)))


def _is_open(folder: str) -> bool:
    """Whether a folder lies in the one that is open, and not in an environment in there."""
    below = str(folder).removeprefix(os.getcwd())
    return below != str(folder) and "site-packages" not in below


def _place_of(name: str) -> Sequence[str] | None:
    """Return the folders that a module is looked for in, None for those of every package."""
    around = name.rpartition(".")[0]
    return attributes_of(around).get("__path__", []) if around else None
