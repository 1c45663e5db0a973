"""Executing a file as far as its models need it, under the name that it has in its package.

A `Document` is what a process keeps of a file between traces: the import paths, and the modules that the file's imports
left behind, with what their files were then. `load` executes the file's slice on top of it, statement by statement: one
that raises is a problem, and everything that does not depend on it goes on.
"""

import ast
import contextlib
import linecache
import os
import re
import sys
import time
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.module_snapshot import seed_everything
from fxengine.syntax import know_tree, tree_of
from fxworker.absences import ABSENCES
from fxworker.blackbox import passing
from fxworker.command_lines import no_required_arguments
from fxworker.compiling import without_numba
from fxworker.executing import Failure, Missing, compiled, execute, refusals, run_on_meta, with_flags
from fxworker.extensions import without_extensions
from fxworker.hubs import hubs_are_absent
from fxworker.imported import file_of
from fxworker.importing import give_starred, importing, is_still_absent
from fxworker.offline import go_offline
from fxworker.outer_packages import may_import_from, only_defines
from fxworker.overlays import OverlayFinder, remember_text
from fxworker.packages import (
    Place,
    absent_of,
    import_named,
    incomplete,
    is_package,
    modules_since,
    newest_module,
    place_of,
)
from fxworker.readings import files_read, files_written, note_below
from fxworker.reparsing import Parsed, parsed
from fxworker.slicing import Slice, imports_of, names_in, preparing, slice_of
from fxworker.statements import Definition, Statement
from fxworker.texts import digest, program_of
from fxworker.wire import Construct, Inputs, Overlay, ProfileRequest, Setting, TraceRequest, TraceTarget

Source = TraceRequest | ProfileRequest

_COARSE: Final = 10_000_000
"""By how many nanoseconds the clock of a file system may be behind at most."""

_UNSURE: Final = "written while it was read"
"""What is noted of such a file: no later look at it says that it is what was read."""

_NO_PROGRAM: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What parsing and compiling raise for a text that is no program."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What was found out about a target of which nothing says how it is built or fed.

    `unbuilt` and `feared` are digests of the target's definition, and `unfed` of all that it depends on in the file:
    they hold while that stays as it is.

    Attributes:
        construct: The construction that was inferred, "" where none was.
        inputs: The inputs that were inferred, "" where none were.
        tried: What to tell of a search for arguments that was in vain.
        offered: The construction that came furthest in it.
        unbuilt: No arguments were found.
        unfed: No inputs were found.
        feared: A guess ended the process, or took too long.
        doubtful: The parameters that no inputs were found for, separated by commas.
        guess: The inputs with which the model came furthest.
        complaint: What it said then.
        never: Whether no others would fit either.
        foreign: The functions that could not take symbolic values, as `module:name`, separated by commas.
        former: The construction with which the model ran before an edit that made it want others, or other inputs.
        ran_on: The inputs that it ran on then.
    """

    construct: str = ""
    inputs: str = ""
    tried: str = ""
    offered: str = ""
    unbuilt: str = ""
    unfed: str = ""
    feared: str = ""
    doubtful: str = ""
    guess: str = ""
    complaint: str = ""
    never: bool = False
    foreign: str = ""
    former: str = ""
    ran_on: str = ""

    @property
    def functions(self) -> tuple[tuple[str, str], ...]:
        """The functions that could not take symbolic values, each as a module and a name."""
        parts = (each.partition(":") for each in self.foreign.split(",") if each)
        return tuple((module, name) for module, _, name in parts)


Calls: TypeAlias = tuple[tuple[Construct, ...], tuple[Inputs, ...]]
"""The ways to build a model, and those to feed it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's models, executed.

    `broken` are the names that statements would have bound that failed, or that were left out because they need such
    a name. `slice` is what was executed. `alone` are the names of definitions that nothing else led to when they were
    made. `inner` keeps the local names of functions that define classes, or why they are not known. `settings` is what
    the project says about values that its constructors may read. `calls` are the ways to build and to feed the file's
    classes that somebody wrote down.
    """

    module: types.ModuleType
    tree: ast.Module | None
    failures: tuple[Failure, ...] = ()
    missing: tuple[Missing, ...] = ()
    broken: frozenset[str] = frozenset()
    slice: Slice = field(default_factory=lambda: Slice((), ()))
    alone: frozenset[str] = frozenset()
    inner: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: tuple[Setting, ...] = ()
    calls: Mapping[str, Calls] = field(default_factory=dict[str, Calls])

    @property
    def flags(self) -> int:
        """The flags that its last statements were compiled with."""
        return next((flags for _, flags in reversed([*with_flags(self.slice)])), 0)

    def definition(self, qualname: str) -> str:
        """Return the digest of a target's definition, "" where the file has none."""
        return definition_digest(self.tree, linecache.getlines(str(self.module.__file__)), qualname)

    def dependence(self, qualname: str) -> str:
        """Return the digest of what a target's models may depend on in the file, "" where it is not defined there.

        That is its definition, whatever stands beside the definitions, and the definitions that these look up.
        """
        name = qualname.partition(".")[0]
        defined = {each: one for one in self.slice.statements if isinstance(one.node, Definition) for each in one.binds}
        if name not in defined:
            return ""
        used = [one for one in self.slice.statements if not isinstance(one.node, Definition)]
        waiting, needed = {name, *(each for one in used for each in one.now | one.later)}, set[str]()
        while waiting:
            each = waiting.pop()
            if each in defined and each not in needed:
                needed.add(each)
                waiting |= defined[each].now | defined[each].later
        used += [defined[each] for each in sorted(needed)]
        lines = linecache.getlines(str(self.module.__file__))
        return digest("".join("".join(lines[one.node.lineno - 1 : one.node.end_lineno]) for one in used))

    def guesses(self, qualname: str) -> dict[str, str]:
        """Return what was assumed of names that a target's definition depends on."""
        assumed = {name: value for each in self.failures for name, value in each.assumed.items()}
        waiting, seen = {qualname.partition(".")[0]} if assumed else set[str](), set[str]()
        while waiting:
            seen |= waiting
            needed = (each.now | each.later for each in self.slice.statements if each.binds & waiting)
            waiting = set[str]().union(*needed) - seen
        return {name: value for name, value in assumed.items() if name in seen}

    @property
    def mentions(self) -> Mapping[str, frozenset[str]]:
        """The names that each definition looks up."""
        statements = (each for each in self.slice.statements if isinstance(each.node, Definition))
        return {name: each.later for each in statements for name in each.binds}

    @property
    def namespace(self) -> dict[str, Any]:
        """The module's globals."""
        return self.module.__dict__


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The code of a statement, the flags that it was compiled with, and what the compiler warned of."""

    flags: int
    code: types.CodeType
    warned: tuple[warnings.WarningMessage, ...]


@dataclass(eq=False)
class Document:
    """A file's surroundings in this process. Mutable; made once, before the file is executed.

    Attributes:
        path: The file.
        roots: The folders that its imports are looked for in.
        place: Where it stands among the modules of its project.
        folders: What was put on `sys.path` for it.
        hints: What was found out in the last trace, by target.
    """

    path: str
    roots: tuple[str, ...]
    place: Place
    folders: tuple[str, ...]
    _finder: OverlayFinder = field(default_factory=OverlayFinder)
    hints: dict[str, Hint] = field(default_factory=dict)
    _stamps: dict[str, str] = field(default_factory=dict)
    _absent: dict[str, list[ImportError]] = field(default_factory=dict)
    _last: str = ""
    _since: int = field(default_factory=time.time_ns)
    _imported_before: bool = False
    _around: bool | None = None
    _parsed: Parsed | None = None
    _statements: dict[ast.stmt, Statement] = field(default_factory=dict)
    _codes: "WeakKeyDictionary[Statement, _Compiled]" = field(default_factory=WeakKeyDictionary)

    @classmethod
    def of(cls, request: Source) -> "Document":
        """Return the surroundings of the file that a request names; nothing is executed yet."""
        path = os.path.abspath(request.path)
        place = place_of(path, request.text, request.roots)
        folders = tuple(dict.fromkeys((place.root, *map(os.path.abspath, request.roots))))
        return cls(path, request.roots, place, folders)

    @property
    def name(self) -> str:
        """The name of the file's module, with its packages."""
        return self.place.name

    def enter(self, request: Source) -> None:
        """Make this process one in which the file's program runs: paths, arguments, working directory, texts."""
        go_offline()
        hubs_are_absent()
        note_below(self.folders)
        if isinstance(request, TraceRequest):
            without_numba()
            without_extensions()
        self._last = newest_module()
        ABSENCES.document = self.path
        added = [folder for folder in self.folders if folder not in sys.path]
        # What lies in a package shadows nothing that has the name at the top.
        inside = [folder for folder in added if is_package(folder)]
        sys.path[:0] = [folder for folder in added if folder not in inside]
        sys.path += inside
        sys.argv = [self.path]
        with contextlib.suppress(OSError):
            os.chdir(self.roots[0] if self.roots else os.path.dirname(self.path))
        self.see(request.overlays)

    def import_ahead(self, request: Source) -> None:
        """Import what the file imports. What fails now fails again, and is told, when the file is executed."""
        self.import_package(request)
        try:
            slice_ = self.slice(request)
        except _NO_PROGRAM:
            return
        scratch = self.place.module()
        before = sys.modules.get(self.name)
        sys.modules[self.name] = scratch
        prepared = preparing(slice_.statements)
        with incomplete(scratch):
            for statement in slice_.statements:
                for node in (statement.node,) if statement in prepared else imports_of([statement]):
                    passing(node.lineno)
                    self._import(node, scratch.__dict__)
        if before is not None:
            sys.modules[self.name] = before
        else:
            sys.modules.pop(self.name, None)
        self.stamp()

    def read_ahead(self, request: Source) -> None:
        """Parse and compile a text that was traced, for the next one is mostly the same. Nothing is executed."""
        try:
            slice_ = self.slice(request)
            for statement, flags in with_flags(slice_):
                self.code(statement, flags)
        except _NO_PROGRAM:
            return

    def slice(self, request: Source) -> Slice:
        """Return the slice of a file's text that the targets of a request need.

        Raises:
            SyntaxError: The text is no program; the other errors of `_NO_PROGRAM` are possible, too.
        """
        text = program_of(request.text)
        remember_text(self.path, text)
        self._parsed = parsed(self.path, text, self._parsed)
        # The engine looks for expressions in the same tree: the text is parsed once.
        know_tree(self.path, self._parsed.tree)
        return slice_of(
            self._parsed.tree,
            text,
            self.path,
            wanted(request),
            again=self._imported_before,
            known=self._statements,
        )

    def read_anew(self, request: Source) -> None:
        """Read and compile a text as if it were new, and forget that."""
        other = replace(self, _parsed=None, _statements={}, _codes=WeakKeyDictionary())
        for statement, flags in with_flags(other.slice(request)):
            other.code(statement, flags)
        self.slice(request)  # Its tree is the one that is known.

    def code(self, statement: Statement, flags: int) -> types.CodeType:
        """Return a statement compiled, as it was before if it is the same.

        Raises:
            SyntaxError: It cannot be compiled; the other errors of `_NO_PROGRAM` are possible, too.
        """
        known = self._codes.get(statement)
        if known is None or known.flags != flags:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                known = _Compiled(flags, compiled(statement.node, self.path, flags), tuple(told))
            self._codes[statement] = known
        return known.code

    def warn_of(self, statements: Iterable[Statement]) -> None:
        """Warn of what the compiler found in statements. The person is told at each trace, by whoever traces."""
        for statement in statements:
            for each in self._codes[statement].warned:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def import_late(self, names: Iterable[str]) -> None:
        """Import modules that an earlier trace had to import itself."""
        for name in names:
            with contextlib.suppress(BaseException):
                importing(partial(import_named, name))
        self.stamp()

    def fear(self, request: Source, qualname: str, construct: str) -> None:
        """Note that a guess about a target ended its process: none is made again while the definition stays.

        It is built with the arguments that had been inferred before, if there were any.
        """
        remember_text(self.path, request.text)
        definition = definition_digest(tree_of(self.path), linecache.getlines(self.path), qualname)
        self.hints[qualname] = Hint(
            construct, feared=definition, tried="guessing its arguments or inputs ended the process"
        )

    def see(self, overlays: Iterable[Overlay]) -> None:
        """Let unsaved buffers stand in place of their files from here on."""
        self._finder.install(overlays)

    def is_fresh(self, request: Source) -> bool:
        """Whether what was imported is still what an import would give now, with the buffers of a request."""
        if request.roots != self.roots:
            return False
        self.see(request.overlays)
        return is_still_absent() and self.are_unchanged(self._stamps)

    @property
    def statements(self) -> Iterable[Statement]:
        """The statements of the text that was read last."""
        return self._statements.values()

    def state(self) -> str:
        """Return a name for what was imported: equal as long as it is what an import would give."""
        return digest(repr((self.roots, sorted(self._stamps.items()))))

    def run(self, statement: Statement, flags: int, namespace: dict[str, Any]) -> list[ImportError]:
        """Execute a statement of the file, and return what it wants that is not installed.

        Raises:
            BaseException: What it raises.
        """
        code = self.code(statement, flags)
        self.warn_of([statement])
        try:
            missing = importing(lambda: run_on_meta(code, statement, namespace))
        except SystemExit:
            # A parser misses arguments that only a command line gives; what has defaults is known without.
            with no_required_arguments():
                missing = importing(lambda: run_on_meta(code, statement, namespace))
        except Exception as error:
            if isinstance(error, ImportError) and text_of(error).startswith("cannot import name"):
                self._import_others(statement, namespace)
            if statement.unadorned is None or not self._imported_before:
                raise
            # The file was executed as a part of its package, and a table takes a name only once.
            plain = compiled(statement.unadorned, self.path, flags)
            missing = importing(lambda: exec(plain, namespace))  # noqa: S102 — This is what a worker is for.
        return [*self._absent.get(ast.unparse(statement.node), ()), *missing] if statement.is_import else missing

    def _import_others(self, statement: Statement, namespace: dict[str, Any]) -> None:
        """Import what else a statement imports from a module that has not all of it."""
        node = statement.node
        if not isinstance(node, ast.ImportFrom) or len(node.names) == 1:
            return
        for each in node.names:
            alone = ast.copy_location(ast.ImportFrom(node.module, [each], node.level), node)
            with contextlib.suppress(BaseException):  # User code.
                importing(partial(exec, compiled(alone, self.path), namespace))

    def _import(self, node: ast.stmt, namespace: dict[str, Any]) -> None:
        """Execute an import, or what one needs, ahead of need, and remember what it wants that is not installed."""
        code = compiled(node, self.path)
        with contextlib.suppress(BaseException):
            missing = importing(lambda: exec(code, namespace))  # noqa: S102 — This is what a worker is for.
            if missing:
                self._absent[ast.unparse(node)] = missing

    def import_package(self, request: Source) -> None:
        """Import the packages around the file, unless it needs nothing of them.

        Whether the file was executed already, as a part of them, is found out here, before it is executed itself. What
        it is sliced for afterwards is not asked again: then it was, by us.
        """
        if not self._stands_alone(request.text):
            self.place.import_package()
        self._imported_before = file_of(self.name) == self.path

    def _stands_alone(self, text: str) -> bool:
        """Whether the file can do without the packages around it, as nobody imported them and they change nothing."""
        package = self.place.package
        if not package or package == self.name or package.partition(".")[0] in sys.modules:
            return False
        if may_import_from(text, package):
            return False
        if self._around is None:
            self._around = all(map(only_defines, self._packages_read()))
        return self._around

    def _packages_read(self) -> Iterator[str]:
        """Yield the texts of the packages around the file; what follows from them holds while they are as they were."""
        folder = os.path.dirname(self.path)
        while folder != self.place.root and len(folder) > len(self.place.root):
            path = os.path.join(folder, "__init__.py")
            if self._is_project(path):
                self._stamps[path] = self._state(path)
            yield self._finder.texts.get(path) or "".join(linecache.getlines(path))
            folder = os.path.dirname(folder)

    def dependencies(self, failures: Iterable[Failure] = ()) -> tuple[str, ...]:
        """Return the files below the roots that were imported, or failed to be, or were read, sorted."""
        self.stamp()
        failed = {path for failure in failures for path in _passed(failure.error) if self._is_project(path)}
        return tuple(sorted({*self._stamps, *failed} - {self.path} - files_written()))

    def stamp(self) -> Mapping[str, str]:
        """Return what was imported or read of the project's files, up to now, each with what it was then."""
        new, since = modules_since(self._last), self._since
        self._last, self._since = newest_module(), time.time_ns()
        paths = {path for name in new if (path := file_of(name)) is not None}
        for path in paths | {each for each in files_read() if os.path.isfile(each)}:
            if path not in self._stamps and path != self.path and self._is_project(path):
                self._stamps[path] = _UNSURE if self._is_written_after(since, path) else self._state(path)
        return dict(self._stamps)

    def _is_written_after(self, since: int, path: str) -> bool:
        """Whether a file has been written since some time, in nanoseconds: who has read it then may know another."""
        try:
            return path not in self._finder.texts and os.stat(path).st_ctime_ns > since - _COARSE
        except OSError:
            return False

    def are_unchanged(self, stamps: Mapping[str, str]) -> bool:
        """Whether files are what they were."""
        return all(self._state(path) == stamp for path, stamp in stamps.items())

    def _state(self, path: str) -> str:
        text = self._finder.texts.get(path)
        if text is not None:
            return digest(text)
        try:
            found = os.stat(path)
        except OSError:
            return ""
        # Whoever unpacks or copies files may give them any time of change, but not that of their entry in the folder.
        return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"

    def _is_project(self, path: str) -> bool:
        """Whether a file is the user's own: below a root, not installed there."""
        below = any(path.startswith(folder + os.sep) for folder in self.folders)
        return below and "site-packages" not in path and not path.startswith(sys.prefix + os.sep)


def load(request: Source, document: Document) -> Loaded:
    """Execute what the targets of a request need, and return the module with what failed.

    Random numbers are the same each time: the same text is to give the same answer.
    """
    seed_everything()
    module = document.place.module()
    document.import_package(request)
    try:
        slice_ = document.slice(request)
    except _NO_PROGRAM as error:
        return Loaded(module, None, (Failure(error, None),))
    tree = tree_of(document.path)
    assert tree is not None
    sys.modules[document.name] = module
    module.__doc__ = ast.get_docstring(tree, clean=False)
    with incomplete(module):
        done = execute(slice_, document.path, document.run, module.__dict__)
    give_starred(module.__dict__, tree)
    settings = request.settings if isinstance(request, TraceRequest) else ()
    calls = calls_of(request.targets if isinstance(request, TraceRequest) else [request.target])
    missing = (*done.missing, *_unneeded(slice_))
    failed, broken = done.failures, done.broken
    return Loaded(module, tree, failed, missing, broken, slice_, done.alone, settings=settings, calls=calls)


def calls_of(targets: Iterable[TraceTarget]) -> dict[str, Calls]:
    """Return the ways to build and to feed targets that somebody wrote down, by their names."""
    return {each.qualname: (each.constructs, each.inputs) for each in targets if each.constructs}


def kept(loaded: Loaded, slice_: Slice, targets: Iterable[TraceTarget]) -> Loaded:
    """Return what was executed as the slice of another text, in which it does the same and fails nowhere."""
    tree = tree_of(str(loaded.module.__file__))
    loaded.module.__doc__ = ast.get_docstring(tree, clean=False) if tree is not None else None
    pairs = zip(loaded.slice.statements, slice_.statements, strict=True)
    now = {before.node: after.node for before, after in pairs}
    missing = (replace(each, node=now[each.node]) for each in loaded.missing if each.node in now)
    missing = (*missing, *_unneeded(slice_))
    failed, lost, settings, calls = refusals(slice_), slice_.lost, loaded.settings, calls_of(targets)
    return Loaded(loaded.module, tree, failed, missing, lost, slice_, loaded.alone, settings=settings, calls=calls)


def _unneeded(slice_: Slice) -> tuple[Missing, ...]:
    """Return the imports that nothing needs and that would fail."""
    return tuple(Missing(node, name) for node in slice_.unneeded_imports for name in absent_of(node))


def wanted(request: Source) -> frozenset[str]:
    """Return the names that a request's targets need: their own, and those of the expressions that build and feed."""
    names = set[str]()
    for target in targets_of(request):
        names.add(target.qualname.partition(".")[0])
        for construct in target.constructs:
            names |= names_in(construct.expression)
        for inputs in target.inputs:
            names |= names_in(f"None({inputs.expression})")
    return frozenset(names)


def targets_of(request: Source) -> tuple[TraceTarget, ...]:
    """Return the targets of a request."""
    return request.targets if isinstance(request, TraceRequest) else (request.target,)


def definition_digest(tree: ast.Module | None, lines: list[str], qualname: str) -> str:
    """Return the digest of the definition that a target's name leads to, "" where the file has none."""
    name = re.split(r"\W", qualname, maxsplit=1)[0]
    waiting: list[ast.AST] = [*tree.body] if tree is not None else []
    for node in waiting:
        if isinstance(node, Definition):
            if node.name == name:
                return digest("".join(lines[node.lineno - 1 : node.end_lineno]))
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            waiting += ast.iter_child_nodes(node)
    return ""


def import_key(request: Source) -> str:
    """Return a name for what a file imports: equal for texts that import the same."""
    try:
        text = program_of(request.text)
        tree = ast.parse(text)
        slice_ = slice_of(tree, text, request.path, wanted(request))
    except _NO_PROGRAM:
        return ""
    nodes = [*imports_of(slice_.statements), *(each.node for each in preparing(slice_.statements))]
    return digest("\n".join(map(ast.dump, nodes)))


def _passed(error: BaseException) -> set[str]:
    """Return the files that an exception came through, and the one that a syntax error is in."""
    paths = {moment.path for moment in moments_of(error.__traceback__)}
    if isinstance(error, SyntaxError) and error.filename:
        paths.add(error.filename)
    return paths
