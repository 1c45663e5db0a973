"""What a child has done before it is asked: it has executed the last text of its file, and built the models in it.

Most edits change what a `forward` does, and nothing that runs while the file is executed and its models are built. Then
the functions get the code of the new text, in place, and only the trace is left to be done. Which functions run ahead
of it is not guessed from their names but seen: the code that runs is noted while it runs. An edit that may matter to
what has been done is not taken; another child begins from nothing.
"""

import gc
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fxengine.bytecode import constants_named
from fxworker.building import Built, build
from fxworker.executed import watched
from fxworker.executing import with_flags
from fxworker.loading import Document, Hint, Loaded, kept, load
from fxworker.readying import ready_as_before
from fxworker.slicing import Slice
from fxworker.subjects import Subject
from fxworker.wire import TraceRequest, TraceTarget

_FUNCTION: Final = 0x1
"""The flag of code objects that belong to functions, and not to the body of a class or module (`CO_OPTIMIZED`)."""

_SHAPE: Final = (
    "co_names",
    "co_freevars",
    "co_cellvars",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
)
"""What two code objects must have in common, besides their parameters' names, for one to take the other's place."""

_TOLD: Final = frozenset({"__firstlineno__", "__static_attributes__"})
"""What classes tell of their text, from CPython 3.13 on: nothing of what they do depends on it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file's text, executed, and its models.

    Attributes:
        loaded: The file's module.
        built: The models of the targets that were built, each with its target.
        functions: The functions that were made from the file, by the identity of their code.
        ran: The code that ran, by its identity; the document keeps it.
        read: The files that were imported or read meanwhile, each with what it was then.
    """

    document: Document
    loaded: Loaded
    built: dict[str, tuple[TraceTarget, Subject]]
    functions: dict[int, list[types.FunctionType]]
    ran: frozenset[int]
    read: Mapping[str, str]

    def taken(self, request: TraceRequest) -> Loaded | None:
        """Return the module with the code of another text, None where the text has to be executed for that.

        What changed before that was found out stays changed: the process is of no use then.
        """
        if not self.document.are_unchanged(self.read):
            return None
        try:
            slice_ = self.document.slice(request)
            pairs = list(self._pairs(slice_))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        for old, new in pairs:
            if not self._replaced(old, new):
                return None
        self.document.warn_of(
            new for old, new in zip(self.loaded.slice.statements, slice_.statements, strict=True) if old is not new
        )
        return kept(self.loaded, slice_, request.targets)

    def model(self, target: TraceTarget) -> Subject | None:
        """Return the model of a target, which may be used once; None where it was not built in the way that it asks."""
        known, subject = self.built.pop(target.qualname, (target, None))
        if subject is None or _ways(known) != _ways(target) or known.kind != target.kind:
            return None
        way = subject.built.construct
        way = next((each for each in target.constructs if way and each.expression == way.expression), way)
        return replace(subject, built=replace(subject.built, construct=way))

    def _pairs(self, slice_: Slice) -> Iterator[tuple[types.CodeType, types.CodeType]]:
        """Yield the code of functions that have other code in another slice.

        Raises:
            ValueError: The slices differ in more than that.
        """
        for (old, old_flags), (new, new_flags) in zip(with_flags(self.loaded.slice), with_flags(slice_), strict=True):
            if old is new:
                continue
            if old_flags != new_flags:
                raise ValueError("another future statement")
            before, after = self.document.code(old, old_flags), self.document.code(new, new_flags)
            if not _does_the_same(before, after):
                raise ValueError("another statement")
            yield from _inner(before, after)

    def _replaced(self, old: types.CodeType, new: types.CodeType) -> bool:
        """Let the functions of some code have other code; False where it would have to run again, or cannot be had."""
        functions = self.functions.get(id(old), [])
        if not _does_the_same(old, new):
            if id(old) in self.ran or len(functions) > 1 or not _is_signature_kept(old, new):
                return False
            if not all(_is_reached(each, self.loaded.namespace) for each in functions):
                return False
        for function in functions:
            if function.__doc__ == _docstring(old):
                function.__doc__ = _docstring(new)
            function.__code__ = new
        return True


def prepare(request: TraceRequest, document: Document, names: frozenset[str]) -> Prepared | None:
    """Execute a text and build the models of the targets that are named; None where that is no use to the next trace.

    Raises:
        BaseException: Whatever user code raises where nobody expects it.
    """
    gc.freeze()  # What is made from here on is what there is to be looked at.
    known = document.stamp()
    with watched() as has_run:
        loaded = load(request, document)
        if loaded.tree is None or loaded.failures or loaded.broken or any(each.needed for each in loaded.missing):
            return None
        built: dict[str, tuple[TraceTarget, Subject]] = {}
        for target in request.targets:
            if target.qualname in names:
                way = document.hints.get(target.qualname, Hint()).construct
                found = build(target, loaded, way, lambda: False)
                if not isinstance(found, Built):
                    return None
                built[target.qualname] = target, Subject.of(ready_as_before(target, loaded, found, way) or found)
        codes = _all_codes(document, loaded.slice)
        ran = frozenset(id(each) for each in codes if has_run(each))
    functions: dict[int, list[types.FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename == document.path:
            functions.setdefault(id(each.__code__), []).append(each)
    gc.freeze()
    read = {path: stamp for path, stamp in document.stamp().items() if path not in known}
    return Prepared(document, loaded, built, functions, ran, read)


def _all_codes(document: Document, slice_: Slice) -> list[types.CodeType]:
    """Return the code of the statements of a slice, and of all functions and classes in it."""
    codes = [document.code(statement, flags) for statement, flags in with_flags(slice_)]
    for code in codes:  # It grows meanwhile.
        codes += _codes_in(code)
    return codes


def _inner(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Yield the functions in the code of a statement or class, each with what stands in its place, innermost last.

    Raises:
        ValueError: A class does something else when it is made.
    """
    for before, after in zip(_codes_in(old), _codes_in(new), strict=True):
        same = _does_the_same(before, after)
        if before.co_flags & _FUNCTION:
            yield before, after
        elif not same:
            raise ValueError("another class body")
        if same:
            yield from _inner(before, after)


def _does_the_same(old: types.CodeType, new: types.CodeType) -> bool:
    """Whether two code objects differ in their positions alone, and in the functions that they make."""
    return (
        old.co_code == new.co_code
        and old.co_name == new.co_name
        and old.co_varnames == new.co_varnames
        and old.co_exceptiontable == new.co_exceptiontable
        and all(getattr(old, each) == getattr(new, each) for each in _SHAPE)
        and _constants(old) == _constants(new)
    )


def _is_signature_kept(old: types.CodeType, new: types.CodeType) -> bool:
    """Whether a function may have other code: it must take the same arguments, and the same variables from outside."""
    shape = [each for each in _SHAPE if each not in {"co_names", "co_cellvars"}]
    count = old.co_argcount + old.co_kwonlyargcount + bool(old.co_flags & 0x4) + bool(old.co_flags & 0x8)
    return (
        old.co_name == new.co_name
        and all(getattr(old, each) == getattr(new, each) for each in shape)
        and old.co_varnames[:count] == new.co_varnames[:count]
    )


def _constants(code: types.CodeType) -> list[str]:
    """Return the constants of some code that matter, told apart as Python does: 1, 1.0 and True are three."""
    told = constants_named(code, _TOLD)
    return [
        "code" if isinstance(each, types.CodeType) else "told" if index in told else f"{type(each)} {each!r}"
        for index, each in enumerate(code.co_consts)
    ]


def _codes_in(code: types.CodeType) -> list[types.CodeType]:
    return [each for each in code.co_consts if isinstance(each, types.CodeType)]


def _docstring(code: types.CodeType) -> str | None:
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


def _is_reached(function: types.FunctionType, namespace: dict[str, Any]) -> bool:
    """Whether a function is what its name in the module leads to, through wrappers that name what they wrap.

    A decorator that made something else of it, such as a compiled function, has read its code.
    """
    found: Any = None
    names: Any = namespace
    for part in function.__qualname__.split("."):
        found = names.get(part)
        names = getattr(found, "__dict__", {})
    return any(each is function for each in _unwrapped(found))


def _unwrapped(found: Any) -> Iterator[Any]:
    """Yield an attribute of a class or module, and the functions that it wraps."""
    for _ in range(16):
        yield found
        match found:
            case staticmethod() | classmethod():
                found = found.__func__
            case property():
                yield from (found.fset, found.fdel)
                found = found.fget
            case types.FunctionType():
                found = found.__dict__.get("__wrapped__")
            case _:
                return


def _ways(target: TraceTarget) -> tuple[str, ...]:
    return tuple(each.expression for each in target.constructs)
