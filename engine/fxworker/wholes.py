"""A class as the models of other files use it: built as one of their parts, and fed with what it is given there.

`Block(attention, dim)` in `blocks.py` says little about its attention; `Net` in `net.py` makes the blocks with the one
that is meant. So that model is built, with arguments that are searched for if need be, and its first block is taken.
The other file is executed by slice, as every file. Those of the project's modules that know the file which asks are for
this alone, and not there afterwards; the others stay.
"""

import ast
import contextlib
import inspect
import linecache
import os
import re
import sys
import time
import types
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.inputs import InferredInputs, infer_inputs
from fxengine.inputs.recipes import Recipe, TensorRecipe
from fxworker.argument_lists import Arguments, arguments_of
from fxworker.arguments import Search
from fxworker.callers import EXPRESSION
from fxworker.given import Call, Writing, first_call
from fxworker.loading import Document, Loaded, load
from fxworker.makers import made_in, scope_with, settings_of
from fxworker.overlays import OverlayFinder
from fxworker.packages import Place, place_of
from fxworker.patience import OutOfPatience, patience
from fxworker.wire import Span, TraceRequest, TraceTarget, Whole

_SECONDS: Final = 1.0
"""How long arguments are searched for of one model that has the class as a part."""

_SECONDS_OF_INPUTS: Final = 0.5
"""How long inputs are searched for of it."""

_SECONDS_OF_ALL: Final = 4.0
"""How long all that may take, for all classes of a file."""

_KEPT: Final = "wholes"
_SPENT: Final = "seconds of wholes"
"""What the models are kept as that were built for a file, and the time that they took."""

_MORE: Final = "more of the file"
"""What the names are kept as that other files import of a file, and that its own models do not need."""

_NOTHING: Final = object()

_ALWAYS: Final = {"torch": torch, "nn": nn, "SimpleNamespace": types.SimpleNamespace}
"""The names that arguments are written with, whatever a file imports."""


@dataclass(frozen=True, slots=True)
class _Model:
    """A model of another file.

    Attributes:
        expression: The call that built it, as it reads in the file that asks for a part.
        root: The model.
        said: Inputs that somebody wrote down for it.
        inputs: What it runs on, as far as that was found; None where somebody wrote it down.
    """

    expression: str
    root: nn.Module
    said: tuple[Arguments, ...]
    inputs: InferredInputs | None


@dataclass(frozen=True, slots=True)
class Part:
    """An instance of a class in a model of another file.

    Attributes:
        expression: What gives it.
        root: The instance.
        inputs: What it is called with there, as an argument list; empty if that is not known.
    """

    expression: str
    root: nn.Module
    inputs: str


def part_of(
    target: TraceTarget, cls: type, loaded: Loaded, scope: Mapping[str, Any], make: Callable[[Callable[[], Any]], Any]
) -> Part | None:
    """Return an instance of a class as the models of other files make it, None where none of them can be built.

    It is that of the first model which can be fed, so that it is known what the part is given there, if there is one.

    Args:
        target: What the class is the target of.
        cls: The class.
        loaded: The file's module.
        scope: The names that expressions about the file's models may use.
        make: Calls what builds a model.
    """
    known: dict[Whole, _Model | None] = loaded.inner.setdefault(_KEPT, {})
    until = time.process_time() + _SECONDS_OF_ALL - loaded.inner.get(_SPENT, 0.0)
    unfed: Part | None = None
    for whole in target.wholes:
        if whole not in known and time.process_time() < until:
            begun = time.process_time()
            known[whole] = _model(whole, loaded, scope, make)
            loaded.inner[_SPENT] = loaded.inner.get(_SPENT, 0.0) + time.process_time() - begun
        model = known.get(whole)
        part = _part_of(model, cls, scope) if model is not None else None
        if part is not None and part.inputs:
            return part
        unfed = unfed or part
    return unfed


def scope_with_wholes(
    expressions: Iterable[str], target: TraceTarget, loaded: Loaded, scope: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a scope that has the packages of those models in other files which expressions build."""
    found = dict(scope)
    for whole in {each: None for expression in expressions for each in wholes_in(expression, target)}:
        place = _place_of(whole)
        with contextlib.suppress(BaseException), _visiting(loaded, place, whole):
            found |= _names_of(place, scope)
    return found


def wholes_in(expression: str, target: TraceTarget) -> Iterator[Whole]:
    """Yield the models of which an expression makes a target a part."""
    for whole in target.wholes:
        package = re.escape(_place_of(whole).name.partition(".")[0])
        if f".{whole.qualname}(" in expression and re.match(rf"(\[\w+ := )?{package}", expression):
            yield whole


def _place_of(whole: Whole) -> Place:
    return place_of(whole.path, _text_of(whole), sys.path)


def _text_of(whole: Whole) -> str:
    """Return the text of a model's file, as it is in the editor if it is open there; empty if there is none."""
    unsaved = (each.texts.get(whole.path) for each in sys.meta_path if isinstance(each, OverlayFinder))
    text = next((each for each in unsaved if each is not None), None)
    if text is None and os.path.isfile(whole.path):
        text = Path(whole.path).read_text(encoding="utf-8", errors="replace")
    return text or ""


def _names_of(place: Place, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name that the name of an imported module begins with, and what it stands for.

    Raises:
        NameError: The file means something else by it.
    """
    first = place.name.partition(".")[0]
    if scope.get(first, sys.modules[first]) is not sys.modules[first]:
        raise NameError(first)
    return {first: sys.modules[first]}


def _full_name(place: Place, whole: Whole, maker: Any) -> str:
    """Return the name that leads to what makes a model, from the package on: that of its module, or of one around it.

    Raises:
        NameError: There is none, as a package calls something else by the name of the module.
    """
    parts = place.name.split(".")
    for count in range(len(parts), 0, -1):
        value: Any = sys.modules[parts[0]]
        for part in (*parts[1:count], whole.qualname):
            value = getattr(value, part, None)
        if value is maker:
            return ".".join((*parts[:count], whole.qualname))
    raise NameError(whole.qualname)


@contextlib.contextmanager
def _visiting(loaded: Loaded, place: Place, whole: Whole) -> Generator[None]:
    """Have the module of a model, which sees the file as it is loaded; then let those that know the file be as before.

    Raises:
        BaseException: What importing it raises.
    """
    before = dict(sys.modules)
    path = str(loaded.module.__file__)
    if _MORE not in loaded.inner:
        # What is built there may ask for more of the file whenever it runs.
        loaded.inner[_MORE] = dict[str, Any]()
        own = vars(loaded.module).get("__getattr__")
        vars(loaded.module)["__getattr__"] = partial(_more_of, loaded, own)
    older = _without(_older(place.root, loaded.module))
    try:
        sys.modules |= dict.fromkeys(_names_of_file(path), loaded.module)
        place.import_package()
        if place.name not in sys.modules:
            _load(place, whole)
        _complete(before)
        yield
    finally:
        knowing = _knowing(place.root, loaded.module)
        new = {name: each for name, each in sys.modules.items() if name not in before and name not in knowing}
        own = {name: each for name, each in new.items() if _is_in(place.root, each)}
        # What was imported last is told by the order, and repeated ahead of the next trace. What may lead to the file,
        # or run for hours if it is imported whole, stands before it.
        sys.modules.clear()
        sys.modules.update({**own, **before, **new})
        # A package leads to what was found in it, so that expressions do; where nothing was, to what it led to before.
        for package, stem, module in older:
            vars(package).setdefault(stem, module)


def _more_of(loaded: Loaded, own: Callable[[str], Any] | None, name: str) -> Any:
    """Return what a name stands for in a file whose own models do not need it: others may import it.

    Raises:
        AttributeError: Nothing.
    """
    more: dict[str, Any] = loaded.inner[_MORE]
    lines = linecache.getlines(str(loaded.module.__file__))
    if name not in more and (name == "__all__" or any(name in each for each in lines)):
        names = [name, *(_defined_in(loaded) if name == "__all__" else ())]
        scope = {**vars(loaded.module), **more}
        found = scope_with(names, loaded, scope)
        more |= {each: value for each, value in found.items() if each not in scope}
        if name == "__all__":
            more.setdefault(name, [each for each in names[1:] if each in found and not each.startswith("_")])
    if name in more:
        return more[name]
    if own is not None:
        return own(name)
    raise AttributeError(name)


def _defined_in(loaded: Loaded) -> list[str]:
    """Return the names of what a file defines and imports."""
    found: list[str] = []
    for node in loaded.tree.body if loaded.tree is not None else ():
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.append(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found += [each.asname or each.name.partition(".")[0] for each in names if each.name != "*"]
            case _:
                pass
    return found


def _load(place: Place, whole: Whole) -> None:
    """Execute what a model needs of its file, of which nobody else wants anything."""
    target = TraceTarget(whole.qualname, "class", Span(1, 0, 1, 0))
    request = TraceRequest(0, whole.path, _text_of(whole), (target,), (place.root,))
    module = load(request, Document.of(request)).module
    package, _, stem = place.name.rpartition(".")
    if package:
        vars(sys.modules[package]).setdefault(stem, module)


def _names_of_file(path: str) -> Iterator[str]:
    """Yield the names by which other modules may import a file."""
    for root in sys.path:
        if root and path.startswith(root + os.sep):
            name = os.path.splitext(os.path.relpath(path, root))[0].replace(os.sep, ".")
            if all(part.isidentifier() for part in name.split(".")):
                yield name


def _older(root: str, loaded: types.ModuleType) -> set[str]:
    """Return the names of a project's modules that know a file as it was imported, and not as it is loaded."""
    modules, same = _others(root, loaded), _names(loaded)
    return _led_to(modules, {name for name, each in modules.items() if name in same or _has_older(each, same, loaded)})


def _knowing(root: str, loaded: types.ModuleType) -> set[str]:
    """Return the names of a project's modules that know a file."""
    modules, same = _others(root, loaded), _names(loaded)
    return _led_to(modules, {name for name, each in modules.items() if name in same or _origins(each) & same})


def _others(root: str, loaded: types.ModuleType) -> dict[str, Any]:
    """Return a project's modules but that of a file."""
    return {name: each for name, each in sys.modules.items() if each is not loaded and _is_in(root, each)}


def _names(loaded: types.ModuleType) -> set[str]:
    return {loaded.__name__, *_names_of_file(str(loaded.__file__))}


def _led_to(modules: Mapping[str, Any], names: Collection[str]) -> set[str]:
    """Return the names of modules, and of those that know them."""
    found, waiting = set(names), bool(names)
    while waiting:
        more = {name for name in modules.keys() - found if not _origins(modules[name]).isdisjoint(found)}
        waiting = bool(more)
        found |= more
    return found


def _complete(before: Mapping[str, Any]) -> None:
    """Let packages that were imported anew lead to those of their modules that were not."""
    for name, module in list(sys.modules.items()):
        around, _, stem = name.rpartition(".")
        package = sys.modules.get(around)
        if package is not None and package is not before.get(around) and module is before.get(name):
            vars(package).setdefault(stem, module)


def _without(names: Collection[str]) -> list[tuple[Any, str, Any]]:
    """Forget modules, and return the packages that have them as attributes, which they have no longer, with these."""
    found: list[tuple[Any, str, Any]] = []
    for name in names:
        module, (around, _, stem) = sys.modules.pop(name, None), name.rpartition(".")
        package = sys.modules.get(around)
        if package is not None and around not in names and vars(package).get(stem, _NOTHING) is module:
            delattr(package, stem)
            found.append((package, stem, module))
    return found


def _has_older(module: types.ModuleType, names: set[str], loaded: types.ModuleType) -> bool:
    """Whether a module has a class or function of a file that is not the one of the file as it is loaded."""
    return any(
        isinstance(each, type | types.FunctionType)
        and each.__module__ in names
        and vars(loaded).get(each.__name__) is not each
        for each in list(vars(module).values())
    )


def _origins(module: types.ModuleType) -> set[str]:
    """Return the names of the modules that a module has classes or functions of, or itself other than as a package."""
    values = list(vars(module).values())
    found = {each.__module__ for each in values if isinstance(each, type | types.FunctionType)}
    modules = {each.__name__ for each in values if isinstance(each, types.ModuleType)}
    return found | {each for each in modules if each.rpartition(".")[0] != module.__name__}


def _is_in(folder: str, module: Any) -> bool:
    """Whether a module is of a project; a bare package is what lies in it."""
    # Some modules are objects that answer whatever they are asked.
    known = getattr(module, "__dict__", {})
    path = known.get("__path__")
    folders = list(path) if isinstance(path, Iterable) else []
    return any(isinstance(each, str) and each.startswith(folder + os.sep) for each in (known.get("__file__"), *folders))


def _model(
    whole: Whole, loaded: Loaded, scope: Mapping[str, Any], make: Callable[[Callable[[], Any]], Any]
) -> _Model | None:
    """Return a model of another file, as somebody builds it or with arguments that are searched for; None for none."""
    place = _place_of(whole)
    with contextlib.suppress(BaseException), _visiting(loaded, place, whole):
        names, own = _names_of(place, scope), vars(sys.modules[place.name])
        maker = own[whole.qualname]
        if not isinstance(maker, type) or issubclass(maker, nn.Module):
            name, there = _full_name(place, whole, maker), {**_ALWAYS, **own, **names}
            expression, root = _said(whole, there, make) or _searched(name, maker, there, loaded, make) or ("", None)
            if root is not None:
                expression = _qualified(expression, place.name, own, {**scope, **names}, {whole.qualname: name})
                given = tuple(_written(whole, there))
                return _Model(
                    expression, root, given, None if given else infer_inputs(root, budget_s=_SECONDS_OF_INPUTS)
                )
    return None


def _said(
    whole: Whole, scope: dict[str, Any], make: Callable[[Callable[[], Any]], Any]
) -> tuple[str, nn.Module] | None:
    """Return the call of a model that somebody wrote down, and what it makes; None where none makes one."""
    for construct in whole.constructs:
        expression = construct.expression.strip()
        if expression.startswith(f"{whole.qualname}("):
            with contextlib.suppress(Exception, OutOfPatience), patience(_SECONDS):
                code = compile(expression, EXPRESSION, "eval")
                root = made_in(make(partial(eval, code, scope)), nn.Module)
                if root is not None:
                    return expression, root
    return None


def _written(whole: Whole, scope: dict[str, Any]) -> Iterator[Arguments]:
    """Yield the inputs of a model that somebody wrote down, as far as they can be made."""
    for inputs in whole.inputs:
        with contextlib.suppress(Exception, OutOfPatience), patience(_SECONDS_OF_INPUTS):
            yield arguments_of(inputs.expression, scope)


def _searched(
    name: str, maker: Any, scope: dict[str, Any], loaded: Loaded, make: Callable[[Callable[[], Any]], Any]
) -> tuple[str, nn.Module] | None:
    """Return a call of what makes a model, with arguments that were searched for, and the model; None for none."""
    search = Search(name, maker, scope, make, kind=(nn.Module, tuple, list), settings=settings_of(loaded))
    expression, value = (None if search.stands_in else search.run(seconds=_SECONDS)) or ("", None)
    root = made_in(value, nn.Module)
    return (expression, root) if root is not None else None


def _qualified(
    expression: str, module: str, own: Mapping[str, Any], scope: Mapping[str, Any], known: Mapping[str, str]
) -> str:
    """Return an expression of another module as it reads in a scope: with that module's name before its names.

    Args:
        expression: The expression.
        module: The full name of the module that it is of.
        own: The names of that module.
        scope: The names of where it is to be read.
        known: The full names of some of them, where those do not begin with the module's.
    """
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in own and scope.get(node.id, _NOTHING) is not own[node.id]:
            node.id = known.get(node.id, f"{module}.{node.id}")
    return ast.unparse(tree)


def _part_of(model: _Model, cls: type, names: Mapping[str, Any]) -> Part | None:
    """Return the first instance of a class in a model that is called there, or the first one; None for none.

    Where there are none, the instances of its subclasses count that have its forward.
    """
    modules = dict(model.root.named_modules())
    found = {path: each for path, each in modules.items() if type(each) is cls} or {
        path: each for path, each in modules.items() if isinstance(each, cls) and type(each).forward is cls.forward
    }
    if not found:
        return None
    call = _given(model, found, names) or Call(next(iter(found)), "")
    part = found[call.path]
    for name, value in call.state:
        setattr(part, name, value)
    return Part(call.with_state(f"{model.expression}{_steps(model.root, call.path)}"), part, call.given)


def _steps(root: nn.Module, path: str) -> str:
    """Return what stands behind an expression of a module for one of its parts."""
    steps, owner = "", root
    for name in path.split(".") if path else ():
        if name.isidentifier():
            steps += f".{name}"
        elif name.isdigit() and isinstance(owner, nn.ModuleList | nn.Sequential):
            steps += f"[{name}]"
        else:
            return f".get_submodule({path!r})"
        owner = owner.get_submodule(name)
    return steps


def _given(model: _Model, parts: Collection[str], names: Mapping[str, Any]) -> Call | None:
    """Return the first call of some parts in a model, by their paths, as it reads with some names; None for none."""
    found = model.inputs
    if found is None:
        calls = (first_call(model.root, parts, each, Writing({}, names), fits=True) for each in model.said)
        return next(filter(None, calls), None)
    # A model that nothing fits may fail behind the part.
    writing = Writing(dict(_recipes(model.root, found)), names)
    return first_call(model.root, parts, (found.args, found.kwargs), writing, fits=found.usable)


def _recipes(root: nn.Module, found: InferredInputs) -> Iterator[tuple[int, Recipe]]:
    """Yield how tensors are made that a model is given, by their identities."""
    values = inspect.signature(root.forward).bind(*found.args, **found.kwargs).arguments
    for name, recipe in found.recipes.items():
        if isinstance(recipe, TensorRecipe) and isinstance(values.get(name), Tensor):
            yield id(values[name]), recipe
