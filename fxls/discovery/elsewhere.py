"""Calls of a class in other files of its workspace: tests, scripts, notebooks' exports, the README.

An index says which files call which capitalised name. It is made by looking for `Name(`, and for `dict(type="Name"`,
in their text alone, once, and brought up to date by the files' times. Only files that call a class which is asked about
are parsed. A call counts if what it needs is known in the class's own module, where it will be evaluated. A call in
the constructor of another class needs that one's arguments: then this class is a part of the other one, the whole. A
class that nothing calls may be the base of others, which show what it is.
What files say about options and configurations is read of the nearest that look as if they said some (`options`).
"""

import ast
import builtins
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from fxls.discovery.closing import substituted
from fxls.discovery.finding import discover
from fxls.discovery.index import ModelIndex, ordered
from fxls.discovery.names import Names, defined_by, names_of
from fxls.discovery.options import best_first, settings_in, speaks_of_options
from fxls.discovery.roots import absolute_name
from fxls.discovery.sites import Sites, Source, sites_of
from fxls.discovery.syntax import example_code, parse
from fxls.discovery.wholes import Makers, makers_in
from fxworker.wire import Construct, Inputs, Setting, TraceTarget, Whole

# What stands before a match is asked behind its first letters: a pattern that begins with some is found faster.
_CALL: Final = re.compile(r"([A-Z](?<!\w.)\w*)\(")
_DESCRIBED: Final = re.compile(r"""type(?<!\wtype)(?:=|["']: ?)["'](?:\w+\.)*([A-Z]\w*)["']""")
"""What `dict(type="Net")` is an instance of: the entry of a registry, whose name is the same in every file."""

_DERIVED: Final = re.compile(r"class (?<![^\n]class )\w+\(([^)]*)\)")
_BASE: Final = re.compile(r"\b[A-Z]\w*")
"""The bases of classes, and their names."""

_DEFINED: Final = re.compile(r"class (?<![^\n]class )([A-Z]\w*)")

_TEST: Final = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$|conftest\.py$)")
_SKIPPED: Final = frozenset({"node_modules", "site-packages", "build", "dist", "venv", "env", "__pycache__"})
_MOST_FILES: Final = 4000
_LARGEST: Final = 400_000
"""The most files that are looked at, and the bytes of one."""

_MOST_PARSED: Final = 12
_MOST: Final = 3
"""How many files are parsed for one class, and how many ways are kept."""

_MOST_WHOLES: Final = 6
"""How many models of other files are named that have a class as a part, or as a part of a part."""

_MOST_LOOKED_AT: Final = 100
"""How many files are asked whether they say something about options."""
_MOST_READ: Final = 24
_MOST_BYTES: Final = 300_000
"""How many files are read for what they say about options, and the bytes of all of them."""
_TELLING: Final = re.compile(r"train|main|run|config|cfg|options?|args|param|default|setting", re.IGNORECASE)
"""What files are called that say most about them."""

_MOST_KEPT: Final = 500
"""How many answers are kept."""

_SECONDS: Final = 5.0
"""How long it may take to look at files before what is known by then is told."""

_ALWAYS: Final = frozenset(dir(builtins)) | {"torch", "nn", "SimpleNamespace"}


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a file has to do with the classes of another one.

    Attributes:
        path: The file.
        asked: The names of the classes that it was read for.
        sites: The calls of those.
        meant: Those of which the file imports the names.
        makers: What makes instances of them there.
        full: What other names mean that the file imports, as it says it.
    """

    path: str
    asked: frozenset[str]
    sites: Sites
    meant: frozenset[str]
    makers: Makers
    full: Mapping[str, str]


_Known: TypeAlias = Callable[[], Mapping[str, str]]
"""Gives the names that the module of a class binds, with the full names of what they mean elsewhere."""

_Key: TypeAlias = tuple[str, str, tuple[int, int]]
"""A file, one whose classes it may use, and the time and size of the first."""

_Own: TypeAlias = tuple[str, tuple[int, int]]
"""A file, with its time and size."""


@dataclass
class Calls:
    """The index of one workspace folder. Mutable; one thread may look while another asks.

    Attributes:
        folder: The folder; "" for none, in which nothing is.
    """

    folder: str
    _names: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _times: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _callers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _bases: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _heirs: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _nearest: dict[tuple[str, str], tuple[Whole, ...]] = field(default_factory=dict[tuple[str, str], tuple[Whole, ...]])
    _indices: dict[_Own, ModelIndex] = field(default_factory=dict[_Own, ModelIndex])
    _makers: dict[_Own, Makers] = field(default_factory=dict[_Own, Makers])
    _seen: dict[_Key, _Seen] = field(default_factory=dict[_Key, _Seen])
    _telling: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _speaking: dict[str, tuple[tuple[int, int], bool]] = field(default_factory=dict[str, tuple[tuple[int, int], bool]])
    _told: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _looks: int = 0
    _settings: dict[_Own, list[Setting]] = field(default_factory=dict[_Own, list["Setting"]])

    def look(self) -> None:
        """Look through the folder, at files that are new or have changed; what is known meanwhile is told."""
        while self._looked_on():
            pass

    def _looked_on(self) -> bool:
        """Look through the folder for a while, and return whether there is more to look at."""
        end = time.monotonic() + _SECONDS
        times: dict[str, tuple[int, int]] = {}
        is_over = False
        names, bases = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
        for path, at in _files(self.folder):
            is_over = time.monotonic() > end
            if is_over or len(times) >= _MOST_FILES:
                break
            times[path] = at
            if self._times.get(path) == at:
                names[path], bases[path] = self._names[path], self._bases[path]
            else:
                text = _text(path)
                names[path], bases[path] = _called_in(text), _derived_from_in(text)
        if is_over:
            times, names, bases = self._times | times, self._names | names, self._bases | bases
        callers, heirs = _by_name(names), _by_name(bases)
        # Another thread may read meanwhile: it sees the one or the other.
        is_same, is_more = times == self._times, len(times) > len(self._times)
        self._times, self._names, self._callers = times, names, callers
        self._bases, self._heirs = bases, heirs
        if not is_same:
            self._nearest, self._telling = {}, {}
            self._looks += 1
        # Where even that takes all the time, it would never come to an end.
        return is_over and is_more

    def completed(self, index: ModelIndex, text: str, said: tuple[Setting, ...] = ()) -> ModelIndex:
        """Return an index with calls of its classes elsewhere, for those that the file says nothing about.

        It has the values, too, that the project says its constructors may read.

        Args:
            index: The index.
            text: The text that it is of.
            said: The settings that the last index of the file had, where they are now. They are read again when files
                have changed on disk, or an edit has touched one of them.
        """
        if any(each.kind == "class" and not each.constructs for each in index.targets):
            looks = self._looks
            if self._told.get(index.path) != (looks, len(said)):
                said = self._settings_for(index.path, text)
                self._told[index.path] = looks, len(said)
            index = replace(index, settings=said)
        parts = {each for each in index.parts if each in self._callers or self._is_base(each, index)}
        if not parts:
            return index
        known = cache(partial(_bound_by, text))
        targets = (
            self._completed(each, index.path, known) if each.qualname in parts else each for each in index.targets
        )
        return replace(index, targets=tuple(targets))

    def _is_base(self, name: str, index: ModelIndex) -> bool:
        """Whether a class that could be built by itself is there for others that are derived from it."""
        found = index.model_class(name) if name in self._heirs else None
        return found is not None and not found.required

    def _completed(self, target: TraceTarget, path: str, known: _Known) -> TraceTarget:
        """Return a target with how it is built and fed elsewhere, or with what has it as a part."""
        if not target.constructs:
            constructs, inputs = self._calls_of(target.qualname, path, known)
            target = replace(target, constructs=ordered(constructs), inputs=ordered((*target.inputs, *inputs)))
        if target.constructs and target.inputs:
            return target
        return replace(target, wholes=self._wholes_of(target.qualname, path))

    def _calls_of(self, name: str, path: str, known: _Known) -> tuple[list[Construct], list[Inputs]]:
        """Return how a class is built and fed in other files, tests first."""
        files = [other for other in self._callers.get(name, ()) if other != path]
        files.sort(key=lambda other: (_TEST.search(other) is None, not other.endswith(".md"), other))
        constructs: list[Construct] = []
        inputs: list[Inputs] = []
        for other in files[:_MOST_PARSED]:
            seen = self._seen_in(other, name, path)
            built = list(_understood(seen.sites.constructs.get(name, []), name, known, seen))
            constructs += built
            # What is fed belongs to how it was built.
            if built and not inputs:
                inputs += _understood(seen.sites.inputs.get(name, []), name, known, seen)
            if len(constructs) >= _MOST:
                break
        return constructs[:_MOST], inputs[:_MOST]

    def _settings_for(self, path: str, text: str) -> tuple[Setting, ...]:
        """Return what a file and the files near it say about the values that its text reads, best first."""
        known = self._telling
        if path not in known:
            known[path] = self._telling_of(path)
        tree = parse(path, text) if speaks_of_options(text) else None
        own = settings_in(path, tree) if isinstance(tree, ast.Module) else []
        files = [(each, self._settings_in(each)) for each in known[path]]
        return tuple(best_first(text, [(path, own), *files], path))

    def _telling_of(self, path: str) -> list[str]:
        """Return the files that are read for what they say to one: those called so first, then the nearest."""
        times = self._times
        others = [each for each in times if each.endswith(".py") and each != path and not _TEST.search(each)]
        others.sort(key=lambda each: (not _TELLING.search(Path(each).stem), -_shared(each, path), each))
        others = [each for each in others[:_MOST_LOOKED_AT] if self._speaks(each, times[each])]
        sizes = accumulate(times[each][1] for each in others)
        return [each for each, size in zip(others, sizes, strict=True) if size <= _MOST_BYTES][:_MOST_READ]

    def _speaks(self, path: str, at: tuple[int, int]) -> bool:
        """Whether a file looks as if it said something about options."""
        then, speaks = self._speaking.get(path, (None, False))
        if then != at:
            speaks = speaks_of_options(_text(path))
            self._speaking[path] = at, speaks
        return speaks

    def _settings_in(self, path: str) -> list[Setting]:
        def read() -> list[Setting]:
            tree = parse(path, _text(path))
            return settings_in(path, tree) if isinstance(tree, ast.Module) else []

        return _kept(self._settings, self._own(path), read)

    def _own(self, path: str) -> _Own:
        return path, self._times.get(path, (0, 0))

    def _wholes_of(self, name: str, path: str) -> tuple[Whole, ...]:
        """Return what makes instances of a class in other files, the nearest files first, then what makes those.

        Where nothing calls it, it is what inherits from it.
        """
        known = self._nearest
        if (name, path) not in known:
            known[name, path] = self._nearest_of(name, path)
        return known[name, path]

    def _nearest_of(self, name: str, path: str) -> tuple[Whole, ...]:
        found = dict.fromkeys((self._makers_of if name in self._callers else self._heirs_of)(name, path))
        parts = list(found)
        while parts and len(found) < _MOST_WHOLES:
            # What has it as a part may be one itself, which nobody builds by itself.
            outer = (each for part in parts for each in (*self._makers_in(*part), *self._makers_of(*reversed(part))))
            parts = [each for each in dict.fromkeys(outer) if each not in found and each[0] != path]
            found |= dict.fromkeys(parts)
        return tuple(self._whole(*each) for each in list(found)[:_MOST_WHOLES])

    def _makers_of(self, name: str, path: str) -> list[tuple[str, str]]:
        """Return the files, and the names in them, of what makes instances of a class of another file."""
        return self._nearest_in(self._callers.get(name, ()), name, path, Makers.of)

    def _heirs_of(self, name: str, path: str) -> list[tuple[str, str]]:
        """Return likewise what is derived from a class of another file."""
        return self._nearest_in(self._heirs.get(name, ()), name, path, Makers.heirs)

    def _nearest_in(
        self, files: Iterable[str], name: str, path: str, of: Callable[[Makers, str], list[str]]
    ) -> list[tuple[str, str]]:
        near = [each for each in files if each != path and each.endswith(".py") and not _TEST.search(each)]
        near.sort(key=lambda other: (-_shared(other, path), other))
        found: list[tuple[str, str]] = []
        for other in near[:_MOST_PARSED]:
            seen = self._seen_in(other, name, path)
            found += [(other, each) for each in of(seen.makers, name) if name in seen.meant]
            if len(found) >= _MOST:
                break
        return found[:_MOST]

    def _makers_in(self, path: str, name: str) -> list[tuple[str, str]]:
        """Return likewise what makes instances of a class of the same file."""

        def read() -> Makers:
            tree = parse(path, _text(path))
            return makers_in(tree) if isinstance(tree, ast.Module) else Makers()

        return [(path, each) for each in _kept(self._makers, self._own(path), read).of(name)][:_MOST]

    def _whole(self, path: str, name: str) -> Whole:
        """Return something that makes a class's instances, with how it is built and fed as far as that is written."""
        text = _text(path)
        target = _kept(self._indices, self._own(path), partial(discover, path, text)).target(name)
        if target is None or target.kind != "class":
            return Whole(path, name)
        constructs, inputs = target.constructs, target.inputs
        if not constructs:
            found, fed = self._calls_of(name, path, cache(partial(_bound_by, text)))
            constructs, inputs = ordered(found), ordered((*inputs, *fed))
        return Whole(path, name, constructs, inputs)

    def _seen_in(self, path: str, name: str, definition: str) -> _Seen:
        """Return what a file has to do with a class, and the others, of another file: it is read for all at once."""
        key = path, definition, self._times.get(path, (0, 0))
        seen = self._seen.get(key)
        if seen is None or name not in seen.asked:
            defined = frozenset(_DEFINED.findall(_text(definition))) & self._names.get(path, frozenset())
            asked = defined.union([name], seen.asked if seen is not None else ())
            self._seen.pop(key, None)
            seen = _kept(self._seen, key, partial(_seen_in, path, _text(path), asked, definition))
        if seen.meant:
            # What it makes things with is asked next, of classes of its own.
            _kept(self._makers, self._own(path), lambda: seen.makers)
        return seen


_Kept = TypeVar("_Kept")
_Keyed = TypeVar("_Keyed")


def _kept(known: dict[_Keyed, _Kept], key: _Keyed, make: Callable[[], _Kept]) -> _Kept:
    """Return what is known by a key; made and kept where nothing is. When there is too much of it all is forgotten."""
    if key not in known:
        made = make()
        if len(known) >= _MOST_KEPT:
            known.clear()
        known[key] = made
    return known[key]


def _shared(path: str, other: str) -> int:
    """Return how long the path is of the folder that two files have in common."""
    return len(os.path.commonpath([path, other]))


def _called_in(text: str) -> frozenset[str]:
    """Return the capitalised names that a file calls and does not define, and the entries of registries in it."""
    return frozenset((*_CALL.findall(text), *_DESCRIBED.findall(text))) - frozenset(_DEFINED.findall(text))


def _derived_from_in(text: str) -> frozenset[str]:
    """Return the capitalised names that the classes of a file have as bases, those of the file apart."""
    return frozenset(_BASE.findall(" ".join(_DERIVED.findall(text)))) - frozenset(_DEFINED.findall(text)) - {"Module"}


def _by_name(names: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """Return the files that each name is in."""
    found: dict[str, list[str]] = {}
    for path, each in names.items():
        for name in each:
            found.setdefault(name, []).append(path)
    return found


def _seen_in(path: str, text: str, asked: frozenset[str], definition: str) -> _Seen:
    sites, meant, makers, full = Sites({}, {}, [], [], set(), set()), frozenset[str](), Makers(), dict[str, str]()
    described = frozenset(_DESCRIBED.findall(text))
    if path.endswith(".md"):
        bodies = [body for body in example_code(text, 1) if body]
    else:
        may_mean = asked & described or any(_may_mean(text, name, definition) for name in asked)
        tree = parse(path, text) if may_mean else None
        bodies = [tree.body] if isinstance(tree, ast.Module) else []
    for body in bodies:
        tree = ast.Module(body, [])
        names = names_of(tree)
        means = frozenset(name for name in asked if _means(names, name, definition))
        entries = (asked & described) - names.full.keys()
        if entries or means:
            found = sites_of(Source(path, text, tree, names), entries | means, {})
            for mine, theirs in ((sites.constructs, found.constructs), (sites.inputs, found.inputs)):
                for name, ways in theirs.items():
                    mine.setdefault(name, []).extend(ways)  # pyright: ignore[reportArgumentType] — Alike.
            sites.packages.update(found.packages)
            full |= names.full
        if means and not path.endswith(".md"):
            meant, makers = means, makers_in(tree)
    return _Seen(path, asked, sites, meant, makers, full)


def _may_mean(text: str, name: str, definition: str) -> bool:
    """Whether a text looks as if a name meant what is defined elsewhere: to parse all that call one takes long."""
    imported = rf"from\s+([\w.]+)\s+import\s*(?:\([^)]*?\b{name}\b|[^\n(]*?(?:\b{name}\b|\*))"
    return any(_is_of(found[1], definition) for found in re.finditer(imported, text))


def _means(names: Names, name: str, definition: str) -> bool:
    """Whether a file imports a name from the module that defines it, or from a package around that."""
    if name not in names.full:
        stem = Path(definition).stem
        return any(each.rpartition(".")[2] == stem for each in names.starred)
    return _is_of(names.full[name].rpartition(".")[0], definition)


def _is_of(module: str, definition: str) -> bool:
    """Whether a module may be the one of a file, or a package around it."""
    module, parts = module.strip("."), Path(definition).with_suffix("").parts
    return not module or module.rpartition(".")[2] == parts[-1] or module.partition(".")[0] in parts[:-1]


_Way = TypeVar("_Way", Construct, Inputs)


def _understood(ways: Iterable[_Way], name: str, known: _Known, seen: _Seen) -> Iterator[_Way]:
    """Yield the ways to build, or to feed, a class that can be said in the module that defines it.

    What that does not know, and the other file imports, is called by its full name there: `timm.layers.Mlp(8)`.
    """
    for way in ways:
        whole = way.expression if isinstance(way, Construct) else f"{name}({way.expression})"
        needed = _needs(whole) - {name}
        full = {each: _full_name(each, seen) for each in needed - known().keys()} if needed else {}
        firsts = {each.partition(".")[0] for each in full.values()}
        if "" in firsts or any(known().get(each, each) != each for each in firsts):
            continue
        if full:
            names = {each: ast.parse(said, mode="eval").body for each, said in full.items()}
            whole = ast.unparse(substituted(ast.parse(whole, mode="eval").body, names))
        yield replace(way, expression=whole if isinstance(way, Construct) else whole[len(name) + 1 : -1])


def _full_name(name: str, seen: _Seen) -> str:
    """Return the full name of what a file imports by a name, or names in full already; "" for anything else."""
    return absolute_name(seen.full.get(name, name if name in seen.sites.packages else ""), seen.path)


def _needs(expression: str) -> frozenset[str]:
    """Return the names that an expression looks up and does not bind itself."""
    try:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError):
        return frozenset({"?"})
    own = {each.id for each in nodes if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    own |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return frozenset(each.id for each in nodes if isinstance(each, ast.Name)) - own - _ALWAYS


def _bound_by(text: str) -> Mapping[str, str]:
    """Return the names that a file binds when it is imported, with the full names of what they mean elsewhere."""
    tree = parse("", text)
    if not isinstance(tree, ast.Module):
        return {}
    return {**names_of(tree).full, **dict.fromkeys(defined_by(tree), "")}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _files(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the Python and Markdown files below a folder, each with its time and size; tests and examples first."""
    waiting = [folder]
    while waiting:
        here = waiting.pop(0)
        try:
            entries = sorted(os.scandir(here), key=lambda each: each.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED or entry.is_symlink():
                continue
            if entry.is_dir():
                if not (Path(entry.path) / "pyvenv.cfg").exists():
                    waiting.append(entry.path)
            elif entry.name.endswith((".py", ".md")):
                about = entry.stat()
                if about.st_size <= _LARGEST:
                    yield entry.path, (about.st_mtime_ns, about.st_size)
