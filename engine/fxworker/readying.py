"""A model whose forward needs what one of its methods sets: it is built, and that method is called before.

`Linear` may know its width only when `fit` has seen data, or `build` was called; its forward asserts that there is
something then. The method gets arguments that are searched for, as a constructor does, or as a forward does where these
are tensors: what it compares its inputs with, for instance.
"""

import ast
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fxengine.classification import moments_of
from fxengine.inputs import TensorRecipe, infer_inputs
from fxengine.inputs.conditions import conditions, expression_nodes
from fxengine.inputs.signature import is_tensor_type, parameters_of, without_none
from fxworker.arguments import Search
from fxworker.building import EXPLICIT, Built, attempt, built_as, scope_of
from fxworker.loading import Loaded
from fxworker.makers import scope_with, settings_of
from fxworker.slicing import names_in
from fxworker.surroundings import tree_of
from fxworker.wire import TraceTarget

_MODEL: Final = "model"
_MOST: Final = 2
"""What the model is called in the expression that makes it ready, and how many methods are tried."""

_SECONDS: Final = 0.5
"""How long arguments are searched for of one."""

_TABLES: Final = ("_modules", "_parameters", "_buffers")
_KEEPING: Final = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})
"""Where modules keep what is set, and what sets it besides an assignment."""


def made_ready(
    target: TraceTarget,
    loaded: Loaded,
    built: Built,
    errors: Iterable[BaseException | None],
    on_guess: Callable[[], bool] | None = None,
) -> Built | None:
    """Return a model on which a method was called that sets what its forward lacked; None where there is no such.

    Args:
        target: What was built.
        loaded: The file's module.
        built: The model as it was built.
        errors: What its forward raised.
        on_guess: Is told before arguments of a method are searched for, and may forbid it by returning False.
    """
    construct, root = built.construct, built.root
    if construct is None or construct.source in EXPLICIT or not isinstance(root, nn.Module):
        return None
    lacking = dict.fromkeys(name for each in errors if each is not None for name in _unset_behind(each, root))
    methods = [(name, method) for name in lacking for method in _setting(type(root), name)][:_MOST]
    if not methods or (on_guess is not None and not on_guess()):
        return None
    for name, method in methods:
        called = f"{_made(construct.expression)}.{method}"
        fed = _feeding(called, method, root)
        expression = fed or _calling(called, getattr(root, method), target, loaded)
        ready = built_as(expression, target, loaded, real=bool(fed)) if expression else None
        if ready is not None and not _is_unset(ready.root, name):
            return ready
    return None


def ready_as_before(target: TraceTarget, loaded: Loaded, built: Built, hint: str) -> Built | None:
    """Return a model on which the method was called that was called before; None where none was, or it fails now.

    Args:
        target: What was built.
        loaded: The file's module.
        built: The model as it was built.
        hint: How it was built before.
    """
    construct = built.construct
    if construct is None or construct.source in EXPLICIT or not hint.startswith(f"[{_made(construct.expression)}."):
        return None
    return built_as(hint, target, loaded, real=True)


def _made(expression: str) -> str:
    """Return the expression that makes a model, to call a method on it."""
    return f"({_MODEL} := {expression})"


def _feeding(called: str, name: str, root: nn.Module) -> str:
    """Return an expression that gives tensors to a method of a model, and gives the model; "" where it takes none."""
    method = getattr(root, name)
    if not any(is_tensor_type(without_none(each.annotation)) for each in parameters_of(method)):
        return ""
    try:
        taker = copy.copy(root)
        vars(taker)["forward"] = getattr(taker, name)
    except Exception:  # noqa: BLE001 - how a model is copied is up to its class.
        return ""
    found = infer_inputs(taker, budget_s=_SECONDS)
    given = found.expression
    for recipe in found.recipes.values():
        if isinstance(recipe, TensorRecipe) and recipe.fill == "integers" and len(recipe.shape) == 1:
            # What is kept to be compared with has examples of each class that its labels name.
            given = given.replace(recipe.expression, f"torch.arange({recipe.shape[0]})")
    return f"[{called}({given}), {_MODEL}][1]" if found.complete else ""


def _calling(name: str, method: Any, target: TraceTarget, loaded: Loaded) -> str:
    """Return an expression that calls a method of a model and gives the model, "" where no arguments are found."""
    scope = scope_with(names_in(name), loaded, scope_of(loaded, target.qualname))
    search = Search(name, method, scope, _done, kind=tuple, settings=settings_of(loaded))
    found = search.run(seconds=_SECONDS)
    return f"[{found[0]}, {_MODEL}][1]" if found is not None else ""


def _done(build_it: Callable[[], Any]) -> tuple[Any]:
    """Do what a callable does, on the meta device; whatever it returns, it was done."""
    return (attempt(build_it, real=False),)


def _unset_behind(error: BaseException, root: nn.Module) -> Iterator[str]:
    """Yield the attributes of a model that are not set, and that the code looked at which raised something."""
    inner = moments_of(error.__traceback__)[::-1] if isinstance(error, Exception) else []
    inner = [each for each in inner if each.frame.f_code is not nn.Module.__getattr__.__code__]
    moment = next((each for each in inner if each.value_of("self") is root), None)
    if moment is None:
        return
    looked_at = (*expression_nodes(moment), *(test for test, _ in conditions(moment)))
    for node in (each for whole in looked_at for each in ast.walk(whole)):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if _is_unset(root, name):
                yield name
            case _:
                pass


def _is_unset(root: nn.Module, name: str) -> bool:
    """Whether a model lacks an attribute, or has None, a tensor without elements or a flag that is down in its place.

    One of its class that is no such flag is not looked at.
    """
    of_class = inspect.getattr_static(type(root), name, None)
    if of_class is not None and of_class is not False:
        return False
    own = vars(root)
    tables = (own, *(own[each] for each in _TABLES if each in own))
    return all(_is_nothing(each.get(name)) for each in tables)


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, Tensor) and not is_lazy(value) and value.numel() == 0)


def _setting(cls: type, name: str) -> Iterator[str]:
    """Yield the methods of a class that set an attribute to something, its own first, without what Python calls.

    What only a private one sets that takes no arguments, as a flag, is set by those that call it.
    """
    trees = {method: tree for method, tree in _methods(cls) if tree is not None}
    setting = [method for method, tree in trees.items() if any(_sets(each, name) for each in ast.walk(tree))]
    for method in setting:
        if not (method.startswith("_") and not parameters_of(inspect.getattr_static(cls, method))[1:]):
            yield method
            continue
        for other, tree in trees.items():
            if any(_calls(each, method) for each in ast.walk(tree)):
                yield other


def _methods(cls: type) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the methods of a class with their source, as the class has them, without those that Python calls."""
    seen = set[str]()
    for base in cls.__mro__:
        for method, function in vars(base).items() if base is not nn.Module else ():
            is_called = inspect.isfunction(function) and method != "forward" and not method.startswith("__")
            if is_called and method not in seen:
                yield method, tree_of(function)
            seen.add(method)


def _calls(node: ast.AST, method: str) -> bool:
    """Whether a node calls a method of `self`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called)):
            return called == method
        case _:
            return False


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a statement or a call sets an attribute of `self` to something that is not None, nor False."""
    match node:
        case ast.Assign(targets=targets, value=value):
            is_something = not (isinstance(value, ast.Constant) and _is_nothing(value.value))
            return is_something and any(_is_own(each, name) for each in targets)
        case ast.AnnAssign(target=target, value=ast.expr()):
            return _is_own(target, name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called), args=[ast.Constant(value=key), *_]):
            return called in _KEEPING and key == name
        case _:
            return False


def _is_own(target: ast.expr, name: str) -> bool:
    """Whether a target is an attribute of `self`, or has it among several."""
    return any(
        isinstance(each, ast.Attribute)
        and each.attr == name
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        for each in ast.walk(target)
    )
