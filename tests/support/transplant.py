"""Runs modules that use torch.fx on the engine: copies of them, in memory, for which `torch.fx` is `fxengine`.

A copy is compiled from the installed source of a module and gets an import function of its own. To a copy, `torch` is a
stand-in whose `fx` is the engine; other modules of the chosen packages that lead to torch.fx are copies as well, and
everything else is what it always was. Nothing is written to disk and no module that is imported otherwise is changed.

What torch.fx has and the engine has not is taken from torch.fx, and noted in `missing`: so that one gap does not hide
those behind it, and so that none is overlooked.
"""

import ast
import builtins
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fxengine
from fxengine._compatibility import _BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY

PREFIX = "on_the_engine"
"""The package that the copies' names begin with."""


class Transplant:
    """Copies of modules that take the engine for torch.fx.

    Attributes:
        packages: The names of packages and modules; what of them leads to torch.fx is copied.
        keep: Modules of these that are not copied, such as those that may be executed only once.
        missing: What was asked of the engine and taken from torch.fx.
    """

    def __init__(self, *packages: str, keep: tuple[str, ...] = ()) -> None:
        self.packages = packages
        self.keep = keep
        self.missing: set[str] = set()
        self._builtins = {**vars(builtins), "__import__": self._import}
        self._engine = _Engine(self, fxengine, "torch.fx")

    def load(self, name: str) -> Any:
        """Return the copy of a module, or the module itself if nothing in it leads to torch.fx."""
        if not self.copies(name):
            of_torch_fx = name == "torch.fx" or name.startswith("torch.fx.")
            return self._of_the_engine(name) if of_torch_fx else importlib.import_module(name)
        package = name.rpartition(".")[0]
        if self.copies(package):
            self.load(package)
        private = f"{PREFIX}.{name}"
        if private not in sys.modules:
            self._execute(name, private)
        return sys.modules[private]

    def copies(self, name: str) -> bool:
        """Whether a module is copied: it is of the chosen packages and imports torch.fx, perhaps indirectly."""
        return self._chosen(name) and self._leads_to_fx(name)

    def forget(self) -> None:
        """Drop the copies, and what they have noted in the engine's lists."""
        for name in [name for name in sys.modules if name.startswith(f"{PREFIX}.")]:
            del sys.modules[name]
        for noted in (_BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY):
            for obj in [obj for obj in noted if str(getattr(obj, "__module__", "")).startswith(f"{PREFIX}.")]:
                del noted[obj]

    def _execute(self, name: str, private: str) -> None:
        path = source_file(name)
        module = ModuleType(private)
        is_package = path.name == "__init__.py"
        module.__file__ = str(path)
        module.__package__ = private if is_package else private.rpartition(".")[0]
        if is_package:
            module.__path__ = []
        vars(module)["__builtins__"] = self._builtins
        sys.modules[private] = module
        try:
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
        except BaseException:
            del sys.modules[private]
            raise

    def _import(
        self,
        name: str,
        globals: dict[str, Any] | None = None,  # noqa: A002 - the name of the builtin's parameter.
        locals: dict[str, Any] | None = None,  # noqa: A002
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:
        """Do what `__import__` does, on behalf of a copy."""
        if level:
            package = str((globals or {})["__package__"]).removeprefix(f"{PREFIX}.")
            name = importlib.util.resolve_name("." * level + name, package)
        if not fromlist:
            self._view(name)
            return self._view(name.partition(".")[0])
        module = self._view(name)
        for each in fromlist:
            if each != "*" and not hasattr(module, each):
                self._view(f"{name}.{each}")
        return module

    def _view(self, name: str) -> Any:
        """What stands for a module in a copy; as when any module is imported, its package gets it as an attribute."""
        module = self._found(name)
        package, _, last = name.rpartition(".")
        copied = sys.modules.get(f"{PREFIX}.{package}")
        if copied is not None:
            setattr(copied, last, module)
        return module

    def _found(self, name: str) -> Any:
        if name == "torch.fx" or name.startswith("torch.fx.") or self.copies(name):
            return self.load(name)
        importlib.import_module(name)
        leads_on = any(each.startswith(f"{name}.") for each in (*self.packages, "torch.fx"))
        return _StandIn(self, name) if leads_on else sys.modules[name]

    def _of_the_engine(self, name: str) -> Any:
        if name == "torch.fx":
            return self._engine
        ours = f"fxengine{name.removeprefix('torch.fx')}"
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not ours.startswith(error.name):
                raise
            self.missing.add(name)
            return importlib.import_module(name)
        return _Engine(self, module, name)

    def _chosen(self, name: str) -> bool:
        return name not in self.keep and any(f"{name}.".startswith(f"{package}.") for package in self.packages)

    def _leads_to_fx(self, name: str) -> bool:
        """Whether the module imports torch.fx, itself or through other modules of the chosen packages."""
        seen, waiting = {name}, [name]
        while waiting:
            for imported in _imports(waiting.pop()):
                if imported == "torch.fx" or imported.startswith("torch.fx."):
                    return True
                if imported not in seen and self._chosen(imported):
                    seen.add(imported)
                    waiting.append(imported)
        return False


class _Engine(ModuleType):
    """A module of the engine, which leaves what it does not have to torch.fx's module of the same name."""

    def __init__(self, transplant: Transplant, module: ModuleType, name: str) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(_transplant=transplant, _module=module, _name=name)
        if hasattr(module, "__all__"):
            self.__dict__["__all__"] = module.__all__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            return getattr(self._module, name)
        try:
            value = getattr(self._module, name)
        except AttributeError:
            if not hasattr(importlib.import_module(self._name), name):
                raise
            full = f"{self._name}.{name}"
            if source_file(full, missing_ok=True) is not None:
                return self._transplant.load(full)
            self._transplant.missing.add(full)
            return getattr(sys.modules[self._name], name)
        if isinstance(value, ModuleType) and value.__name__.startswith("fxengine."):
            return self._transplant.load(f"torch.fx{value.__name__.removeprefix('fxengine')}")
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)


class _StandIn(ModuleType):
    """Stands for a module that is not copied but has copied ones, or torch.fx, below it."""

    def __init__(self, transplant: Transplant, name: str) -> None:
        super().__init__(name)
        self.__dict__["_transplant"] = transplant

    def __getattr__(self, name: str) -> Any:
        value = getattr(sys.modules[self.__name__], name)
        full = f"{self.__name__}.{name}"
        return self._transplant._view(full) if full in sys.modules and isinstance(value, ModuleType) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys.modules[self.__name__], name, value)


@functools.cache
def source_file(name: str, *, missing_ok: bool = False) -> Path | None:
    """The file of an installed module."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        assert missing_ok, name
        return None
    return Path(spec.origin)


@functools.cache
def _imports(name: str) -> frozenset[str]:
    """The names of all modules that a module imports; of `from a import b` both `a` and `a.b`, if that is one."""
    path = source_file(name, missing_ok=True)
    if path is None or path.suffix != ".py":
        return frozenset()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return frozenset(_imported(ast.parse(path.read_bytes()), package))


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if _is_module(f"{base}.{alias.name}"))
            case ast.Attribute(ast.Name("torch"), "fx"):
                yield "torch.fx"
            case _:
                pass


def _is_module(name: str) -> bool:
    try:
        return source_file(name, missing_ok=True) is not None
    except (ModuleNotFoundError, ValueError):
        return False
