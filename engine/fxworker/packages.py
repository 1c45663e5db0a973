"""Where a file stands among the modules of its project: its name there, the packages around it, a module to fill.

Also what of its imports is not installed, and which modules were imported since. A file's own code is not run here;
that of its packages is.
"""

import ast
import contextlib
import enum
import importlib
import importlib.util
import itertools
import os
import re
import sys
import time
import types
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any, Final

from fxengine.syntax import tree_of
from fxworker.importing import importing

_PATIENCE: Final = 3.0
"""Seconds after which the rest of a package that cannot be imported is left out."""

_RELATIVE: Final = re.compile(r"^\s*from\s+(\.+)", re.MULTILINE)


@contextlib.contextmanager
def incomplete(module: types.ModuleType) -> Generator[None]:
    """Let what is imported meanwhile, and imports from this module in turn, be told that it goes round in a circle."""
    assert module.__spec__ is not None
    vars(module.__spec__)["_initializing"] = True
    try:
        yield
    finally:
        vars(module.__spec__)["_initializing"] = False


@dataclass(frozen=True, slots=True)
class Place:
    """A file's place.

    Attributes:
        path: The file.
        name: The name of its module, with its packages.
        package: The name that its relative imports start from.
        root: The folder that the name starts from.
    """

    path: str
    name: str
    package: str
    root: str

    def module(self) -> types.ModuleType:
        """Return an empty module in this place."""
        module = types.ModuleType(self.name)
        loader = SourceFileLoader(self.name, self.path)
        spec = ModuleSpec(self.name, loader, origin=self.path)
        spec.has_location = True
        if self.package == self.name:
            module.__path__ = [os.path.dirname(self.path)]
            spec.submodule_search_locations = module.__path__
        module.__spec__, module.__loader__ = spec, loader
        module.__package__, module.__file__ = self.package, self.path
        return module

    def import_package(self) -> None:
        """Import the packages around the file; one that fails has what those of its statements give that do not."""
        parts = self.package.split(".") if self.package else []
        folder = os.path.dirname(self.path)
        if parts and self.package == self.name:
            # The file is what its package executes; the packages around that are imported before it.
            parts.pop()
            folder = os.path.dirname(folder)
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[:count])
            try:
                importing(partial(import_named, name))
            except BaseException:  # noqa: BLE001 — User code; a package that fails must not hide the file's own models.
                up = os.path.join(folder, *([os.pardir] * (len(parts) - count)))
                _execute_what_goes(name, os.path.normpath(up))


def _execute_what_goes(name: str, folder: str) -> None:
    """Make a package of those statements of its file that can be executed; of none after some time."""
    path = os.path.join(folder, "__init__.py")
    module = Place(path, name, name, os.path.dirname(folder)).module()
    sys.modules[name] = module
    _have_what_is_imported(module)
    tree = tree_of(path)
    until = time.monotonic() + _PATIENCE
    for node in tree.body if tree is not None else ():
        if time.monotonic() > until:
            return
        with contextlib.suppress(BaseException):  # User code.
            code = compile(ast.Module([node], []), path, "exec", dont_inherit=True)
            importing(partial(exec, code, vars(module)))


def _have_what_is_imported(package: types.ModuleType) -> None:
    """Give a package its modules that are there already, as importing them would have done: none does it again."""
    for name, module in [*sys.modules.items()]:
        around, _, last = name.rpartition(".")
        if around == package.__name__:
            vars(package).setdefault(last, module)


def place_of(path: str, text: str, roots: Sequence[str]) -> Place:
    """Return the place of a file with some text among the folders that imports are looked for in."""
    folder, file = os.path.split(path)
    stem = os.path.splitext(file)[0]
    parts: list[str] = []
    top = folder
    upwards = max(map(len, _RELATIVE.findall(text)), default=0)
    # A folder in a package belongs to it, though nothing in it says so, if what lies in it is imported as such. So does
    # one around it that a file names by dots: its parts may have their place in a package that is not here.
    while (
        is_package(top)
        or ((parts or upwards) and is_package(os.path.dirname(top)))
        or (0 < len(parts) < upwards and os.path.dirname(top) != top)
    ):
        parts.insert(0, os.path.basename(top))
        top = os.path.dirname(top)
    if parts:
        package = ".".join(parts)
        return Place(path, package if stem == "__init__" else f"{package}.{stem}", package, top)
    if upwards:
        # A package without `__init__.py`: its name starts below the innermost root that its imports do not lead out of.
        highest = os.path.abspath(os.path.join(folder, *[os.pardir] * upwards))
        above = [each for each in map(os.path.abspath, roots) if f"{highest}{os.sep}".startswith(f"{each}{os.sep}")]
        return _below(max(above, key=len, default=highest), path)
    named = next((root for root in map(os.path.abspath, roots) if _imports_from_below(root, folder, text)), "")
    if named:
        return _below(named, path)
    # A file may be called like a module that Python itself needs, and must not stand in its place.
    taken = stem in sys.stdlib_module_names or stem in sys.modules
    return Place(path, f"_{stem}" if taken else stem, "", folder)


def _below(root: str, path: str) -> Place:
    """Return the place of a file in a package without `__init__.py` whose name starts below a root."""
    folder, file = os.path.split(path)
    package = os.path.relpath(folder, root).replace(os.sep, ".")
    return Place(path, f"{package}.{os.path.splitext(file)[0]}", package, root)


def _imports_from_below(root: str, folder: str, text: str) -> bool:
    """Whether a text imports by the name that its folder, or one around it, has in a root: then it is so imported."""
    if not folder.startswith(os.path.join(root, "")):
        return False
    first, *_ = names = os.path.relpath(folder, root).split(os.sep)
    members = re.findall(rf"(?m)^\s*(?:from|import)\s+{re.escape(first)}\.(\w+)", text)
    there = (os.path.join(root, first, each) for each in members)
    return all(map(str.isidentifier, names)) and any(
        os.path.isfile(f"{each}.py") or os.path.isdir(each) for each in there
    )


def is_package(folder: str) -> bool:
    """Whether a folder says to be a package."""
    return os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder


def import_named(name: str) -> None:
    """Import a module by its full name.

    Raises:
        BaseException: What importing it raises.
    """
    importlib.import_module(name)


def absent_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the packages that an import statement names and that are not installed."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module] if node.module and not node.level else []
    else:
        names = [alias.name for alias in node.names]
    tops = [name.partition(".")[0] for name in names]
    return [top for top in tops if top not in sys.modules and not _exists(top)]


def newest_module() -> str:
    """Return the name of the module that was imported last."""
    return next(reversed(sys.modules), "")


def modules_since(name: str) -> list[str]:
    """Return the names of the modules that were imported after another.

    Only those are touched: looking at every module would copy, in a forked process, the memory that they lie in.
    """
    return list(itertools.takewhile(lambda each: each != name, reversed(sys.modules)))[::-1]


def reach(expression: str, scope: Mapping[str, Any]) -> bool:
    """Import what an expression names in full: `timm.layers.Mlp(8)`.

    Return whether all is there of those packages of which the scope knows nothing.
    """
    there = {name: _is_reached(name) for name in _full_names(expression, scope)}
    return all(is_there or name.partition(".")[0] in scope for name, is_there in there.items())


def _full_names(expression: str, scope: Mapping[str, Any]) -> Iterator[str]:
    """Yield the dotted names in an expression that begin with the name of a package, not with one of its file's."""
    try:
        pending: list[ast.AST] = [ast.parse(expression.strip(), mode="eval")]
    except (SyntaxError, ValueError):
        return
    while pending:
        node, parts = pending.pop(), list[str]()
        while isinstance(inner := node, ast.Attribute):
            parts.append(inner.attr)
            node = inner.value
        if not isinstance(node, ast.Name):
            pending.extend(ast.iter_child_nodes(node))
        elif parts and scope.get(node.id, sys.modules.get(node.id)) is sys.modules.get(node.id):
            yield ".".join([node.id, *reversed(parts)])


def _is_reached(name: str) -> bool:
    """Whether a full name leads somewhere, once the modules on the way are imported."""
    parts, value = name.split("."), None
    for count, part in enumerate(parts, 1):
        module = ".".join(parts[:count])
        if count > 1 and hasattr(value, part):
            value = getattr(value, part)
            continue
        if count > 1 and not isinstance(value, types.ModuleType):
            return False
        if module not in sys.modules and _exists(module):
            with contextlib.suppress(BaseException):  # User code; without it the name leads nowhere.
                importing(partial(import_named, module))
        if module not in sys.modules:
            return False
        value = sys.modules[module]
    return True


def with_packages(code: types.CodeType, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names that an expression may use: a scope's, and those of imported packages that it speaks of."""
    return {**_named_in(code), **scope}


def _named_in(code: types.CodeType) -> dict[str, types.ModuleType]:
    """Return the imported packages that code speaks of, in its functions too."""
    found = {name: sys.modules[name] for name in code.co_names if name in sys.modules}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= _named_in(each)
    return found


def full_name(cls: type) -> str:
    """Return the name of a class in its imported package, "" for one that cannot be reached so."""
    first, *rest = f"{cls.__module__}.{cls.__qualname__}".split(".")
    value: Any = sys.modules.get(first)
    for part in rest:
        value = vars(value).get(part) if isinstance(value, types.ModuleType | type) else None
    return ".".join((first, *rest)) if value is cls else ""


def member_named(member: enum.Enum) -> str:
    """Return the full name of a member of an enumeration, "" for one that cannot be reached so."""
    full = full_name(type(member))
    return f"{full}.{member.name}" if full else ""


def key_written(key: object) -> str:
    """Return the expression of a key of a table: a text, a whole number, a member of an enumeration; else ""."""
    if isinstance(key, enum.Enum):
        return member_named(key)
    return repr(key) if isinstance(key, str | int) else ""


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return True  # A finder of the user's stumbles over it; whether it exists is not known.
