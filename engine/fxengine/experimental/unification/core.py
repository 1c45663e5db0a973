"""``unify`` finds what variables stand for, ``reify`` puts it in their place."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from fxengine.experimental.unification.variable import isvar

__all__ = ["reify", "unifiable", "unify"]

_Solution: TypeAlias = dict[Any, Any]
_Class = TypeVar("_Class", bound=type)


def unifiable(cls: _Class) -> _Class:
    """Return ``cls``, whose instances are taken apart from now on, by their attributes."""
    cls.__fx_unifiable__ = True  # type: ignore[attr-defined] - the mark is ours.
    return cls


def reify(e: Any, s: _Solution) -> Any:
    """Return ``e`` with what ``s`` says in place of variables."""
    if isvar(e):
        return reify(s[e], s) if e in s else e
    match e:
        case tuple():
            return tuple(reify(item, s) for item in e)
        case list():
            return [reify(item, s) for item in e]
        case dict():
            return {key: reify(value, s) for key, value in e.items()}
        case slice():
            return slice(*reify((e.start, e.stop, e.step), s))
        case Iterator():
            return (reify(item, s) for item in e)
        case _ if _is_unifiable(e):
            return _reified_object(e, s)
        case _:
            return e


def _reified_object(e: Any, s: _Solution) -> Any:
    before = _attributes(e)
    after = reify(before, s)
    if before == after:
        return e
    result = object.__new__(type(e))
    for name, value in after.items():
        object.__setattr__(result, name, value)
    return result


def unify(u: Any, v: Any, s: _Solution | None = None) -> Any:
    """Return what variables stand for so that ``u`` and ``v`` are the same; False if they cannot be.

    Args:
        u: A value, a variable, or a structure of them.
        v: Another one.
        s: What is known of variables already; it is left as it is.

    Raises:
        NotImplementedError: The two are different and cannot be taken apart.
    """
    known = {} if s is None else s
    u, v = _walk(u, known), _walk(v, known)
    if u == v:
        return known
    if isvar(u):
        return {**known, u: v}
    if isvar(v):
        return {**known, v: u}
    if isinstance(u, tuple | list | Iterator) and isinstance(v, tuple | list | Iterator):
        return _unified_items(list(u), list(v), known)
    if isinstance(u, slice) and isinstance(v, slice):
        return unify((u.start, u.stop, u.step), (v.start, v.stop, v.step), known)
    if isinstance(u, dict) and isinstance(v, dict):
        if u.keys() != v.keys():
            return False
        return _unified_items(list(u.values()), [v[key] for key in u], known)
    if type(u) is type(v) and _is_unifiable(u):
        return unify(_attributes(u), _attributes(v), known)
    raise NotImplementedError(f"Could not unify {u!r} and {v!r}")


def _unified_items(first: Sequence[Any], second: Sequence[Any], known: _Solution) -> Any:
    if len(first) != len(second):
        return False
    found: Any = known
    for u, v in zip(first, second, strict=True):
        found = unify(u, v, found)
        if found is False:
            return False
    return found


def _walk(value: Any, known: _Solution) -> Any:
    """What a variable stands for in the end."""
    while isvar(value) and value in known:
        value = known[value]
    return value


def _is_unifiable(value: object) -> bool:
    return hasattr(type(value), "__fx_unifiable__")


def _attributes(value: Any) -> dict[str, Any]:
    slots = getattr(type(value), "__slots__", None)
    return dict(vars(value)) if slots is None else {name: getattr(value, name) for name in slots}
