"""Building a target on the meta device: the ways that the request names, in order, then what can be inferred.

Tensors are made on meta; where building needs values of tensors they are real ones on the CPU, and where even that
fails the whole model is built for real. A class that the file builds only inside another model may have no way of its
own: that is no fault, and the caller decides what to make of it.
"""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.loading import Loaded
from fxworker.meta import OnMeta
from fxworker.wire import Construct, TraceTarget

_Maker: TypeAlias = Callable[[Callable[[], Any]], Any]

EXPLICIT: Final = frozenset({"directive", "configuration"})
"""Ways that the person wrote down for us: one that fails is told, not passed over."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model, and the way that built it; None for a function, and for an instance, which the file built itself."""

    root: Any
    construct: Construct | None


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """Why there is no model.

    `error` is what the way `construct` raised; it is None where no way is known, and `tried` then says which arguments
    were inferred in vain, and `error` what the last ones raised.
    """

    construct: Construct | None
    error: BaseException | None
    unknown: bool = False
    missing: tuple[str, ...] = ()
    tried: str = ""


def build(target: TraceTarget, loaded: Loaded, hint: str = "", *, real: bool = False) -> Built | Unbuilt:
    """Return the model of a target, or why there is none.

    Args:
        target: What to build.
        loaded: The file's module, executed.
        hint: Arguments that were inferred before, to try before others are searched for.
        real: Whether it is to have real weights, to be run.
    """
    scope = scope_of(loaded)
    make = _directly if real else attempt
    try:
        found = _resolve(scope, target.qualname)
    except (KeyError, AttributeError) as error:
        return Unbuilt(None, error)
    if target.kind == "function":
        return Built(found, None)
    if target.kind == "instance" or isinstance(found, nn.Module):
        construct = target.constructs[0] if target.constructs else None
        if isinstance(found, nn.Module):
            return Built(found, construct)
        return Unbuilt(construct, TypeError(f"`{target.qualname}` is a {type(found).__name__}, not an nn.Module"))
    failed: Unbuilt | None = None
    for construct in target.constructs:
        result = _evaluate(construct, scope, make)
        if isinstance(result, Built):
            return result
        failed = failed or result
        if construct.source in EXPLICIT:
            return result
    if hint:
        result = _evaluate(Construct(hint, "inferred"), scope, make)
        if isinstance(result, Built):
            return result
    return _without_help(target, found, loaded, failed, make)


def scope_of(loaded: Loaded) -> dict[str, Any]:
    """Return the names that expressions about a file's models may use: the module's own, and torch's."""
    return {"torch": torch, "nn": nn, **loaded.namespace}


def attempt(build_it: Callable[[], Any]) -> Any:
    """Return what a callable builds, with as few real tensors as it allows.

    Raises:
        BaseException: What it raises on the meta device, unless it can be built for real.
    """
    try:
        with OnMeta():
            return build_it()
    except Exception as error:  # noqa: BLE001 — User code; what it needs of meta tensors shows in any exception.
        first = error
    try:
        with OnMeta(values_on_cpu=True):
            return build_it()
    except Exception as error:  # noqa: BLE001 — As above.
        if _same(error, first):
            raise first from None
    with contextlib.suppress(Exception):
        return build_it()
    raise first


def _without_help(
    target: TraceTarget, cls: Any, loaded: Loaded, failed: Unbuilt | None, make: _Maker
) -> Built | Unbuilt:
    """Build a class that nothing in the request could build: without arguments, or with inferred ones."""
    scope = scope_of(loaded)
    required = required_parameters(cls)
    if not required:
        result = _evaluate(Construct(f"{target.qualname}()", "no arguments"), scope, make)
        return result if isinstance(result, Built) or failed is None else failed
    search = Search(target.qualname, cls, scope, loaded.tree, attempt)
    found = search.run()
    if found is not None:
        expression, root = found
        construct = Construct(expression, "inferred")
        return Built(root, construct) if make is attempt else _evaluate(construct, scope, make)
    return failed or Unbuilt(None, search.error, unknown=True, missing=tuple(required), tried=search.tried)


def required_parameters(cls: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters that a class's constructor cannot do without; empty where it does not say."""
    try:
        parameters = inspect.signature(cls).parameters
    except (ValueError, TypeError):
        return {}
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in parameters.items() if each.default is each.empty and each.kind not in fixed}


def _directly(build_it: Callable[[], Any]) -> Any:
    return build_it()


def _evaluate(construct: Construct, scope: dict[str, Any], make: _Maker) -> Built | Unbuilt:
    try:
        code = compile(construct.expression.strip(), "<construct>", "eval")
        root = _model_in(make(lambda: eval(code, scope)))  # noqa: S307 — The person's own expression.
    except BaseException as error:  # noqa: BLE001 — User code; SystemExit too is an answer.
        return Unbuilt(construct, error)
    if root is None:
        return Unbuilt(construct, TypeError(f"`{construct.expression}` gives no nn.Module"))
    return Built(root, construct)


def _model_in(value: Any) -> nn.Module | None:
    """Return the model that an expression gave: itself, or the first of a tuple such as `(model, transforms)`."""
    if isinstance(value, nn.Module):
        return value
    if isinstance(value, tuple | list):
        return next((each for each in value if isinstance(each, nn.Module)), None)
    return None


def _resolve(scope: dict[str, Any], qualname: str) -> Any:
    first, *rest = qualname.split(".")
    value = scope[first]
    for name in rest:
        value = getattr(value, name)
    return value


def _same(error: BaseException, other: BaseException) -> bool:
    return type(error) is type(other) and str(error) == str(other)
